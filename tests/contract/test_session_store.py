"""What every session store promises to an agent: kept as given, counted right, refused clearly."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import (
    SessionEndedError,
    SessionExistsError,
    UnknownSessionError,
    UsageError,
)
from holdfast.model.arguments import MOST_NAMED
from holdfast.model.session import (
    Json,
    Message,
    Relation,
    Search,
    Session,
    SessionFilter,
    SessionOrder,
    Tokens,
)
from holdfast.ports.sessions import SessionStore
from tests.contract.factory import SESSION_STORES

NOW = 1_800_000_000.0
ID = "20260325_112518_6995d1"


@pytest.fixture(params=SESSION_STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    opened = SESSION_STORES[request.param](tmp_path / "home")
    yield opened
    opened.close()


def a_session(session_id: str = ID, **fields: object) -> Session:
    made = Session(id=session_id, source="cli", started_at=NOW, last_active_at=NOW)
    return replace(made, **fields)  # type: ignore[arg-type]


def said(content: Json, **fields: object) -> Message:
    return replace(Message(role="user", content=content), **fields)  # type: ignore[arg-type]


def contents(store: SessionStore, session_id: str = ID) -> list[Json]:
    return [message.content for message in store.messages(session_id)]


@pytest.mark.parametrize(
    "content",
    [
        "hello",
        "",
        None,
        "x" * 10_000,
        "lone \ud800 surrogate \udcff",
        "NUL \0 inside",
        "今天天气很好 🎉",
        [{"type": "text", "text": "a part"}, {"type": "image", "data": "A" * 5_000}],
        {"any": {"nested": [1, 2.5, None, True]}},
        7,
        [],
    ],
)
def test_content_comes_back_as_it_went_in(store: SessionStore, content: Json) -> None:
    store.create(a_session())
    store.append(ID, [said(content)], now=NOW)
    assert contents(store) == [content]


def test_every_field_comes_back(store: SessionStore) -> None:
    message = Message(
        role="assistant",
        content="text",
        timestamp=NOW - 5,
        tool_name="shell",
        tool_calls=[{"id": "1", "function": {"name": "ls", "arguments": "{}"}}],
        tool_call_id="1",
        reasoning={"text": "because " * 200},
        tokens=Tokens(input=3, output=4, cached=1),
        cost=0.25,
        extra={"finish_reason": "stop", "odd": [None, {"a": "\udc80"}]},
    )
    store.create(a_session())
    [number] = store.append(ID, [message], now=NOW).numbers
    assert list(store.messages(ID)) == [replace(message, number=number)]


def test_a_session_comes_back(store: SessionStore) -> None:
    parent = store.create(a_session())
    child = store.create(
        a_session(
            "child",
            parent_id=ID,
            relation=Relation.BRANCH,
            title="title",
            cwd="/work",
            model="m",
            pinned=True,
            routing_key="telegram:1",
            extra={"k": [1]},
        )
    )
    assert (parent.id, child.parent_id, child.relation) == (ID, ID, Relation.BRANCH)
    assert store.get("child") == child
    assert [each.id for each in store.find(SessionFilter(parent_id=ID))] == ["child"]


def test_totals_are_those_of_the_messages(store: SessionStore) -> None:
    store.create(a_session())
    store.append(
        ID,
        [
            said("héllo", tokens=5),
            Message(role="assistant", content=None, tool_calls=[{}, {}], tokens=7, cost=0.5),
            said("x", tokens=Tokens(input=1, output=2, cached=3)),
        ],
        now=NOW + 9,
    )
    after = store.get(ID)
    assert (after.message_count, after.tool_call_count) == (3, 2)
    assert after.tokens == Tokens(input=6, output=9, cached=3)
    assert after.cost == 0.5
    assert after.bytes > len("héllo".encode()) + 1
    assert after.last_active_at == NOW + 9


def test_an_append_is_all_or_nothing(store: SessionStore) -> None:
    store.create(a_session())
    with pytest.raises(UsageError):
        store.append(ID, [said("good"), said("bad", tokens=-1)], now=NOW)
    assert contents(store) == []
    assert store.get(ID).message_count == 0


@pytest.mark.parametrize(
    "bad",
    [
        {"tokens": -1},
        {"tokens": 10**30},
        {"tokens": Tokens(cached=-1)},
        {"cost": -0.1},
        {"cost": math.nan},
        {"timestamp": math.inf},
        {"role": ""},
        {"content": math.nan},
        {"content": object()},
        {"extra": {"a": {1, 2}}},
    ],
)
def test_nonsense_is_refused(store: SessionStore, bad: dict[str, object]) -> None:
    store.create(a_session())
    with pytest.raises(UsageError):
        store.append(ID, [replace(said("x"), **bad)], now=NOW)  # type: ignore[arg-type]
    assert store.get(ID).message_count == 0


@pytest.mark.parametrize("bad", ["", "../../x", "a/b", "x" * 300, "-rf", "a b", "a\n", "a..b", "é"])
def test_ids_are_checked_first(store: SessionStore, bad: str) -> None:
    with pytest.raises(UsageError):
        store.create(a_session(bad))
    with pytest.raises(UsageError):
        store.resolve(bad)
    assert store.count(SessionFilter()) == 0


def test_an_id_is_taken_whatever_its_case(store: SessionStore) -> None:
    store.create(a_session("Abc"))
    with pytest.raises(SessionExistsError, match="only in case"):
        store.create(a_session("aBC"))
    with pytest.raises(SessionExistsError):
        store.create(a_session("Abc"))


def test_ended_and_unknown_sessions_take_no_messages(store: SessionStore) -> None:
    store.create(a_session())
    store.end(ID, "done", at=NOW + 1)
    with pytest.raises(SessionEndedError):
        store.append(ID, [said("late")], now=NOW)
    with pytest.raises(UnknownSessionError) as caught:
        store.append(ID[:-1] + "f", [said("who")], now=NOW)
    assert caught.value.hint == f"Did you mean {ID}?"


def test_the_first_end_counts_and_reopening_clears_it(store: SessionStore) -> None:
    store.create(a_session())
    store.end(ID, "first", at=NOW + 1)
    assert store.end(ID, "second", at=NOW + 2).end_reason == "first"
    reopened = store.reopen(ID, at=NOW + 3)
    assert (reopened.ended, reopened.end_reason) == (False, None)
    assert reopened.last_active_at == NOW + 3


def test_a_clock_that_runs_backwards_loses_no_order(store: SessionStore) -> None:
    store.create(a_session())
    store.append(ID, [said("first")], now=NOW + 100)
    store.append(ID, [said("second")], now=NOW - 100)
    assert contents(store) == ["first", "second"]


def test_a_clock_that_jumped_ahead_does_not_keep_a_session_alive(
    store: SessionStore,
) -> None:
    store.create(a_session())
    store.append(ID, [said("from the future", timestamp=NOW + 10**9)], now=NOW + 1)
    assert store.get(ID).last_active_at == NOW + 1


def test_a_routing_key_leads_to_one_session(store: SessionStore) -> None:
    store.create(a_session("one", routing_key="k"))
    store.create(a_session("two", routing_key="k"))
    routed = store.routed("k")
    assert routed is not None
    assert routed.id == "two"
    assert store.get("one").routing_key is None
    assert store.routed("other") is None


def test_filters_combine(store: SessionStore) -> None:
    store.create(a_session("a1", title="Fix the Bug", cwd="/work/one", model="big-model"))
    store.create(a_session("b1", source="cron", last_active_at=NOW - 100, cwd="/work/oneself"))
    store.create(a_session("c1", last_active_at=NOW - 200, pinned=True, cwd="/work"))
    store.end("c1", "done", at=NOW)
    store.append("a1", [said("x", tokens=10, cost=1.0)], now=NOW)

    def ids(**fields: object) -> set[str]:
        return {each.id for each in store.find(SessionFilter(**fields))}  # type: ignore[arg-type]

    assert ids() == {"a1", "b1", "c1"}
    assert ids(title="the bug") == {"a1"}
    assert ids(sources=("cron", "x")) == {"b1"}
    assert ids(cwd="/work/one") == {"a1"}
    assert ids(cwd="/work/") == {"a1", "b1", "c1"}
    assert ids(cwd="/") == {"a1", "b1", "c1"}
    assert ids(model="BIG") == {"a1"}
    assert ids(ended=True) == {"c1"} == ids(end_reasons=("done",)) == ids(pinned=True)
    assert ids(titled=False, ended=False) == {"b1"}
    assert ids(active_before=NOW - 50) == {"b1"}, "to end is to be active"
    assert ids(active_before=NOW - 50, active_after=NOW - 150) == {"b1"}
    assert ids(active_after=NOW - 50) == {"a1", "c1"}
    assert ids(min_messages=1) == {"a1"} == ids(min_tokens=10, max_tokens=10, min_cost=0.5)
    assert ids(max_messages=0, max_cost=0.0) == {"b1", "c1"}
    assert ids(ids=(*(f"n{i}" for i in range(40_000)), "c1")) == {"c1"}
    assert store.count(SessionFilter(ended=False)) == 2


def test_lists_are_sorted_and_paged(store: SessionStore) -> None:
    for number in range(5):
        store.create(a_session(f"s{number}", last_active_at=NOW + number, started_at=NOW - number))
    newest = [each.id for each in store.find(SessionFilter(), limit=2)]
    assert newest == ["s4", "s3"]
    assert [each.id for each in store.find(SessionFilter(), limit=2, offset=2)] == ["s2", "s1"]
    started = store.find(SessionFilter(), order_by=SessionOrder.STARTED, limit=1)
    assert started[0].id == "s0"


def test_a_prefix_stands_for_its_session(store: SessionStore) -> None:
    for session_id in ("20260101_b", "20260101_a", "20260102", "20260102_x"):
        store.create(a_session(session_id))
    assert store.resolve("20260101_a") == "20260101_a"
    assert store.resolve("20260102") == "20260102"  # whole before prefix
    assert store.resolve("20260102_") == "20260102_x"
    with pytest.raises(UsageError, match=r"any of 2 sessions:\n  20260101_a\n  20260101_b"):
        store.resolve("20260101")
    with pytest.raises(UnknownSessionError):
        store.resolve("2027")


def test_candidates_of_one_moment_are_named_in_one_order(store: SessionStore) -> None:
    ids = [f"2026{number:02}" for number in range(40)]
    for session_id in [*ids[1::2], *reversed(ids[::2])]:
        store.create(a_session(session_id))
    with pytest.raises(UsageError, match="The newest:\n  " + "\n  ".join(ids[:MOST_NAMED])):
        store.resolve("2026")


def test_messages_are_paged(store: SessionStore) -> None:
    store.create(a_session())
    numbers = store.append(ID, [said(str(n)) for n in range(1_203)], now=NOW).numbers
    assert contents(store) == [str(n) for n in range(1_203)]
    some = list(store.messages(ID, after=numbers[9], limit=600))
    assert [message.content for message in some] == [str(n) for n in range(10, 610)]


def test_a_transaction_is_all_or_nothing(store: SessionStore) -> None:
    store.create(a_session())
    with pytest.raises(SessionExistsError), store.transaction():  # noqa: PT012 - one transaction
        store.append(ID, [said("x")], now=NOW)
        store.create(a_session("other"))
        store.create(a_session(ID))
    assert store.count(SessionFilter()) == 1
    assert contents(store) == []


def test_a_store_survives_a_fork(store: SessionStore) -> None:
    """A child opens its own connection; the parent's stays usable."""
    store.create(a_session())
    pid = os.fork()
    if pid == 0:
        try:
            store.append(ID, [said("child")], now=NOW)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    store.append(ID, [said("parent")], now=NOW)
    assert contents(store) == ["child", "parent"]


def test_fifty_megabytes_in_one_message(store: SessionStore) -> None:
    """Stored and given back whole; searched by its beginning, so that nobody waits for long."""
    store.create(a_session())
    text = "needle " + "straw " * 8_500_000 + "thread"
    store.append(ID, [said(text)] + [said("x")] * 300, now=NOW)
    assert next(store.messages(ID)).content == text
    assert store.get(ID).bytes > 50_000_000
    assert len(store.search(Search(text="needle"))) == 1
    assert len(store.search(Search(text="thread"))) == 0

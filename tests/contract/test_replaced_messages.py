"""Messages taken back, replaced and summed up: history stays, and everything counted stays true."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.api.sessions import open_sessions
from holdfast.errors import SessionEndedError, UnknownSessionError, UsageError
from holdfast.model.session import Json, Message, Session, Tokens
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.policy.session_limits import SessionLimits
from holdfast.services.async_sessions import AsyncSessions
from holdfast.services.sessions import REPLACES, Sessions
from tests.stored import check_whole, opened

NOW = 1_800_000_000.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def sessions(root: Path) -> Iterator[Sessions]:
    options = SessionOptions(transcripts={"default": Transcript.JSONL})
    with open_sessions(root, options=options, clock=lambda: NOW) as made:
        yield made
    check_whole(root)


def said(text: str, **fields: object) -> Message:
    return replace(Message("assistant", text, tokens=10, cost=0.5), **fields)  # type: ignore[arg-type]


@pytest.fixture
def session(sessions: Sessions) -> Session:
    made = sessions.create(source="cli", id="s", model="first")
    return sessions.append(made, said("one"), said("two"), said("three")).session


def texts(sessions: Sessions, *, with_replaced: bool = False) -> list[Json]:
    return [each.content for each in sessions.messages("s", with_replaced=with_replaced)]


def spent(root: Path) -> dict[str | None, tuple[int, float]]:
    with opened(root) as store:
        return {
            each.model: (each.usage.tokens.total, each.usage.cost) for each in store.usage_entries()
        }


def test_a_turn_is_tried_again(sessions: Sessions, session: Session, root: Path) -> None:
    [*_, last] = sessions.messages("s")
    done = sessions.replace_messages(session, [said("again")], after=(last.number or 0) - 1)
    assert texts(sessions) == ["one", "two", "again"]
    assert texts(sessions, with_replaced=True) == ["one", "two", "three", "again"]
    assert done.session.message_count == 3
    assert done.session.tokens.total == 40
    assert done.session == sessions.get("s")
    assert spent(root) == {"first": (40, 2.0)}
    assert [hit.message.content for hit in sessions.search("three OR again")] == ["again"]


def test_a_turn_is_undone(sessions: Sessions, session: Session) -> None:
    second = list(sessions.messages("s"))[1]
    left = sessions.take_back("s", second.number or 0).session
    assert texts(sessions) == ["one"]
    assert left.message_count == 1
    assert left.cost == session.cost == 1.5
    assert [each.taken_back for each in sessions.messages("s", with_replaced=True)] == [
        False,
        True,
        True,
    ]


def test_a_conversation_is_summed_up(sessions: Sessions, session: Session, root: Path) -> None:
    *_, last = sessions.messages("s")
    done = sessions.compact("s", [Message("system", "summary"), last])
    assert texts(sessions) == ["summary", "three"]
    assert done.session.message_count == 4
    assert done.session.tokens == session.tokens
    assert spent(root) == {"first": (30, 1.5)}
    [_, kept] = sessions.messages("s")
    assert replace(kept, number=last.number) == last
    assert [hit.message.content for hit in sessions.search("two")] == ["two"]


def test_what_is_stored_and_unchanged_stays(sessions: Sessions, session: Session) -> None:
    before = list(sessions.messages("s"))
    same = sessions.replace_messages("s", before)
    assert same.session == session
    assert list(sessions.messages("s", with_replaced=True)) == before
    done = sessions.replace_messages("s", [*before, said("four")])
    assert list(sessions.messages("s"))[:3] == before
    assert list(done.numbers[:3]) == [each.number for each in before]


def test_an_edited_message_is_not_paid_twice(
    sessions: Sessions, session: Session, root: Path
) -> None:
    one, two, three = sessions.messages("s")
    sessions.replace_messages("s", [one, replace(two, content="shorter"), three])
    assert texts(sessions) == ["one", "shorter", "three"]
    assert sessions.get("s").tokens == session.tokens
    assert spent(root) == {"first": (30, 1.5)}


def test_history_can_come_back(sessions: Sessions, session: Session, root: Path) -> None:
    before = list(sessions.messages("s"))
    sessions.take_back("s", before[1].number or 0)
    history = list(sessions.messages("s", with_replaced=True))
    sessions.replace_messages("s", history)
    assert texts(sessions) == ["one", "two", "three"]
    assert sessions.get("s").message_count == 3
    assert spent(root) == {"first": (30, 1.5)}


def test_a_replacement_changes_the_version(sessions: Sessions, session: Session) -> None:
    """Even of as many messages at the same moment: a plan that was made before must not hold."""
    versions = {session.version}
    for text in ("a", "b", "a"):
        versions.add(sessions.replace_messages("s", [said(text)], after=2).session.version)
    assert len(versions) == 4


def test_numbers_are_never_used_twice(sessions: Sessions, session: Session) -> None:
    seen = {each.number for each in sessions.messages("s")}
    for _ in range(3):
        *_, last = sessions.messages("s")
        done = sessions.compact("s", [Message("system", "summary"), last])
        assert not seen & set(done.numbers)
        seen |= set(done.numbers)


def test_an_ended_or_unknown_session_is_refused(sessions: Sessions, session: Session) -> None:
    sessions.end("s")
    with pytest.raises(SessionEndedError):
        sessions.take_back("s", 1)
    with pytest.raises(UnknownSessionError):
        sessions.replace_messages("nobody", [])
    with pytest.raises(UsageError):
        sessions.take_back("s", -1)


def test_a_transcript_only_grows(sessions: Sessions, session: Session, root: Path) -> None:
    path = root / "sessions" / "s.jsonl"
    before = path.read_bytes()
    *_, last = sessions.messages("s")
    sessions.compact("s", [Message("system", "summary"), last])
    after = path.read_bytes()
    assert after.startswith(before)
    conversation: list[Json] = []
    for line in map(json.loads, after.splitlines()):
        if REPLACES in line:
            del conversation[len(conversation) - line[REPLACES] :]
        else:
            conversation.append(line["content"])
    assert conversation == texts(sessions)


def test_a_limit_holds_for_a_replacement(root: Path) -> None:
    options = SessionOptions(limits=SessionLimits(max_messages=3))
    with open_sessions(root, options=options, clock=lambda: NOW) as sessions:
        sessions.create(source="cli", id="s")
        sessions.append("s", said("one"), said("two"))
        done = sessions.replace_messages("s", [said("a"), said("b"), said("c")])
        assert done.session.end_reason == "limit"
        assert done.continued_as is not None
        assert sessions.tip("s") == done.continued_as


def test_a_change_of_model_leaves_the_past_in_the_ledger(
    sessions: Sessions, session: Session, root: Path
) -> None:
    changed = sessions.update("s", model="second", cwd=Path("/work"), extra={"rating": 5})
    assert (changed.model, changed.cwd, changed.extra) == ("second", "/work", {"rating": 5})
    assert changed.version != session.version
    sessions.append("s", said("four"))
    assert spent(root) == {"first": (30, 1.5), "second": (10, 0.5)}
    assert [each.model for each in sessions.messages("s")] == ["first"] * 3 + [None]
    cleared = sessions.update("s", model=None, cwd=None)
    assert (cleared.model, cleared.cwd, cleared.extra) == (None, None, {"rating": 5})
    assert sessions.update("s").version == cleared.version


def test_an_update_keeps_what_holdfast_noted(sessions: Sessions, session: Session) -> None:
    noted = sessions.create(source="cli", extra={"holdfast_awaited_parent": "p", "mine": 1})
    changed = sessions.update(noted, extra={"mine": 2})
    assert changed.extra == {"holdfast_awaited_parent": "p", "mine": 2}
    with pytest.raises(UsageError):
        sessions.update(noted, extra="text")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        sessions.update(noted, model=7)  # type: ignore[arg-type]


def test_a_plain_dict_is_a_message(sessions: Sessions) -> None:
    sessions.create(source="cli", id="s")
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
    usage = {"role": "assistant", "content": "hi", "tokens": {"input": 3, "output": 4}}
    sessions.append("s", {"role": "user", "content": "hi"}, call, usage, Message("user", "hi"))
    stored = list(sessions.messages("s"))
    assert [each.role for each in stored] == ["user", "assistant", "assistant", "user"]
    assert stored[2].tokens == Tokens(input=3, output=4)
    assert Message("user", "hi") == Message(role="user", content="hi")


#: An API of a model has more fields.
EXTRA = "Put other fields into `extra`."
FIELDS = (
    "content, cost, extra, number, reasoning, role, timestamp, tokens, tool_call_id, tool_calls,"
    " tool_name"
)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"rol": "user"}, f"Did you mean `role`? {EXTRA}"),
        ({"role": "user", "contents": "hi"}, f"Did you mean `content`? {EXTRA}"),
        (
            {"role": "assistant", "content": "hi", "refusal": None},
            f"Known names: {FIELDS}. {EXTRA}",
        ),
        ({"role": "user", "tokens": {"inputs": 3}}, "Did you mean `input`?"),
        ({"content": "hi"}, None),
        ("hi", None),
        (None, None),
    ],
)
def test_what_is_no_message_is_refused(
    sessions: Sessions, session: Session, wrong: object, hint: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        sessions.append("s", wrong)  # type: ignore[arg-type]
    assert caught.value.hint == hint
    assert sessions.get("s") == session


def test_the_same_with_asyncio(root: Path) -> None:
    async def talk() -> list[list[Json]]:
        async with AsyncSessions(open_sessions(root, clock=lambda: NOW)) as sessions:
            made = await sessions.create(source="cli", id="s")
            await sessions.append(made, *({"role": "user", "content": f"{n}"} for n in range(450)))
            await sessions.take_back(made, 449)
            assert await sessions.count(source="cli") == 1
            return [
                [each.content async for each in sessions.messages(made)],
                [each.content async for each in sessions.messages(made, last=3)],
                [each.content async for each in sessions.messages(made, after=5, before=8)],
                [each.content async for each in sessions.messages(made, limit=2)],
            ]

    every = [f"{n}" for n in range(448)]
    assert asyncio.run(talk()) == [every, every[-3:], every[5:7], every[:2]]

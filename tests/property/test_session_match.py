"""A filter picks the same sessions in the archive, in Python, as in the store, in SQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.session import Message, Relation, Session, SessionFilter, Tokens
from holdfast.policy.session_filter import matches
from tests.session_stores import a_store, over_all

# Few letters, so that filters hit; among them those whose case SQLite does not fold.
TEXT = st.text(alphabet="aAbé\u00c9İ/. %_", max_size=5)
FOLDERS = st.sampled_from(["/", "/a", "/a/", "/a/b", "/ab", "/É", "", "a"])
TIMES = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 1e9])
COUNTS = st.integers(0, 4)
COSTS = st.sampled_from([0.0, 0.1, 0.5, 1.0])
SOURCES = st.sampled_from(["cli", "cron", "CLI"])
REASONS = st.sampled_from(["done", "limit", "Done"])


@st.composite
def sessions(draw: st.DrawFn, number: int) -> tuple[Session, list[Message]]:
    ended = draw(st.none() | st.tuples(TIMES, REASONS))
    parent = None if number == 0 else draw(st.none() | st.integers(0, number - 1))
    session = Session(
        id=f"s{number}",
        source=draw(SOURCES),
        started_at=draw(TIMES),
        last_active_at=draw(TIMES),
        parent_id=None if parent is None else f"s{parent}",
        relation=None if parent is None else draw(st.sampled_from(Relation)),
        title=draw(st.none() | TEXT),
        cwd=draw(st.none() | FOLDERS),
        model=draw(st.none() | TEXT),
        ended_at=ended and ended[0],
        end_reason=ended and ended[1],
        pinned=draw(st.booleans()),
        routing_key=draw(st.none() | st.just(f"key {number}")),
    )
    messages = st.builds(
        Message,
        role=st.just("user"),
        content=TEXT,
        tokens=st.builds(Tokens, input=COUNTS, output=COUNTS),
        cost=st.none() | COSTS,
        timestamp=TIMES,
    )
    return session, draw(st.lists(messages, max_size=3))


@st.composite
def stores(draw: st.DrawFn) -> list[tuple[Session, list[Message]]]:
    return [draw(sessions(number)) for number in range(draw(st.integers(1, 6)))]


def some(each: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...] | None]:
    return st.none() | st.lists(each, max_size=3).map(tuple)


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "ids": some(st.sampled_from(["s0", "s1", "s2", "S1", "s9"])),
    "not_ids": some(st.sampled_from(["s0", "s1", "s2", "S1", "s9"])),
    "id_prefix": st.sampled_from(["s", "s1", "S", "s1x"]),
    "sources": some(SOURCES),
    "not_sources": some(SOURCES),
    "title": TEXT.filter(bool),
    "title_is": TEXT.filter(bool),
    "end_reasons": some(REASONS),
    "cwd": FOLDERS.filter(bool),
    "model": TEXT.filter(bool),
    "routing_key": st.sampled_from(["key 0", "key 1", "KEY 1"]),
    "parent_id": st.sampled_from(["s0", "s1", "S0"]),
    "relations": some(st.sampled_from(Relation)),
    "roots": st.booleans(),
    "ended": st.booleans(),
    "pinned": st.booleans(),
    "titled": st.booleans(),
    "agent_archived": st.booleans(),
    "active_before": TIMES,
    "active_after": TIMES,
    "vaulted": st.sampled_from((None, True, False)),
    "started_before": TIMES,
    "started_after": TIMES,
    "min_messages": COUNTS,
    "max_messages": COUNTS,
    "min_bytes": st.integers(0, 12),
    "min_tokens": COUNTS,
    "max_tokens": COUNTS,
    "min_cost": COSTS,
    "max_cost": COSTS,
}


def test_every_field_of_a_filter_is_drawn() -> None:
    assert set(FIELDS) == set(SessionFilter.__slots__)


def filters() -> st.SearchStrategy[SessionFilter]:
    """One field alone, which no other can cover up for, or several."""
    one = st.sampled_from(sorted(FIELDS)).flatmap(
        lambda name: st.fixed_dictionaries({name: FIELDS[name]})
    )
    many = st.fixed_dictionaries({}, optional=FIELDS)
    return st.one_of(one, many).map(lambda fields: SessionFilter(**fields))


@over_all
@given(stored=stores(), wanted=st.lists(filters(), min_size=1, max_size=8))
def test_python_and_sql_agree(
    kind: str, stored: list[tuple[Session, list[Message]]], wanted: list[SessionFilter]
) -> None:
    with a_store(kind) as store:
        for session, messages in stored:
            store.create(replace(session, ended_at=None, end_reason=None))
            store.append(session.id, messages, now=1.0)
            if session.ended_at is not None:
                store.end(session.id, session.end_reason or "", at=session.ended_at)
        everything = store.find(SessionFilter())
        for each in wanted:
            by_sql = {session.id for session in store.find(each)}
            assert {session.id for session in everything if matches(each, session)} == by_sql, each

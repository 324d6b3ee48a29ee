"""Export, import and export again give the same bytes, whatever the sessions hold."""

from __future__ import annotations

import io
import json
import string
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any, Self, cast
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from holdfast.model.session import (
    AWAITED_PARENT,
    Json,
    Message,
    Relation,
    Session,
    SessionFilter,
    Tokens,
)
from holdfast.ports.sessions import SessionStore
from holdfast.services.exchange.json_lines import LineText
from holdfast.services.exchange.redactor import Redactor
from holdfast.services.exchange.session_export import export_sessions
from holdfast.services.exchange.session_import import ImportReport, import_sessions
from holdfast.services.exchange.session_line import (
    MESSAGE_FIELDS,
    SESSION_FIELDS,
    SET_APART,
)
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.builders import NOW
from tests.session_stores import a_store, kind_of, over_all_deep

IDS = [*"abcdef"]
NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([0, -1, 2**53 + 1, 2**63, -(10**40), 10**300]),
    st.floats(allow_nan=False, allow_infinity=False),
)
#: Any character, halves of characters among them, and some that have often gone wrong.
TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(alphabet='\0\ud83d\udc1a\ud800é漢\n"\\\x7f\u2028', max_size=8),
    st.sampled_from(["", "null", "0", "\ud83d\ude00", "a" * 300, "\ud800" * 200]),
)
WHOLE_TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.one_of(
    st.sampled_from(sorted(SESSION_FIELDS | MESSAGE_FIELDS | {SET_APART, AWAITED_PARENT})),
    TEXTS,
)
VALUES: SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.sampled_from(IDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
EXTRAS = st.dictionaries(NAMES, VALUES, max_size=3)
TIMES = st.one_of(
    st.floats(min_value=-1e12, max_value=1e12), st.integers(-(2**40), 2**40).map(float)
)
COUNTS = st.integers(0, 10**6)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant", "tool", "ro\0le é"]),
    content=VALUES,
    timestamp=TIMES,
    tool_name=st.none() | TEXTS,
    tool_calls=VALUES,
    tool_call_id=st.none() | TEXTS,
    reasoning=VALUES,
    tokens=st.one_of(
        st.none(), COUNTS, st.builds(Tokens, input=COUNTS, output=COUNTS, cached=COUNTS)
    ),
    cost=st.none() | st.floats(0, 1000) | st.integers(0, 5),
    extra=EXTRAS,
)


@st.composite
def sessions(draw: st.DrawFn) -> list[tuple[Session, list[Message]]]:
    """A few sessions, parents before children, as hosts would make them."""
    made: list[tuple[Session, list[Message]]] = []
    for session_id in draw(st.lists(st.sampled_from(IDS), unique=True, max_size=3)):
        started_at = draw(TIMES)
        ended_at = draw(st.none() | TIMES)
        session = Session(
            id=session_id,
            source=draw(WHOLE_TEXTS),
            started_at=started_at,
            last_active_at=started_at,
            parent_id=draw(st.sampled_from([None, *(each.id for each, _ in made)])),
            relation=draw(st.sampled_from([None, *Relation])),
            title=draw(st.none() | WHOLE_TEXTS),
            cwd=draw(st.none() | WHOLE_TEXTS),
            model=draw(st.none() | WHOLE_TEXTS),
            ended_at=ended_at,
            end_reason=None if ended_at is None else draw(WHOLE_TEXTS),
            pinned=draw(st.booleans()),
            routing_key=draw(st.none() | st.just(f"key {session_id}")),
            extra=draw(EXTRAS),
        )
        made.append((session, draw(st.lists(MESSAGES, max_size=4))))
    return made


class Stores:
    """Fresh stores in one folder, closed together."""

    def __init__(self, kind: str = "sqlite") -> None:
        self._kind = kind
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def new(self) -> SessionStore:
        store = self._open.enter_context(a_store(self._kind))
        if isinstance(store, SqliteSessionStore):  # nobody pulls the plug
            store.database.connection().execute("PRAGMA synchronous = OFF")
        return cast("SessionStore", store)


def exported(store: SessionStore, redactor: Redactor | None = None) -> bytes:
    sink = io.BytesIO()
    export_sessions(store, SessionFilter(), sink, redactor=redactor)
    return sink.getvalue()


def brought(store: SessionStore, data: bytes) -> ImportReport:
    return import_sessions(
        kind_of(store).importing(store), io.BytesIO(data), replace=False, now=NOW
    )


def keep(store: SessionStore, made: list[tuple[Session, list[Message]]]) -> None:
    importing = kind_of(store).importing(store)
    with importing:
        for session, messages in made:
            importing.add(session, messages, now=NOW)


@over_all_deep
@settings(max_examples=40)
@given(made=sessions())
def test_export_import_export_gives_the_same_bytes(
    kind: str, made: list[tuple[Session, list[Message]]]
) -> None:
    with Stores(kind) as stores:
        first, second = stores.new(), stores.new()
        keep(first, made)
        data = exported(first)
        data.decode("ascii")
        report = brought(second, data)
        assert report.refused == ()
        assert report.imported == len(made)
        assert report.messages == sum(len(messages) for _, messages in made)
        assert exported(second) == data
        for session in first.find(SessionFilter()):
            other = second.get(session.id)
            assert (session.tokens, session.tool_call_count, session.last_active_at) == (
                other.tokens,
                other.tool_call_count,
                other.last_active_at,
            )
            assert same(session.extra, other.extra) or AWAITED_PARENT in session.extra
            mine, others = store_messages(first, session.id), store_messages(second, session.id)
            assert same(mine, others)


def store_messages(store: SessionStore, session_id: str) -> list[Any]:
    messages = [replace(message, number=None) for message in store.messages(session_id)]
    return [asdict(message) for message in messages]


def same(one: Any, other: Any) -> bool:
    """Equal as JSON text: two halves that meet are the character, and 1 is not 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


LINE_NAMES = st.one_of(NAMES, st.text(string.ascii_lowercase, max_size=5))


@over_all_deep
@settings(max_examples=40)
@given(
    data=st.lists(
        st.fixed_dictionaries(
            {
                "id": st.sampled_from(IDS),
                "source": TEXTS,
                "started_at": TIMES | st.integers(0, 2**31),
                "messages": st.lists(
                    st.fixed_dictionaries(
                        {"role": st.sampled_from(["user", "assistant"])},
                        optional={
                            "content": VALUES,
                            "timestamp": st.none() | TIMES,
                            "tokens": st.none() | COUNTS | st.just({"in": 1}),
                            "cost": st.none() | st.integers(0, 5),
                            "mood": VALUES,
                            SET_APART: VALUES,
                        },
                    ),
                    max_size=3,
                ),
            },
            optional={
                "parent_id": st.none() | st.sampled_from(IDS),
                "relation": st.sampled_from([None, "branch", "delegate"]),
                "title": st.none() | TEXTS,
                "ended_at": st.none() | TIMES,
                "end_reason": st.none() | TEXTS,
                "routing_key": st.sampled_from([None, "k"]),
                "mood": VALUES,
                SET_APART: VALUES,
                AWAITED_PARENT: VALUES,
            },
        ),
        max_size=4,
    )
)
def test_any_file_is_stable_from_its_first_export_on(kind: str, data: list[dict[str, Any]]) -> None:
    lines = "\n".join(json.dumps(line) for line in data).encode()
    with Stores(kind) as stores:
        first, second = stores.new(), stores.new()
        report = brought(first, lines)
        assert len(report.refused) + report.imported + len(report.skipped) == len(data)
        once = exported(first)
        again = brought(second, once)
        assert (again.refused, again.imported) == ((), report.imported)
        assert exported(second) == once


@example(value=0.5, pieces=1, indent=None)
@example(value=[-1.5e-300, 1e20, 0], pieces=1, indent=None)
@given(value=VALUES, pieces=st.integers(1, 9), indent=st.sampled_from([None, 1]))
def test_a_line_reads_the_same_in_pieces_of_any_size(
    value: Json, pieces: int, indent: int | None
) -> None:
    raw = json.dumps({"a": value, "list": [value, value, 5]}, indent=indent).encode()
    source = io.BytesIO(raw[3:])
    with patch("holdfast.services.exchange.json_lines._PIECE", pieces):
        text = LineText(raw[:3], source.read)
        read: dict[str, Any] = {}
        for key in text.keys():  # noqa: SIM118 - a walk through the text, no mapping
            read[key] = list(text.items()) if key == "list" else text.value()
        text.finish()
    assert same(read, json.loads(raw))


@settings(max_examples=40)
@given(made=sessions())
def test_redaction_keeps_the_structure(made: list[tuple[Session, list[Message]]]) -> None:
    """Nothing secret in it: nothing changes. And what was redacted once is not again."""
    with Stores() as stores:
        store = stores.new()
        keep(store, made)
        redactor = Redactor()
        data = exported(store, redactor)
        if not redactor.counts:
            assert data == exported(store)
        other = stores.new()
        assert brought(other, data).refused == ()
        again = Redactor()
        assert exported(other, again) == data
        assert again.counts == {}

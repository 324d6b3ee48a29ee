"""Export from the SQLite store: the form of a line, order, redaction, and honest failure."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BusyError
from holdfast.model.session import Message, Session, SessionFilter, Tokens
from holdfast.ports.sessions import SessionStore
from holdfast.services.exchange.markdown import export_markdown
from holdfast.services.exchange.redactor import Redactor
from holdfast.services.exchange.session_export import ExportReport, export_sessions
from holdfast.services.exchange.session_line import SET_APART, session_line
from tests.builders import NOW
from tests.session_stores import BOTH, kind_of, opened_for


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    yield from opened_for(request, tmp_path)


def a_session(session_id: str, started_at: float = NOW - 100, **fields: Any) -> Session:
    session = Session(id=session_id, source="cli", started_at=started_at, last_active_at=started_at)
    return replace(session, **fields)


def test_the_form_of_a_line(store: SessionStore) -> None:
    store.create(
        a_session(
            "a",
            5.0,
            title="é",
            pinned=True,
            routing_key="k",
            extra={"mood": "blue", "title": "host's own", SET_APART: 1},
        )
    )
    store.append(
        "a",
        [
            Message(role="user", content="\ud800", timestamp=6.0),
            Message(
                role="assistant",
                timestamp=7.0,
                extra={"role": "own", "x": None},
                cost=0.5,
                tokens=Tokens(input=1),
                reasoning="r",
                tool_call_id="",
                tool_calls=[],
                tool_name="t",
            ),
        ],
        now=NOW,
    )
    sink = io.BytesIO()
    assert export_sessions(store, SessionFilter(), sink) == ExportReport(sessions=1, messages=2)
    assert sink.getvalue().decode("ascii") == (
        '{"id":"a","source":"cli","parent_id":null,"relation":null,"title":"\\u00e9","cwd":null,'
        '"model":null,"started_at":5.0,"ended_at":null,"end_reason":null,"pinned":true,'
        '"routing_key":"k","mood":"blue",'
        '"holdfast_extra":{"title":"host\'s own","holdfast_extra":1},"messages":['
        '{"role":"user","content":"\\ud800","timestamp":6.0},'
        '{"role":"assistant","content":null,"timestamp":7.0,"tool_name":"t","tool_calls":[],'
        '"tool_call_id":"","reasoning":"r","tokens":{"in":1,"out":0,"cached":0},"cost":0.5,'
        '"x":null,"holdfast_extra":{"role":"own"}}]}\n'
    )


def test_in_pieces_however_long() -> None:
    messages = (Message(role="user", content="x" * 1_000) for _ in range(1_000))
    pieces = session_line(a_session("a"), messages)
    assert max(map(len, pieces)) < 2_000


def test_by_start_and_id_whatever_the_store_did_last(store: SessionStore) -> None:
    for session_id, started_at in (("b", 2.0), ("c", 1.0), ("a", 2.0)):
        store.create(a_session(session_id, started_at))
    store.append("c", [Message(role="user")], now=NOW)
    sink = io.BytesIO()
    export_sessions(store, SessionFilter(), sink)
    ids = [json.loads(line)["id"] for line in sink.getvalue().splitlines()]
    assert ids == ["c", "a", "b"]
    sink = io.BytesIO()
    export_sessions(store, SessionFilter(ids=("b",)), sink)
    assert json.loads(sink.getvalue())["id"] == "b"


def test_redacted_and_counted(store: SessionStore) -> None:
    secret = "gh" + "p_" + "a1B2" * 9
    store.create(a_session("a", title=f"with {secret}"))
    store.append("a", [Message(role="user", content=secret), Message(role="user")], now=NOW)
    for form in (session_line, export_markdown):
        sink = io.BytesIO()
        report = export_sessions(store, SessionFilter(), sink, form=form, redactor=Redactor())
        assert secret.encode() not in sink.getvalue()
        assert b"redacted:github-token" in sink.getvalue()
        assert report.to_json() == {
            "sessions": 1,
            "messages": 2,
            "redacted": {"github-token": 2},
            "stopped": False,
        }


class ReplacingSink:
    """Another process replaces the session while it is being written."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._written = 0

    def write(self, data: bytes, /) -> None:
        if not self._written:
            run = kind_of(self._store).importing(self._store)
            with run:
                run.replace(a_session("a"), [], now=NOW)
        self._written += len(data)


def test_a_session_that_changes_under_the_export_is_no_whole_one(
    store: SessionStore,
) -> None:
    store.create(a_session("a"))
    store.append("a", [Message(role="user")] * 600, now=NOW)
    with pytest.raises(BusyError, match="a was removed or replaced"):
        export_sessions(store, SessionFilter(), ReplacingSink(store))


class Stopping:
    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int | None]] = []

    def step(self, label: str, done: int, total: int | None) -> None:
        self.steps.append((label, done, total))

    def stop_requested(self) -> bool:
        return len(self.steps) == 2


def test_progress_and_stop(store: SessionStore) -> None:
    for session_id in ("a", "b", "c"):
        store.create(a_session(session_id))
    progress = Stopping()
    report = export_sessions(store, SessionFilter(), io.BytesIO(), progress=progress)
    assert (report.sessions, report.stopped) == (1, True)
    assert progress.steps == [("exporting sessions", 0, 3), ("exporting sessions", 1, 3)]

"""Import into the SQLite store: whole sessions, refusals by line, parents, replacement."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StorageError
from holdfast.model.session import Message, Search, Session, SessionFilter, Tokens
from holdfast.ports.sessions import SessionStore
from holdfast.services.exchange import json_lines
from holdfast.services.exchange.session_export import export_sessions
from holdfast.services.exchange.session_import import ImportReport, import_sessions
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.builders import NOW
from tests.session_stores import BOTH, in_file, kind_of, opened_for


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    yield from opened_for(request, tmp_path)


def a_line(session_id: str = "a", *texts: str, **fields: Any) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": text, "timestamp": NOW - 50 + place}
        for place, text in enumerate(texts)
    ]
    base = {"id": session_id, "source": "cli", "started_at": NOW - 100, "messages": messages}
    return base | fields


def bring(
    store: SessionStore, *lines: dict[str, Any] | str | bytes, replace: bool = False
) -> ImportReport:
    raw = [json.dumps(line) if isinstance(line, dict) else line for line in lines]
    data = b"\n".join(line.encode() if isinstance(line, str) else line for line in raw)
    return import_sessions(
        kind_of(store).importing(store), io.BytesIO(data), replace=replace, now=NOW
    )


def exported(store: SessionStore) -> bytes:
    sink = io.BytesIO()
    export_sessions(store, SessionFilter(), sink)
    return sink.getvalue()


def check_index(store: SessionStore) -> None:
    """Rank 1 compares the index with the text it refers to; the plain check does not."""
    if not isinstance(store, SqliteSessionStore):
        return
    with store.database.write() as db:
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def indexed(store: SessionStore, word: str) -> int:
    if not isinstance(store, SqliteSessionStore):
        kind_of(store).index(store)
        return len(store.search(Search(text=word, limit=10_000)))
    with store.database.read() as db:
        [number] = db.execute(
            "SELECT count(*) FROM message_index WHERE message_index MATCH ?", (word,)
        ).fetchone()
    return int(number)


def test_a_session_comes_in_whole(store: SessionStore) -> None:
    line = a_line(
        title="",
        cwd="/w",
        model="m",
        pinned=True,
        routing_key="telegram:1",
        mood="blue",
        ended_at=NOW - 10,
        end_reason="done",
        messages=[
            {"role": "user", "content": "hi", "timestamp": NOW - 90, "tokens": 5},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "yo"}],
                "timestamp": NOW - 80,
                "tool_calls": [{"name": "ls"}],
                "tokens": {"in": 7, "out": 2},
                "cost": 1,
                "mood": None,
            },
        ],
    )
    report = bring(store, line)
    assert report == ImportReport(imported=1, messages=2)
    session = store.get("a")
    assert (session.title, session.pinned, session.routing_key) == ("", True, "telegram:1")
    assert (session.ended_at, session.end_reason) == (NOW - 10, "done")
    assert session.last_active_at == NOW - 10  # its end
    assert session.message_count == 2
    assert session.tool_call_count == 1
    assert session.tokens == Tokens(input=12, output=2)
    assert session.cost == 1.0
    assert session.extra == {"mood": "blue"}
    first, second = store.messages("a")
    assert (first.tokens, second.tokens) == (5, Tokens(input=7, output=2))
    assert second.extra == {"mood": None}


def test_what_is_left_out_stays_open_and_takes_the_time_before(store: SessionStore) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user"},
        {"role": "user", "timestamp": NOW - 5},
        {"role": "user", "timestamp": None},
    ]
    bring(store, a_line(messages=messages), a_line("b"), a_line("c", started_at=NOW + 99))
    assert not store.get("a").ended
    times = [message.timestamp for message in store.messages("a")]
    assert times == [NOW - 100, NOW - 5, NOW - 5]
    assert store.get("a").last_active_at == NOW - 5
    assert store.get("b").last_active_at == NOW - 100
    assert store.get("c").last_active_at == NOW  # a clock that ran ahead keeps nothing alive


def test_an_end_needs_a_time_and_a_reason(store: SessionStore) -> None:
    report = bring(store, a_line("a", ended_at=NOW - 1), a_line("b", "x", "y", end_reason="quota"))
    assert store.get("a").end_reason == "ended"
    assert store.get("b").ended_at == NOW - 49
    assert report.notes == (
        "b: it had an end reason but no end time, so it got the time of its last message",
    )


def test_what_is_there_is_skipped(store: SessionStore) -> None:
    bring(store, a_line("a", "old"))
    report = bring(store, a_line("a", "new"), a_line("b", "new"))
    assert (report.imported, report.skipped, report.messages) == (1, ("a",), 1)
    assert [message.content for message in store.messages("a")] == ["old"]


def test_a_line_that_was_refused_leaves_its_id_free(store: SessionStore) -> None:
    report = bring(store, a_line("a", pinned=5), a_line("a", "good"))
    assert (report.imported, [refusal.line for refusal in report.refused]) == (1, [1])


def test_half_a_character_in_a_title_is_replaced(store: SessionStore) -> None:
    report = bring(store, a_line("a", title="rocket \ud83d"))
    assert store.get("a").title == "rocket \ufffd"
    assert report.notes == ("a: an unpaired surrogate in `title` was replaced",)


def test_long_lines_are_read_piece_by_piece(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "SHORT", 100)
    monkeypatch.setattr("holdfast.services.exchange.json_lines._PIECE", 7)
    texts = ["héron 漢字 \U0001f41a" * (1 + place % 40) for place in range(60)]
    lines = [a_line("a", *texts), a_line("b", "short"), a_line("c", *texts, parent_id="a")]
    raw = [json.dumps(line, ensure_ascii=False) for line in lines]
    turned = {"messages": lines[2]["messages"]} | lines[2] | {"number": 1234567.5}
    report = bring(store, raw[0], " ", raw[1], json.dumps(turned), raw[0][:-30], raw[0])
    assert report.imported == 3
    assert [refusal.line for refusal in report.refused] == [5, 6]
    for session_id in ("a", "c"):
        assert [message.content for message in store.messages(session_id)] == texts
    assert store.get("c").extra == {"number": 1234567.5}


def test_lines_beyond_the_limit_are_refused(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "SHORT", 1_000)
    monkeypatch.setattr(json_lines, "LONGEST", 3_000)
    report = bring(store, a_line("a", "x" * 3_000), a_line("b", "x" * 2_000), a_line("c"))
    assert [(refusal.line, refusal.text) for refusal in report.refused] == [
        (1, "longer than 3.0 kB")
    ]
    assert report.imported == 2


def test_a_mark_at_the_beginning_and_other_line_ends(store: SessionStore) -> None:
    line = json.dumps(a_line("a")).encode()
    assert bring(store, b"\xef\xbb\xbf" + line + b"\r", b"\r", b"").imported == 1


def test_an_empty_file_is_no_mistake(store: SessionStore) -> None:
    assert bring(store) == ImportReport()


class Stopping:
    """Stops after the first batch."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int | None]] = []

    def step(self, label: str, done: int, total: int | None) -> None:
        self.steps.append((label, done, total))

    def stop_requested(self) -> bool:
        return bool(self.steps)


def test_a_stop_is_heeded_between_two_batches(store: SessionStore) -> None:
    lines = "\n".join(json.dumps(a_line(f"s{number}", "x")) for number in range(250))
    progress = Stopping()
    report = import_sessions(
        kind_of(store).importing(store),
        io.BytesIO(lines.encode()),
        replace=False,
        now=NOW,
        progress=progress,
    )
    assert report.stopped
    assert report.imported == store.count(SessionFilter()) == 100
    assert progress.steps[0] == ("importing messages", 100, None)
    again = bring(store, lines)
    assert (again.imported, len(again.skipped)) == (150, 100)


def test_a_disk_that_fills_leaves_whole_sessions(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = in_file(store)
    with store.database.read() as db:
        [pages] = db.execute("PRAGMA page_count").fetchone()
    store.database.connection().execute(f"PRAGMA max_page_count = {pages + 100}")
    lines = [a_line(f"s{number}", *(["é" * 200] * 50)) for number in range(200)]
    with pytest.raises(StorageError, match="full"):
        bring(store, *lines)
    assert {session.message_count for session in store.find(SessionFilter())} <= {50}
    store.database.connection().execute("PRAGMA max_page_count = 1000000")
    assert bring(store, *lines).refused == ()
    assert store.count(SessionFilter()) == 200
    check_index(store)


def test_a_failure_inside_a_batch_takes_nothing_else_with_it(store: SessionStore) -> None:
    """Also when the store itself refuses a session half-way, after part of it was written."""
    run = kind_of(store).importing(store)
    with run, run.transaction():
        run.add(Session(id="a", source="x", started_at=1.0, last_active_at=1.0), [], now=NOW)
        bad = [Message(role="user", content="x", timestamp=1.0)] * 600
        bad += [Message(role="", timestamp=1.0)]
        with pytest.raises(Exception, match="needs a role"):
            run.add(Session(id="b", source="x", started_at=1.0, last_active_at=1.0), bad, now=NOW)
        run.add(Session(id="c", source="x", started_at=1.0, last_active_at=1.0), [], now=NOW)
    assert {session.id for session in store.find(SessionFilter())} == {"a", "c"}
    check_index(store)


def test_a_run_leaves_nothing_behind_in_the_connection(store: SessionStore) -> None:
    store = in_file(store)
    for _ in range(2):
        bring(store, a_line("a"))
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        store.database.connection().execute("SELECT * FROM temp.brought")

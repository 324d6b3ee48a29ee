"""Sessions that others wrote: every line is stored or refused by its number, and nothing breaks."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.session import SessionFilter
from holdfast.services.exchange.session_import import import_sessions
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests import tally
from tests.property.damage import JSON, changed, damaged
from tests.stored import a_line, check_whole, opened

NOW = 1_800_000_000.0
WHOLE = a_line("whole", at=NOW - 100, messages=2)
#: What a guard had counted, as an export tells it.
GUARDED = {
    "iterations": 3,
    "seconds": 12.5,
    "booked": [
        {
            "day": "2026-03-25",
            "model": "m",
            "tokens_in": 5,
            "tokens_out": 2,
            "tokens_cached": 0,
            "cost": 0.5,
        }
    ],
}
LINES = st.sampled_from(
    [
        a_line("guarded", at=NOW - 30, messages=1, guarded=GUARDED),
        a_line("first", at=NOW - 50, messages=2, tokens=3, cost=0.25, title="A title", model="m"),
        a_line("child", at=NOW - 40, messages=1, parent_id="whole", relation="branch", pinned=True),
    ]
)


@given(
    st.lists(
        LINES.flatmap(changed)
        | LINES.map(lambda line: json.dumps(line).encode()).flatmap(damaged)
        | JSON.map(lambda value: json.dumps(value).encode())
        | st.binary(max_size=80),
        max_size=4,
    ),
    st.booleans(),
)
def test_any_lines_are_stored_or_refused(lines: list[bytes], replace: bool) -> None:
    lines = [line.replace(b"\n", b"").replace(b"\r", b"") for line in lines]
    written = [json.dumps(WHOLE).encode(), *lines]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        store = SqliteSessionStore(root / "sessions.db")
        stream = io.BytesIO(b"\n".join(written) + b"\n")
        made = SqliteImport(store, None)
        report = import_sessions(made, stream, replace=replace, now=NOW)
        store.close()
        check_whole(root)
        with opened(root) as store:
            stored = store.find(SessionFilter())
            counts = [len(list(store.messages(each.id))) for each in stored]
            assert counts == [each.message_count for each in stored]
        told = report.imported + report.replaced + len(report.skipped) + len(report.refused)
        blank = sum(not line.strip() for line in lines)
        assert told == len(written) - blank
        assert len(stored) <= report.imported
        assert report.replaced or "whole" in {each.id for each in stored}
        tally.verified()

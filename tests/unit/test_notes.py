"""Notes on a home of another agent: what was counted is written when that is worth it."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import holdfast
from holdfast.homes.foreign.notes import Notes, Seen
from holdfast.model.part import Counts, Unit
from tests.contract.agent_homes import make_claude


def _noted(path: Path, sessions: int) -> Notes:
    notes = Notes(path)
    notes.write(
        [
            Seen(unit=Unit(id=f"s{number}", active=1.0, parts=()), version="1", bytes=1)
            for number in range(sessions)
        ],
        None,
        1.0,
    )
    return notes


def test_a_few_counts_of_many_sessions_wait_for_the_end(tmp_path: Path) -> None:
    path = tmp_path / "index" / "units.json"
    notes = _noted(path, 500)
    before = path.read_bytes()
    for number in range(9):
        notes.keep_counts(f"s{number}", Counts(messages=number + 1))
        notes.save_some()
    assert path.read_bytes() == before
    notes.save()
    assert Notes(path).counts("s8") == notes.counts("s8")
    for number in range(10, 20):
        notes.keep_counts(f"s{number}", Counts(messages=1))
    notes.save_some()
    assert Notes(path).counts("s19") is not None


def test_of_few_sessions_each_count_is_written_at_once(tmp_path: Path) -> None:
    path = tmp_path / "index" / "units.json"
    notes = _noted(path, 20)
    notes.keep_counts("s3", Counts(messages=4))
    notes.save_some()
    assert json.loads(path.read_bytes())["units"]
    found = Notes(path).counts("s3")
    assert found is not None
    assert found.messages == 4


def test_a_home_that_is_closed_keeps_what_was_counted(tmp_path: Path) -> None:
    """Whatever was not worth writing before is written then."""
    root, notes = tmp_path / ".claude", tmp_path / ".claude/.holdfast/index/units.json"
    make_claude(root)
    with holdfast.open(root) as home:
        home.list_sessions(limit=0)
        with mock.patch("holdfast.homes.foreign.notes._WORTH", 0):
            home.list_sessions()
        counted = notes.read_text()
    assert notes.read_text() != counted

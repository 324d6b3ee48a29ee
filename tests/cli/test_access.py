"""Homes that cannot be written, or only in part be read: what can be read is, and doctor says what
is closed. Real processes, without root's right to read everything."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.checkpoint_bench import taken
from tests.cli.machine import Machine, entries
from tests.cli.privileges import as_nobody_special
from tests.cli.session_bench import DISK
from tests.contract.factory import HOMES


@contextlib.contextmanager
def read_only(home: Path) -> Iterator[None]:
    """Nobody may write anything below a folder; afterwards its owner may again."""
    paths = [home, *(each for each in home.rglob("*") if not each.is_symlink())]
    modes = {path: path.stat().st_mode for path in paths}
    for path in reversed(paths):
        path.chmod(modes[path] & ~0o222)
    try:
        yield
    finally:
        for path in paths:
            path.chmod(modes[path])


def _leave_a_log(home: Path) -> None:
    """A store that a killed process left, with its last change in the write-ahead log alone."""
    database = home / "sessions.db"
    with contextlib.closing(sqlite3.connect(database)) as db:
        db.execute("UPDATE sessions SET title = 'only in the log'")
        db.commit()
        for suffix in ("", "-wal"):
            shutil.copy(f"{database}{suffix}", home.parent / f"copy{suffix}")
    for suffix in ("", "-wal"):
        shutil.copy(home.parent / f"copy{suffix}", f"{database}{suffix}")


@pytest.mark.parametrize("log", [False, True])
def test_a_read_only_home_can_be_read(stored: Machine, log: bool) -> None:
    project = stored.root / "project"
    project.mkdir()
    (project / "file").write_text("x")
    taken(stored, project)
    if log:
        _leave_a_log(stored.home)
    before = as_nobody_special()
    with read_only(stored.home):
        held = entries(stored.home)
        shown = stored.run("sessions", "show", DISK, before=before)
        assert shown.code == 0, shown
        assert ("only in the log" in shown.out) is log
        listed = stored.run("checkpoints", "list", "--all-projects", before=before)
        assert (listed.code, "by hand" in listed.out) == (0, True), listed
        refused = stored.run("sessions", "pin", DISK, before=before)
        assert refused.code == 1
        assert "Permission denied" in refused.err
        assert "who owns the folder and its permissions" in refused.err
        checked = stored.run("doctor", before=before)
        assert (checked.code, "cannot be written" in checked.words) == (0, True), checked
        assert entries(stored.home) == held


def test_a_read_only_home_of_hermes_can_be_read(machine: Machine) -> None:
    home = machine.user / ".hermes"
    home.mkdir()
    HOMES["hermes"].make(home)
    before = as_nobody_special()
    with read_only(home):
        listed = machine.run("--json", "sessions", "list", before=before)
    assert listed.code == 0, listed
    assert listed.document["total"] > 5


@pytest.mark.parametrize("closed", ["sessions", "sessions.db", "operations"])
def test_doctor_finds_what_is_closed_and_opens_it(stored: Machine, closed: str) -> None:
    stored.transcript()
    (stored.home / "operations").mkdir(exist_ok=True)
    path = stored.home / closed
    path.chmod(0)
    before = as_nobody_special()
    try:
        found = stored.run("--json", "doctor", before=before)
        assert found.code == 5, found
        said = {each["check"]: each["message"] for each in found.document["findings"]}
        assert f"{path} cannot be read" in said["access"]
        mended = stored.run("doctor", "--repair", "--yes", before=before)
        assert mended.code == 0, mended
        assert "Done: gave you access to 1 file or folder." in mended.words
        assert stored.run("sessions", "list", before=before).code == 0
    finally:
        path.chmod(0o700)


@pytest.mark.parametrize("words", [(), ("--home",)])
def test_doctor_says_how_to_open_a_closed_home(stored: Machine, words: tuple[str, ...]) -> None:
    before = as_nobody_special()
    named = (*words, str(stored.home)) if words else ()
    stored.home.chmod(0)
    try:
        found = stored.run(*named, "doctor", before=before)
    finally:
        stored.home.chmod(0o700)
    assert found.code == 5, found
    assert f"{stored.home} cannot be read" in found.words
    assert f"chmod -R u+rwX {stored.home}" in found.words

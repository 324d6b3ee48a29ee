"""No output file replaces what a home keeps, or a database: nothing would bring that back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast import Machine
from holdfast.api.metrics import write_textfile
from holdfast.errors import UsageError
from tests.contract.agent_homes import NOW, make_claude
from tests.trees import everything

Write = Callable[[holdfast.Home, Path], object]


def _export_all(home: holdfast.Home, path: Path) -> object:
    with Machine(home.path.parent, environ={}, clock=lambda: NOW) as machine:
        return machine.export(path)


def _save_plan(home: holdfast.Home, path: Path) -> None:
    home.plan_prune().save(path)


WRITERS: dict[str, Write] = {
    "export": lambda home, path: home.export(path),
    "markdown": lambda home, path: home.export(path, form="markdown"),
    "export of all homes": _export_all,
    "plan": _save_plan,
    "metrics": lambda _, path: write_textfile(path, b"holdfast_up 1\n"),
}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The folder of a user who has Holdfast and Claude Code."""
    user = tmp_path.resolve() / "user"
    user.mkdir()
    make_claude(user / ".claude")
    with holdfast.open(user / ".holdfast", create=True, clock=lambda: NOW) as home:
        home.sessions.create(source="cli")
    return user


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("through", ["", "link", "folder"])
def test_no_output_goes_into_a_home(user: Path, write: Write, through: str) -> None:
    transcript = min(user.glob(".claude/projects/*/*.jsonl"))
    places = (
        user / ".holdfast" / "sessions.db",
        user / ".holdfast" / "sessions.db-wal",
        user / ".holdfast" / "config.toml",
        user / ".holdfast" / "new.jsonl",
        transcript,
        user / ".claude" / "settings.json",
        user / ".claude" / ".holdfast" / "config.toml",
    )
    (user / ".claude" / ".holdfast").mkdir(exist_ok=True)
    with holdfast.open(user / ".holdfast", clock=lambda: NOW) as home:
        home.sessions.find()
        before = _contents(user)
        for number, place in enumerate(places):
            named = place
            if through == "link":
                named = user / f"link-{number}"
                named.symlink_to(place)
            elif through == "folder":
                (user / f"folder-{number}").symlink_to(place.parent)
                named = user / f"folder-{number}" / place.name
            with pytest.raises(UsageError, match=r"is in the home .*so it was not written"):
                write(home, named)
        assert _contents(user) == before


def _contents(user: Path) -> dict[str, tuple[int, bytes]]:
    found = everything(user)
    return {
        path: each
        for path, each in found.items()
        if not path.startswith(("link-", "folder-", ".claude/.holdfast/"))
        and not path.endswith(("-shm", ".lock"))
    }


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_no_output_replaces_a_database(user: Path, write: Write) -> None:
    database = user / "accounts.db"
    with closing(sqlite3.connect(database)) as db:
        db.execute("CREATE TABLE account (name TEXT)")
        db.commit()
    before = database.read_bytes()
    with holdfast.open(user / ".holdfast", clock=lambda: NOW) as home:
        for name in ("accounts.db", "accounts.db-wal", "accounts.db-journal"):
            with pytest.raises(UsageError, match="a file of an SQLite database"):
                write(home, user / name)
    assert database.read_bytes() == before
    assert not (user / "accounts.db-wal").exists()


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_elsewhere_an_earlier_output_is_replaced(user: Path, write: Write) -> None:
    """Also in a folder of the user that has some of the names of a home."""
    project = user / "project"
    for name in ("sessions", "checkpoints", "conversations", "projects"):
        (project / name).mkdir(parents=True)
    (project / "config.toml").write_text("[tool]\n")
    with holdfast.open(user / ".holdfast", clock=lambda: NOW) as home:
        for place in (user / "out", project / "out", project / "sessions" / "out"):
            write(home, place)
            first = place.read_bytes()
            write(home, place)
            assert place.read_bytes()[:10] == first[:10]


def test_the_home_in_question_is_known_wherever_it_is(tmp_path: Path) -> None:
    """A home far from the usual places, with nothing in it that only its agent makes."""
    make_claude(tmp_path / "elsewhere")
    with holdfast.open(tmp_path / "elsewhere", clock=lambda: NOW) as home:
        place = min(home.path.glob("projects/*/*.jsonl"))
        before = place.read_bytes()
        with pytest.raises(UsageError, match="is in the home"):
            home.export(place)
        assert place.read_bytes() == before

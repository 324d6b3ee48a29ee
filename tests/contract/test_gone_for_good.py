"""Of a session that is deleted with `--now`, no word can be read in any file of the home."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.model.item import SPACE
from holdfast.model.session import Message
from holdfast.services.doctor import Diagnosis
from holdfast.stores.sqlite import search_index, space, survey
from holdfast.stores.sqlite.database import Database
from tests.cli.every_command import say

#: The index stores only the end of a word, what it does not share with the word before it.
WORD, END = "quaxolotl7vkzwjhfy", b"7vkzwjhfy"
#: Those that go are less than one message in twenty.
SAID = {"gone": 3, "stays": 3 * search_index.BATCH, "also": 3}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    with holdfast.open(place, create=True) as home:
        for name, count in SAID.items():
            word = WORD if name == "gone" else f"other{name}"
            said = [Message("user", f"{word} number{n} of {name}") for n in range(count)]
            session = home.sessions.create(source="cli", id=name)
            for at in range(0, count, search_index.BATCH):
                home.sessions.append(session, said[at : at + search_index.BATCH])
            home.sessions.end(session)
    database = Database(place / "sessions.db", create=False)
    with database.write() as db:  # one large part, with which FTS5 does not merge a small one soon
        db.execute("INSERT INTO message_index (message_index) VALUES ('optimize')")
    database.close()
    return place


def delete(place: Path, name: str, *, use_trash: bool) -> None:
    with holdfast.open(place) as home:
        assert home.delete([name], use_trash=use_trash).removed == 1


def files_with(end: bytes, place: Path) -> list[str]:
    files = [each for each in place.rglob("*") if each.is_file()]
    return sorted(each.name for each in files if end in each.read_bytes())


def test_no_word_stays_of_what_is_deleted_for_good(place: Path) -> None:
    assert files_with(END, place) == ["sessions.db"]
    with holdfast.open(place) as other:  # as long as somebody has it open, there is a log
        assert other.sessions.get("stays").message_count == SAID["stays"]
        delete(place, "gone", use_trash=False)
        assert files_with(END, place) == []
        assert not other.sessions.search(WORD)
        assert len(other.sessions.search("number1")) == 2
    assert files_with(END, place) == []


def test_what_can_come_back_does_not_cost_a_merge(place: Path) -> None:
    delete(place, "gone", use_trash=True)
    assert "sessions.db" in files_with(END, place)
    # What goes for good later takes along the words of what went to the trash before.
    delete(place, "also", use_trash=False)
    assert "sessions.db" not in files_with(END, place)


def test_a_large_store_is_not_merged_at_once_and_a_later_run_does_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(space, "_SOON_MERGED", 0)
        delete(place, "gone", use_trash=False)
        assert files_with(END, place) == ["sessions.db"], "until one message in twenty has left"
    # As after a run that was killed before it came to this.
    database = Database(place / "sessions.db", create=False)
    space.give_back(database)
    with database.read() as db:
        assert not search_index.has_left_for_good(db)
    database.close()
    assert files_with(END, place) == []


KILLED_BEFORE_SPACE_IS_GIVEN_BACK = """
import os, signal, sys
import holdfast
from holdfast.stores.sqlite import space
space.give_back = lambda _: os.kill(os.getpid(), signal.SIGKILL)
with holdfast.open(sys.argv[1]) as home:
    home.delete(sys.argv[2:], use_trash=False)
"""


def delete_and_be_killed(place: Path, names: list[str]) -> None:
    child = [sys.executable, "-c", KILLED_BEFORE_SPACE_IS_GIVEN_BACK, str(place), *names]
    assert subprocess.run(child, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize("settled", [False, True])
def test_what_a_killed_run_left_behind_goes_when_the_trash_is_emptied(
    place: Path, settled: bool
) -> None:
    delete_and_be_killed(place, ["gone"])
    with holdfast.open(place) as home:
        if settled:
            home.pin_sessions(["stays"])
        assert home.trash.plan_empty().apply().report.bytes_freed
        assert files_with(END, place) == []
        assert not home.trash.plan_empty().plan.items


@pytest.mark.parametrize("settled", [False, True])
def test_what_a_killed_run_left_behind_goes_with_a_repair(place: Path, settled: bool) -> None:
    delete_and_be_killed(place, ["gone"])
    with holdfast.open(place) as home:
        if settled:
            home.pin_sessions(["stays"])
        [found] = [each for each in home.doctor().findings if each.check == "space"]
        assert found.repairable
        assert any("of unused space" in step for step in home.repair().steps)
        assert files_with(END, place) == []
        assert "space" not in [each.check for each in home.doctor().findings]


def test_the_command_says_that_only_space_was_left(place: Path) -> None:
    delete_and_be_killed(place, ["gone"])
    said = say("--home", str(place), "trash", "empty", "--yes")
    assert said.code == 0, said
    assert "Unused space was given back" in said.text
    assert "0 removed" not in said.text
    assert "operation 1 was interrupted and has just been settled.\n" in said.text


def test_a_repair_gives_back_what_a_damaged_store_could_not_tell(place: Path) -> None:
    """The check-up did not find it then, and the repair was needed twice."""
    delete_and_be_killed(place, ["gone"])
    with holdfast.open(place) as home:
        found = home.doctor()
        others = tuple(each for each in found.findings if each.check != SPACE)
        assert others != found.findings
        assert any(
            "of unused space" in each for each in home.repair(Diagnosis(findings=others)).steps
        )
        assert files_with(END, place) == []
        assert SPACE not in [each.check for each in home.doctor().findings]


@pytest.mark.parametrize("names", [["gone"], list(SAID)], ids=["one", "all"])
def test_what_a_killed_run_left_behind_goes_with_the_next_maintenance(
    place: Path, names: list[str]
) -> None:
    delete_and_be_killed(place, names)
    with holdfast.open(place) as home:
        assert not {each.id for each in home.sessions.find()}.intersection(names)
    assert files_with(END, place) == ["sessions.db"]
    assert not holdfast.maintain(place, force=True).error
    assert files_with(END, place) == []
    before = (place / "sessions.db").stat().st_mtime_ns
    assert not holdfast.maintain(place, force=True).error
    assert (place / "sessions.db").stat().st_mtime_ns == before, "nothing is owed any more"


def sessions(place: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "holdfast", "--home", str(place), "sessions", *arguments]
    subprocess.run([*command, "--yes"], check=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "asked", [("delete", "gone"), ("prune", "--archived", "--older-than", "0d")], ids=lambda a: a[0]
)
def test_no_word_stays_of_an_archived_session_that_goes_for_good(
    place: Path, asked: tuple[str, ...]
) -> None:
    sessions(place, "archive", "gone")
    assert "sessions.db" in files_with(END, place), "what can come back does not cost a merge"
    sessions(place, *asked, "--now")
    assert files_with(END, place) == []


def test_what_leaves_while_space_is_given_back_is_still_owed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes sessions meanwhile, and is killed before it gives back space."""
    with holdfast.open(tmp_path / "home", create=True) as home:
        home.sessions.create(source="cli")
    database = Database(tmp_path / "home" / "sessions.db", create=False)
    with database.write() as db:
        space.owe(db)
    vacuum = space._vacuum

    def and_another(given: Database) -> Iterator[None]:
        yield from vacuum(given)
        with given.write() as db:
            space.owe(db)

    with monkeypatch.context() as patch:
        patch.setattr(space, "_vacuum", and_another)
        space.give_back(database)
    assert survey.is_owed(database)
    space.give_back(database)
    assert not survey.is_owed(database)
    database.close()

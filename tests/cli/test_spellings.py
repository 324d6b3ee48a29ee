"""One spelling for one thing: pin and unpin, several ids, -n and -y, --quiet, help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.changing import CHANGING
from tests.cli.checkpoint_bench import change, contents, taken
from tests.cli.every_command import COMMANDS, say
from tests.cli.machine import Machine
from tests.cli.session_bench import CJK, CRON, DISK, fill


@pytest.fixture(autouse=True)
def _at_home(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(machine.user))


def _document(*words: str, code: int = 0) -> Any:
    said = say("--json", *words)
    assert said.code == code, said
    return json.loads(said.out)


#: They ask what they need to know, or there is nothing to show before it is done.
_WITHOUT = {
    "sessions export",  # writes a file, not the home
    "checkpoints take",
    "checkpoints watch",
    "config edit",
    "doctor",  # without --repair it is its own dry run
}


def test_everything_that_changes_takes_n_and_y() -> None:
    for path in CHANGING - _WITHOUT:
        options = {name for param in COMMANDS[path].own_params for name in param.opts}
        assert {"-n", "--dry-run", "-y", "--yes"} <= options, path


@pytest.mark.parametrize(
    ("words", "would"),
    [
        (["pin", DISK, CRON], "would be pinned"),
        (["unpin", DISK], "would no longer be pinned"),
        (["rename", DISK, "another"], "would be called 'another'"),
        (["end", CJK], "would end"),
    ],
)
def test_a_dry_run_changes_nothing(machine: Machine, words: list[str], would: str) -> None:
    fill(machine.home)
    before = contents(machine.home)
    said = say("sessions", *words, "-n", "-y")
    assert said.code == 0
    assert would in said.text
    assert "Nothing was changed." in said.text
    assert _document("sessions", *words, "-n")["applied"] is False
    assert contents(machine.home) == before


def test_several_sessions_at_once(machine: Machine) -> None:
    fill(machine.home)
    done = _document("sessions", "pin", DISK, "cron_", DISK)
    assert [each["id"] for each in done["sessions"]] == [DISK, CRON]
    assert "session" not in done
    one = _document("sessions", "unpin", DISK)
    assert (one["session"]["pinned"], one["sessions"]) == (False, [one["session"]])
    shown = _document("sessions", "show", DISK, CRON)["sessions"]
    assert [each["session"]["id"] for each in shown] == [DISK, CRON]
    text = say("sessions", "show", DISK, CRON).text
    assert text.index("disk") < text.index("inbox")
    # One that is not there: nothing changes.
    assert say("sessions", "unpin", CRON, "nothing").code == 2
    assert _document("sessions", "show", CRON)["session"]["pinned"] is True


def test_checkpoints_are_pinned_renamed_and_deleted(machine: Machine, project: Path) -> None:
    first = taken(machine, project)
    change(project)
    second = taken(machine, project)
    assert _document("checkpoints", "rename", first, "good")["checkpoint"]["name"] == "good"
    pinned = _document("checkpoints", "pin", first, second)["checkpoints"]
    assert [each["pinned"] for each in pinned] == [True, True]
    assert _document("checkpoints", "unpin", second)["checkpoint"]["pinned"] is False
    shown = _document("checkpoints", "show", first, second)["checkpoints"]
    assert [each["checkpoint"]["id"] for each in shown] == [first, second]
    dry = _document("checkpoints", "delete", first[:8], "--dry-run")
    assert [each["id"] for each in dry["plan"]["items"] if each["action"] == "remove"] == [first]
    assert say("checkpoints", "delete", first).code == 3
    assert _document("checkpoints", "delete", first, "-y")["report"]["removed"] == 1
    left = _document("checkpoints", "list", str(project))["checkpoints"]
    assert [each["id"] for each in left] == [second]
    assert say("undo").code == 0
    assert _document("checkpoints", "show", first)["checkpoint"]["name"] == "good"
    assert say("checkpoints", "delete", "ffffffff", "-y").code == 2


def test_older_than_everywhere(machine: Machine, project: Path) -> None:
    fill(machine.home)
    taken(machine, project)
    assert _document("checkpoints", "prune", "--older-than", "1d", "-n")["plan"]["bytes"] == 0
    assert say("checkpoints", "prune", "--older-than", "0s", "-n").code == 2
    both = say("checkpoints", "prune", "--older-than", "1d", "--retention-days", "1", "-n")
    assert both.code == 2
    old = _document("sessions", "gc", "--older-than", "35d", "-n")
    new = _document("sessions", "gc", "--older-than", "2h", "-n")
    going = [
        {each["id"] for each in plan["plan"]["items"] if each["action"] == "remove"}
        for plan in (old, new)
    ]
    assert going[0] < going[1]
    assert say("sessions", "gc", "--older-than", "2d", "--trivial-days", "1").code == 2


# --- Import --dry-run -----------------------------------------------------------------------------


def test_import_dry_run_says_what_would_be_stored(machine: Machine, tmp_path: Path) -> None:
    fill(machine.home)
    file, other = str(tmp_path / "all.jsonl"), str(tmp_path / "new home")
    assert say("sessions", "export", "--all", "--output", file).code == 0
    with Path(file).open("a") as more:
        more.write("not a session\n")
    new = _document("--home", other, "sessions", "import", file, "-n", code=1)
    assert (new["imported"], new["applied"], len(new["refused"])) == (4, False, 1)
    assert not Path(other).exists()
    before = contents(machine.home)
    known = _document("sessions", "import", file, "-n", code=1)
    assert (known["imported"], len(known["skipped"])) == (0, 4)
    replaced = _document("sessions", "import", file, "-n", "--replace", code=1)
    assert replaced["replaced"] + len(replaced["refused"]) == 5
    text = say("sessions", "import", file, "-n").text
    assert "This would store 0 sessions" in text
    assert "4 sessions are already stored" in text
    assert "Nothing was changed." in text
    assert contents(machine.home) == before
    real = _document("--home", other, "sessions", "import", file, code=1)
    counted = ("imported", "replaced", "skipped", "messages")
    assert {each: real[each] for each in counted} == {each: new[each] for each in counted}


# --- Quiet ----------------------------------------------------------------------------------------


def test_quiet_says_nothing_when_all_went_well(machine: Machine) -> None:
    machine.transcript()
    said = say("-q", "sessions", "prune", "--yes")
    assert (said.code, said.text) == (0, "")
    assert say("sessions", "prune", "--quiet", "--yes").text == ""
    assert json.loads(say("-q", "--json", "undo").out)["applied"] is True


def test_quiet_shows_what_was_asked_for(machine: Machine) -> None:
    machine.transcript()
    assert "The plan removes 1 item" in say("-q", "sessions", "prune", "--dry-run").text
    asked = say("-q", "sessions", "prune")
    assert asked.code == 3
    assert "The plan removes 1 item" in asked.text
    assert say("-q", "log").text == say("log").text


def test_quiet_tells_what_failed(machine: Machine) -> None:
    path = machine.transcript()
    assert say("sessions", "prune", "-y").code == 0
    machine.file(path, days=0, content="newer")
    said = say("-q", "undo", "1", "-y")
    assert said.code == 1
    assert said.out == b""
    assert "its place is taken" in said.text
    assert say("-q", "sessions", "show", "nothing").text.startswith("error:")


# --- Help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (["-h"], "Usage: holdfast [OPTIONS]"),
        (["help"], "Usage: holdfast [OPTIONS]"),
        (["sessions"], "Usage: holdfast sessions [OPTIONS]"),
        (["sessions", "-h"], "Usage: holdfast sessions [OPTIONS]"),
        (["sessions", "help"], "Usage: holdfast sessions [OPTIONS]"),
        (["sessions", "help", "gc"], "Usage: holdfast sessions gc"),
        (["help", "sessions", "gc"], "Usage: holdfast sessions gc"),
        (["help", "gc"], "Usage: holdfast sessions gc"),
        (["help", "prune"], "Usage: holdfast sessions prune"),
        (["help", "take"], "Usage: holdfast checkpoints take"),
        (["help", "snapshot"], "Usage: holdfast checkpoints take"),
        (["help", "undo"], "Usage: holdfast undo"),
        (["checkpoints", "prune", "-h"], "Usage: holdfast checkpoints prune"),
    ],
)
def test_help_in_every_way(words: list[str], page: str) -> None:
    said = say(*words)
    assert said.code == 0, said
    assert said.out.decode().startswith(page)


def test_help_names_the_other_one() -> None:
    assert "There is also `holdfast checkpoints prune`." in say("help", "prune").text
    assert "There is also" not in say("help", "gc").text


def test_help_for_what_is_not_there() -> None:
    for words in (["help", "prun"], ["help", "sessions", "prun"]):
        said = say(*words)
        assert said.code == 2
        assert "prune" in said.text


def test_help_as_json() -> None:
    members = _document("sessions")["commands"]
    assert {"name": "list", "help": "List sessions."} in members
    assert _document("help", "gc")["command"] == "holdfast sessions gc"

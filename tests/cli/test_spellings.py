"""One spelling for one thing: pin and unpin, several ids, -n and -y, --quiet, help."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.changing import CHANGING
from tests.cli import hostile
from tests.cli.checkpoint_bench import change, contents, listed, taken
from tests.cli.every_command import COMMANDS, SENSIBLE, say
from tests.cli.machine import Machine
from tests.cli.session_bench import CJK, CRON, DISK, EMPTY, fill


@pytest.fixture(autouse=True)
def _at_home(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(machine.user))


@pytest.fixture(autouse=True)
def _pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output as in a pipe also where test processes have a width."""
    monkeypatch.delenv("COLUMNS", raising=False)


def _document(*words: str, code: int = 0) -> Any:
    said = say("--json", *words)
    assert said.code == code, said
    return json.loads(said.out)


#: They ask what they need to know, or there is nothing to show before it is done.
_WITHOUT = {
    "sessions export",  # writes a file, not the home
    "checkpoints watch",
    "config edit",
    "store init",  # --print-sql shows what it would do
    "run",  # does what the command after -- does
}


def test_everything_that_changes_takes_n_and_y() -> None:
    for path in CHANGING - _WITHOUT:
        options = {name for param in COMMANDS[path].own_params for name in param.opts}
        assert {"-n", "--dry-run", "-y", "--yes"} <= options, path


def test_every_dry_run_ends_alike_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    world = hostile.copy(hostile.build(tmp_path / "world", time.time()), tmp_path)
    at = ("--home", str(world.home))
    say(*at, "sessions", "delete", world.places["session"], "--plan-out", world.places["plan"])
    for words in (["gc", "-y"], ["prune", "-y", "--older-than", "1d"]):
        assert say(*at, "sessions", *words).code == 0
    assert say(*at, "undo").code == 0
    before = _kept(world.home)
    # There is nothing to import here, a home of Holdfast's own has no vault, and nothing is
    # connected.
    without = {"checkpoints import", "vault on", "vault off", "disconnect"}
    for path in sorted(CHANGING - _WITHOUT - without):
        args = [word.format(**world.places) for word in SENSIBLE[path][0].split()]
        said = say(*at, *path.split(), *args, "-n", "-y")
        assert said.out.decode().endswith("\nNothing was changed.\n"), (path, said)
        document = json.loads(say(*at, "--json", *path.split(), *args, "-n").out)
        assert path == "doctor" or document["applied"] is False, path
    assert _kept(world.home) == before


def _kept(home: Path) -> dict[str, bytes]:
    """What is in a home, but for new objects: a look at a project writes what it compares."""
    return {name: data for name, data in contents(home).items() if "/objects/pack/" not in name}


@pytest.mark.parametrize(
    ("words", "would"),
    [
        (["pin", DISK, CRON], "would be pinned"),
        (["unpin", DISK], "was not pinned"),
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


def test_a_dry_run_of_a_take(machine: Machine, project: Path) -> None:
    new = say("checkpoints", "take", str(project), "-n")
    assert f"Would take a checkpoint of {project}: " in new.text
    assert not (machine.home / "checkpoints").exists()
    taken(machine, project)
    assert "Nothing changed in" in say("checkpoints", "take", str(project), "-n").text
    change(project)
    (project / "src").joinpath("main.py").chmod(0o755)
    dry = _document("checkpoints", "take", str(project), "--dry-run", "-y", "--reason", "why")
    assert (dry["outcome"], dry["id"], dry["applied"]) == ("taken", None, False)
    assert (dry["files_changed"], dry["reason"]) == (3, "why")
    assert len(listed(machine, project)) == 1
    one = _document("checkpoints", "take", str(project), "-n", "--path", "new.txt")
    assert one["files_changed"] == 1
    refused = say("checkpoints", "take", "/", "-n")
    assert (refused.code, "No checkpoint would be taken." in refused.text) == (1, True)
    real = _document("checkpoints", "take", str(project))
    assert (real["outcome"], "applied" in real) == ("taken", False)


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


_LISTS = {
    "sessions list": {"id", "source", "active", "messages", "size", "title"},
    "checkpoints list": {"id", "age", "files", "lines", "why"},
    "log": {"id", "when", "command", "did", "in-trash"},
    "trash list": {"operation", "removed", "kept-until", "items", "size"},
}


@pytest.mark.parametrize("path", _LISTS)
def test_every_column_is_a_sort_key(machine: Machine, project: Path, path: str) -> None:
    fill(machine.home)
    for number in range(2):
        (project / "src" / "main.py").write_text("x\n" * (3 - number))
        taken(machine, project, reason="ab"[number])
    for each in (EMPTY, CJK):
        assert say("sessions", "end", each).code == 0
        assert say("sessions", "delete", each, "-y").code == 0
    at = [str(project)] if path == "checkpoints list" else []
    shown = say(*path.split(), *at).out.decode().splitlines()[0]
    for key in _LISTS[path]:
        assert key.replace("-", " ").upper() in shown.upper(), shown
        said = say(*path.split(), *at, "--sort", key)
        assert said.code == 0, said
        rows = _document(*path.split(), *at, "--sort", key)
        assert rows == _document(*path.split(), *at, "--sort", key)


def test_numbers_fall_and_texts_rise(machine: Machine, project: Path) -> None:
    fill(machine.home)
    titles = [
        each["title"] for each in _document("sessions", "list", "--sort", "title")["sessions"]
    ]
    named = [each for each in titles if each]
    assert named == sorted(named, key=lambda each: each.encode().lower())
    assert titles == [*named, *[None] * (len(titles) - len(named))]
    for key, field in (("source", "source"), ("id", "id")):
        found = [each[field] for each in _document("sessions", "list", "--sort", key)["sessions"]]
        assert found == sorted(found)
    sizes = [each["bytes"] for each in _document("sessions", "list", "--sort", "size")["sessions"]]
    assert sizes == sorted(sizes, reverse=True)
    for number, reason in enumerate(("b", "a", "c")):
        (project / "src" / "main.py").write_text("x\n" * (5 + (number % 2) * 9))
        taken(machine, project, reason=reason)
    words = ("checkpoints", "list", str(project), "--sort")
    why = [each["reason"] for each in _document(*words, "why")["checkpoints"]]
    assert why == ["a", "b", "c"]
    rows = _document(*words, "lines")["checkpoints"]
    lines = [each["insertions"] + each["deletions"] for each in rows]
    assert lines == sorted(lines, reverse=True)
    assert len({*lines}) > 1


def test_minutes_are_not_months(machine: Machine) -> None:
    fill(machine.home)
    said = say("sessions", "prune", "--older-than", "3m", "-n")
    assert "note: --older-than 3m means 3 minutes; for 3 months write 3mo." in said.text
    assert "older than 3 min" in said.text
    for word in ("3mo", "3months", "90d", "3MO"):
        other = say("sessions", "prune", "--older-than", word, "-n")
        assert "means" not in other.text
        assert (
            _document("sessions", "prune", "--older-than", word, "-n")["plan"]["items"]
            == (_document("sessions", "prune", "--older-than", "90d", "-n")["plan"]["items"])
        )


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


def test_quiet_connects_and_disconnects_without_a_word(machine: Machine) -> None:
    machine.transcript()
    settings = machine.user / ".gemini/settings.json"
    for words in ("connect gemini --yes", "disconnect gemini -y", "disconnect gemini --yes"):
        said = say("--home", str(machine.home), "-q", *words.split())
        assert (said.code, said.text, settings.exists()) == (0, "", words.startswith("con")), words
    assert "gemini" in say("-q", "connect", "--status").text
    assert "Make" in say("-q", "connect", "gemini", "--dry-run").text
    asked = say("-q", "connect", "gemini")
    assert (asked.code, settings.exists()) == (3, False)
    assert "Make" in asked.text


def test_quiet_shows_what_was_asked_for(machine: Machine) -> None:
    machine.transcript()
    assert "The plan removes 1 item" in say("-q", "sessions", "prune", "--dry-run").text
    asked = say("-q", "sessions", "prune")
    assert asked.code == 3
    assert "The plan removes 1 item" in asked.text
    assert say("-q", "log").text == say("log").text


def test_quiet_before_a_group_reaches_the_command_that_it_runs_by_default(machine: Machine) -> None:
    """`holdfast` is `holdfast status`."""
    machine.transcript()
    assert say("-q").text == say("-q", "status").text != say().text
    assert say("-q", "vault").text == say("-q", "vault", "status").text


def test_quiet_ends_without_an_empty_line(machine: Machine) -> None:
    """It stood before a hint, which is left out."""
    told, quiet = machine.ok("status"), machine.ok("status", "-q")
    assert "\n\n" in told.out
    assert quiet.out.endswith("\n")
    assert not quiet.out.endswith("\n\n")


def test_quiet_tells_what_failed(machine: Machine) -> None:
    path = machine.transcript()
    assert say("sessions", "prune", "-y").code == 0
    machine.file(path, days=0, content="newer")
    said = say("-q", "undo", "1", "-y")
    assert said.code == 1
    assert said.out == b""
    assert "something else is in its place" in said.text
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

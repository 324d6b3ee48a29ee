"""A machine with a home of every agent: one screen, and `--agent` picks those of one."""

from __future__ import annotations

import re
import shutil
import sqlite3
import tarfile
import time
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.cli import show_machine
from holdfast.errors import UsageError
from holdfast.model.figures import HomeFigures
from holdfast.stores.figures_file import FiguresFile
from tests.cli.agents import settle_all
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.contract.agents.recorded import RECORDED
from tools import cli_reference

_AIDER = Path(__file__).parents[1] / "data" / "homes" / "aider.tar.xz"
_READING = ("status", "sessions list", "sessions search Noted", "sessions stats", "log")


@pytest.fixture(scope="module")
def machine_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(root=tmp_path_factory.mktemp("every"))
    machine.user.mkdir(mode=0o700)
    return settle_all(machine)


@pytest.fixture
def machine(machine_once: Machine, tmp_path: Path) -> Machine:
    shutil.copytree(machine_once.user, tmp_path / "user", symlinks=True)
    return Machine(root=tmp_path)


def test_every_home_is_found_as_what_it_is(machine_once: Machine) -> None:
    said = machine_once.json("status")
    assert said["failed"] == []
    found = {each["home"]: each["kind"] for each in said["homes"]}
    for agent in RECORDED:
        assert found[str(machine_once.user / agent.folder)] == agent.name


@pytest.mark.parametrize("urgent", [False, True], ids=("", "nearly full"))
def test_status_is_one_screen_with_a_trend(
    machine: Machine, urgent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each agent keeps its line, and the trend gives way, unless the disk is full before long."""
    kept = FiguresFile(machine.user / ".codex" / ".holdfast")
    for day in range(6, 0, -1):
        kept.add(HomeFigures(at=time.time() - day * 86_400, bytes=day))
    monkeypatch.setattr(show_machine, "is_urgent", lambda _: urgent)
    drawn = {"LINES": "24", "TTY_COMPATIBLE": "1"}
    said = Inside(machine).run("status", columns=80, env=drawn).out
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said).splitlines()
    assert len(lines) < 24, said
    alone = sum(any(line.startswith(each.name) for line in lines) for each in RECORDED)
    assert ("B in 6 days" in said) is urgent, said
    assert (alone < len(RECORDED)) is urgent, said


@pytest.mark.parametrize("aider", [False, True], ids=("", "with projects"))
def test_status_is_one_screen(machine: Machine, aider: bool) -> None:
    """On a terminal of 24 lines; what can be freed comes first, and where not all of them fit, the
    rest shares a line."""
    env = {"LINES": "24", "TERM": "xterm", "NO_COLOR": "1"}
    if aider:
        for name in ("one", "two"):
            (machine.user / name).mkdir()
            (machine.user / name / ".aider.chat.history.md").touch()
        with closing(sqlite3.connect(machine.user / ".codex" / "state_5.sqlite")) as db, db:
            db.execute("UPDATE threads SET cwd = ?", (str(machine.user / "one"),))
    with machine.terminal("status", columns=80, env=env) as shown:
        drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.end().out)
    screen = drawn[drawn.index("agent ") :]  # after the progress
    lines = screen.splitlines()
    assert len(lines) <= 24, screen
    assert all(len(line) <= 80 for line in lines if "holdfast " not in line), screen
    assert ("aider was used in 1 project" in " ".join(screen.split())) is aider
    assert ("more" in screen) is aider, screen
    assert sum(f"{each.name} " in screen for each in RECORDED) == len(RECORDED) or aider, screen


def test_every_screen_counts_the_same_sessions(machine: Machine) -> None:
    """Subagents are sessions, also where they lie in the file of theirs; so are aider's chats."""
    project = machine.user / "shop"
    with tarfile.open(_AIDER) as tar:
        tar.extractall(project, filter="tar")
    inside = Inside(machine)
    inside.ok("--home", "holdfast", "config", "set", "homes", str(project))
    rows = [line.split("\t") for line in inside.ok("status").out.splitlines()]
    counted = {row[0]: row[1] for row in rows if row[1:]}
    for label in ("aider/shop", "claude-code", "cline", "qwen"):
        alone = inside.ok("--home", label, "status").out
        assert f"sessions\t{counted[label]}\t" in alone, label
    assert f"sessions\t{counted['aider/shop']}\t" in inside.ok("status", "--agent", "aider").out


def test_status_is_sorted_by_what_helps(machine: Machine) -> None:
    """Leftovers that are larger than every session stand in the first line, with their bytes."""
    program = machine.user / ".codex" / "packages" / "a" / "releases" / "1.0" / "codex"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"x" * 9_000_000)
    lines = machine.ok("status", env={"COLUMNS": "100"}).lines
    assert lines[1].split()[0] == "codex"
    assert "9.0 MB" in lines[1]
    assert "leftovers" in lines[0]
    text = " ".join(lines)
    assert "9.0 MB" in text
    assert "holdfast status --home codex" in text


@pytest.mark.parametrize("words", _READING)
def test_one_agent_is_read_as_if_its_home_were_named(machine_once: Machine, words: str) -> None:
    by_agent = machine_once.ok(*words.split(), "--agent", "codex", "--json").document
    by_home = machine_once.ok(*words.split(), "--home", "codex", "--json").document
    for each in (by_agent, by_home):
        each.pop("looked_at", None)
        for shown in (each, *each.get("homes", ())):
            shown.pop("growth", None)  # it ends with the figures of this very look
        for hit in each.get("hits", ()):
            hit.pop("score")  # it depends on the time of the search
    assert by_agent == by_home


def test_one_agent_is_changed_and_no_other(machine: Machine) -> None:
    there = {each["id"] for each in machine.json("sessions", "list")["sessions"]}
    ours = machine.json("sessions", "list", "--agent", "gemini")["sessions"]
    assert 0 < len(ours) < len(there)
    one = min(each["id"] for each in ours if not each["parent_id"])
    unknown = machine.run("sessions", "list", "--agent", "nope")
    assert "There is no agent 'nope'." in unknown.words
    assert "The agents are " in unknown.words
    refused = machine.run("sessions", "delete", one, "--yes", "--agent", "codex")
    assert refused.code == 2
    machine.ok("sessions", "pin", one, "--agent", "gemini")
    assert (machine.user / ".gemini" / ".holdfast" / "pins.json").exists()
    assert not (machine.user / ".codex" / ".holdfast" / "pins.json").exists()


def test_several_homes_of_one_agent(machine: Machine) -> None:
    """Reading covers them, changing asks which; --all-homes takes all of that agent."""
    other = machine.root / "other"
    shutil.copytree(machine.user / ".codex", other, symlinks=True)
    env = {"CODEX_HOME": str(other)}
    homes = machine.json("status", "--agent", "codex", env=env)["homes"]
    assert {each["home"] for each in homes} == {str(other), str(machine.user / ".codex")}
    asked = machine.run("sessions", "prune", "--agent", "codex", "--dry-run", env=env)
    assert asked.code == 2
    assert "several homes" in asked.words
    done = machine.json(
        "sessions", "prune", "--agent", "codex", "--all-homes", "--dry-run", env=env
    )
    assert {each["agent"] for each in done["homes"]} == {"codex"}


#: Commands that work on all homes, so that they change nothing.
_ON_ALL = {
    "sessions prune": "--dry-run",
    "sessions gc": "--dry-run",
    "sessions archive": "--older-than 1d --dry-run",
    "sessions restore": "--all --dry-run",
    "maintain": "--dry-run",
    "vault on": "--dry-run",
    "vault off": "--dry-run",
    "doctor": "",
    "undo": "--dry-run",
    "redo": "--dry-run",
    "trash empty": "--dry-run",
}


def test_every_command_on_all_homes_is_in_the_list() -> None:
    assert {
        entry.path.removeprefix("holdfast ")
        for entry in cli_reference.entries()
        if any("--all-homes" in each.opts for each in entry.command.params)
    } == _ON_ALL.keys()


@pytest.mark.parametrize("command", _ON_ALL)
def test_all_homes_of_one_agent(machine_once: Machine, command: str) -> None:
    """Whether it has one home or several, and before or behind the command."""
    words = (*command.split(), "--all-homes", *_ON_ALL[command].split())
    for line in ((*words, "--agent", "codex"), ("--agent", "codex", *words)):
        done = Inside(machine_once).run("--json", *line)
        assert done.code == (1 if command in ("undo", "redo") else 0), done
        assert {each["agent"] for each in done.document["homes"]} == {"codex"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--agent", "codx"), "Did you mean 'codex'?"),
        (("--agent", "codex", "--home", "codex"), "contradict each other"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    machine_once: Machine, words: tuple[str, ...], said: str
) -> None:
    done = machine_once.run("status", *words)
    assert done.code == 2
    assert said in done.words


def test_an_agent_without_a_home(tmp_path: Path) -> None:
    machine = Machine(root=tmp_path)
    machine.user.mkdir()
    done = machine.run("sessions", "list", "--agent", "codex")
    assert done.code == 2
    assert "There is no home of codex here" in done.words


def test_the_library_takes_agents_too(machine_once: Machine) -> None:
    with holdfast.machine(
        user_home=machine_once.user, environ={}, agents=("codex", "pi")
    ) as machine:
        assert {each.agent for each in machine.homes} == {"codex", "pi"}
        assert {each.home.agent for each in machine.list_sessions().found} == {"codex", "pi"}
    with pytest.raises(UsageError, match="nobody"):
        holdfast.machine(user_home=machine_once.user, environ={}, agents=("nobody",))

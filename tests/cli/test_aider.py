"""A project in which aider was used: what would change it is refused in words, and the machine
finds it where another agent worked, or where the configuration says."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.agents import settle
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.contract.factory import files_and_rows

_RECORDED = Path(__file__).parents[1] / "data" / "homes" / "aider.tar.xz"
_CHAT = "20261116_043249"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(root=tmp_path)
    made.user.mkdir(mode=0o700)
    with tarfile.open(_RECORDED) as tar:
        tar.extractall(made.user / "work" / "shop", filter="tar")
    return settle(made, "codex", "holdfast")


@pytest.fixture
def inside(machine: Machine) -> Inside:
    return Inside(machine)


@pytest.fixture
def project(machine: Machine) -> Path:
    return machine.user / "work" / "shop"


@pytest.mark.parametrize(
    "words",
    [
        ("delete", _CHAT, "--yes"),
        ("delete", _CHAT, "--dry-run"),
        ("archive", _CHAT, "--yes"),
        ("archive", "--older-than", "1d", "--yes"),
        ("prune", "--older-than", "1d", "--yes"),
        ("gc", "--older-than", "1d", "--yes"),
    ],
    ids=" ".join,
)
def test_what_would_remove_a_chat_is_refused(
    inside: Inside, project: Path, words: tuple[str, ...]
) -> None:
    before = (project / ".aider.chat.history.md").read_bytes()
    done = inside.run("--home", str(project), "sessions", *words)
    assert done.code == 1, done
    assert "only aider writes" in done.words
    assert "Nothing was changed" in done.words or "Nothing can be removed here" in done.words
    assert "later version" not in done.words
    assert (project / ".aider.chat.history.md").read_bytes() == before


def list_it(inside: Inside, project: Path) -> None:
    inside.ok("--home", "holdfast", "config", "set", "homes", str(project))


def test_a_project_is_found_where_another_agent_worked(
    inside: Inside, machine: Machine, project: Path
) -> None:
    """In a subfolder of it, too. Nothing is looked at besides."""
    assert "aider was used" not in inside.ok("status").words
    other = machine.user / "elsewhere"
    shutil.copytree(project, other)
    with closing(sqlite3.connect(machine.user / ".codex" / "state_5.sqlite")) as db, db:
        db.execute("UPDATE threads SET cwd = ?", (str(project / "src"),))
    said = inside.ok("status").words
    assert f"aider was used in 1 project of yours: {project}." in said
    command = f"holdfast --home holdfast config set homes {project}"
    assert command in said
    found = inside.json("status")
    assert isinstance(found, dict)
    assert found["in_projects"] == [{"home": str(project), "agent": "aider"}]
    inside.ok(*command.split()[1:])
    assert "aider was used" not in inside.ok("status").words


def test_a_listed_project_is_a_home_like_any_other(inside: Inside, project: Path) -> None:
    list_it(inside, project)
    said = inside.ok("status", "--agent", "aider").words
    assert str(project) in said
    assert "problem" not in inside.ok("status").words, "it is so in every home of aider"
    assert _CHAT in inside.ok("sessions", "list").words
    assert inside.run("sessions", "show", _CHAT).code == 0
    refused = inside.run("sessions", "delete", _CHAT, "--yes")
    assert (refused.code, "only aider writes" in refused.words) == (1, True)
    pruned = inside.run("sessions", "prune", "--all-homes", "--older-than", "9000d", "--yes")
    assert pruned.code == 0, "who works on all homes did not ask for this one"


_OTHERS = (
    "projects/alpha/train.jsonl projects/alpha/train/ sessions/one.json",
    "projects/alpha/train.jsonl projects/alpha/train/one.csv settings.json",
    "config.yaml skills/plan.md logs/run.log",
    "projects/alpha/chats/one.jsonl",
    "session-state/x/state.json",
    "archived_sessions/one.jsonl sessions/2026/11/one.jsonl",
)


@pytest.mark.parametrize("names", _OTHERS)
def test_files_of_a_project_are_not_taken_for_those_of_another_agent(
    inside: Inside, project: Path, names: str
) -> None:
    """They were removed for good: as sessions, or as what no session owns."""
    for name in names.split():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            path.write_text('{"text": "mine"}\n')
        os.utime(path, (1_600_000_000, 1_600_000_000))
    list_it(inside, project)
    before = files_and_rows(project)
    policy = ("--older-than", "30d", "--now", "--yes")
    inside.ok("sessions", "prune", "--all-homes", *policy)
    inside.ok("--home", str(project), "maintain", "--force")
    assert before.items() <= files_and_rows(project).items()
    assert str(project) in inside.ok("status", "--agent", "aider").words


def test_a_list_that_is_wrong_lists_nothing(inside: Inside, machine: Machine) -> None:
    """The home whose configuration is wrong says so, and the others are shown."""
    refused = inside.run("--home", "holdfast", "config", "set", "homes", "work/shop")
    assert (refused.code, "is not absolute" in refused.words) == (2, True)
    (machine.user / ".holdfast" / "config.toml").write_text('homes = "/nowhere"\n')
    said = inside.run("status")
    assert said.code == 2
    assert "homes: expected a list of absolute paths" in said.words
    assert "codex" in said.words


def test_a_listed_project_has_a_name(inside: Inside, machine: Machine, project: Path) -> None:
    list_it(inside, project)
    for named in ("aider", "aider/shop"):
        shown = inside.ok("--home", named, "sessions", "list")
        assert "20261116_04" in shown.out, named
    other = machine.user / "elsewhere" / "shop"
    shutil.copytree(project, other)
    inside.ok("--home", "holdfast", "config", "set", "homes", str(project), str(other))
    for named in ("aider", "aider/shop"):
        asked = inside.run("--home", named, "sessions", "list")
        assert asked.code == 2
        assert str(project) in asked.err
        assert str(other) in asked.err
    assert inside.run("--home", "aider/none", "sessions", "list").code == 2

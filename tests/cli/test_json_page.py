"""docs/json.md names every key that --json prints, and every word that a value can be."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from holdfast import errors
from holdfast.model import archive, checkpoint, checkup, maintenance, operation, plan, report
from holdfast.model.session import EndReason, Relation
from holdfast.policy.remedy import Remedy
from holdfast.services.status import AGES
from tests.cli import hostile
from tests.cli.agents import settle
from tests.cli.every_command import COMMANDS, SENSIBLE, Said, say
from tests.cli.hostile import World
from tests.cli.machine import Machine

_DOCS = Path(__file__).parents[2] / "docs"
#: What is in them comes from agents, users and the names of rules.
_ANYTHING = {"content", "tool_calls", "extra", "redacted", "held_by"}
_CODE = re.compile(r"`([\w -]+)`")
_PAGE = re.compile(r"\]\((how-to/[\w-]+\.md)#([\w-]+)\)")
#: They apply to every command.
_GENERAL = ("Exit codes", "Several homes")
#: A run that is to have happened before, so that there is something to show.
_REMOVAL = "sessions delete {session} --yes"
_BEFORE = {
    "apply": ("sessions prune --older-than 1d --plan-out {plan}",),
    "log": (_REMOVAL, "undo --yes"),
    "undo": (_REMOVAL,),
    "redo": (_REMOVAL, "undo --yes"),
    "trash list": (_REMOVAL,),
    "trash empty": (_REMOVAL,),
}
#: On a machine of several agents: what is different there, and what needs another agent's home.
_ON_A_MACHINE = (
    "status",
    "sessions list --limit 3",
    "sessions search the",
    "sessions stats",
    "sessions stats --cost",
    "sessions prune --all-homes --dry-run",
    "log",
    "trash list",
    "undo --all-homes --dry-run",
    "maintain --all-homes --force",
    "maintain --install systemd --dry-run",
    "maintain --install cron --dry-run",
    "connect codex --dry-run",
    "connect codex --yes",
    "connect --status",
    "disconnect codex --yes",
    "doctor",
    "--home claude-code vault on --yes",
    "--home claude-code vault off --yes",
    "vault status",
    "metrics",
)
_WORDS: dict[str, tuple[type[StrEnum], ...]] = {
    "sessions list": (Relation, EndReason, archive.Holds),
    "sessions prune": (plan.Action, report.Result),
    "checkpoints": (
        checkpoint.TakeOutcome,
        checkpoint.ProjectState,
        checkpoint.ChangeKind,
        checkpoint.ImportState,
    ),
    "log": (operation.OperationAction, operation.OperationState),
    "doctor": (checkup.Severity,),
    "status": (Remedy,),
    "maintain": (maintenance.Step, maintenance.Skipped, maintenance.EventKind),
}
#: A pending item has not ended, so no report has it. `look` and the others stand for a step only
#: when they fail.
_NEVER = {
    report.Result.PENDING,
    maintenance.Step.LOOK,
    maintenance.Step.FIGURES,
    maintenance.Step.RECORD,
    maintenance.Step.PROGRESS,
}
#: Errors of the library that no command ends with.
_IN_PYTHON_ONLY = (
    errors.ClosedError,
    errors.StalePlanError,
    errors.BudgetExceededError,
    errors.UnknownCostError,
    errors.DeclinedError,
)


@cache
def _sections(page: str = "json.md") -> dict[str, str]:
    """The text below each heading of the second level, by the heading."""
    parts = re.split(r"^## ", (_DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {heading: text for heading, _, text in (part.partition("\n") for part in parts[1:])}


@cache
def _heading(path: str) -> str | None:
    """The section about a command. A heading names the commands of a group by their last word, and
    one of a whole group names the group."""
    group, _, last = path.rpartition(" ")
    for heading in _sections():
        names = _CODE.findall(heading)
        groups = {name.rpartition(" ")[0] for name in names}
        if path in names or group in names or (group in groups and last in names):
            return heading
    return None


@cache
def _told_about(path: str) -> str:
    """Everything that a reader of the section about this command is led to."""
    found: dict[str, str] = {heading: _sections()[heading] for heading in _GENERAL}
    headings = [heading for heading in [_heading(path)] if heading is not None]
    while headings:
        heading = headings.pop()
        if heading in found:
            continue
        text = found[heading] = _sections()[heading]
        named = {_heading(name) for name in _CODE.findall(text) if name in COMMANDS}
        headings += [each for each in named if each is not None]
        for page, anchor in _PAGE.findall(text):
            found |= {
                f"{page}#{anchor}": _sections(page)[each]
                for each in _sections(page)
                if each.lower().replace(" ", "-") == anchor
            }
    return "".join(found.values())


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in _ANYTHING:
                yield from _keys(inner)
    elif isinstance(value, list):
        for each in value:
            yield from _keys(each)


def _is_named(word: str, text: str) -> bool:
    """In code, or as the first cell of a table."""
    return any(each in text for each in (f'"{word}"', f"`{word}`", f"\n| {word} |"))


def _unnamed(path: str, said: Said) -> list[str]:
    assert _heading(path) is not None, f"docs/json.md has no section about {path}"
    text = _told_about(path)
    return sorted({key for key in _keys(json.loads(said.out)) if not _is_named(key, text)})


@pytest.fixture(scope="module")
def world_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    return hostile.build(tmp_path_factory.mktemp("world"), time.time())


@pytest.fixture
def world(tmp_path: Path, world_once: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return hostile.copy(world_once, tmp_path)


@pytest.mark.parametrize("path", SENSIBLE)
def test_every_key_of_a_command_is_named(world: World, path: str) -> None:
    at = ("--home", str(world.home), "--json")
    for before in _BEFORE.get(path, ()):
        say(*at, *(word.format(**world.places) for word in before.split()))
    for args in SENSIBLE[path]:
        said = say(*at, *path.split(), *(word.format(**world.places) for word in args.split()))
        assert _unnamed(path, said) == [], args


def test_every_key_on_a_machine_of_several_agents_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(root=tmp_path)
    machine.user.mkdir(mode=0o700)
    settle(machine)
    for name, value in machine.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    monkeypatch.chdir(machine.user)
    missing = {}
    for words in _ON_A_MACHINE:
        path = re.sub(r"^--home \S+ ", "", words).partition(" -")[0]
        path = next(each for each in COMMANDS if f"{path} ".startswith(f"{each} "))
        missing[words] = _unnamed(path, say("--json", *words.split()))
    assert {words: keys for words, keys in missing.items() if keys} == {}


@pytest.mark.parametrize("path", _WORDS)
def test_every_word_that_a_value_can_be_is_named(path: str) -> None:
    words = [word for each in _WORDS[path] for word in each if word not in _NEVER]
    assert [str(word) for word in words if not _is_named(word, _told_about(path))] == []


def test_every_age_is_named() -> None:
    assert [name for name, _ in AGES if f"`{name}`" not in _told_about("status")] == []


def test_every_kind_of_error_is_named_with_its_exit_code() -> None:
    table = _sections()["Exit codes"]
    for error in vars(errors).values():
        if not isinstance(error, type) or not issubclass(error, errors.HoldfastError):
            continue
        if not issubclass(error, _IN_PYTHON_ONLY):
            row = re.search(rf"^\| {error.exit_code} \|.*$", table, flags=re.MULTILINE)
            assert row is not None
            assert f"`{error.kind}`" in row[0], f"{error.kind} ends with {error.exit_code}"


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("undo", 1, "nothing to undo"),
        ("redo", 1, "or to redo"),
        ("sessions prune --yes", 0, "nothing to remove"),
        ("sessions archive --older-than 1d --yes", 0, "to archive"),
        ("log", 0, "no operation to list"),
        ("--home nowhere status", 2, "a home or a file to read that is not there"),
        ("sessions import nowhere.jsonl", 2, "a home or a file to read that is not there"),
    ],
)
def test_exit_codes_are_those_of_the_page(
    machine: Machine, command: str, code: int, words: str
) -> None:
    """Where there is nothing to do: removing nothing is done, undoing nothing has failed."""
    settle(machine, "holdfast")
    machine.ok("sessions", "prune", "--older-than", "0s", "--no-files", "--now", "--yes")
    (machine.home / "operations").rename(machine.root / "log")
    assert machine.run(*command.split()).code == code
    page = (_DOCS / "json.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\d+) \| (.*?) \|", page, re.MULTILINE))
    assert words in rows[str(code)]

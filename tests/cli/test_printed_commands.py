"""A command that Holdfast prints works as it is printed, on a machine with several homes too."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from holdfast.cli.app import root
from tests.cli.agents import home_of, settle
from tests.cli.machine import Machine
from tests.cli.runner import Result
from tools import cli_reference

#: What stands for something that a person fills in.
_BLANK = re.compile(r"\b[A-Z]{2,}\b|…")
_SHOWN = re.compile(r"`(holdfast [^`]+)`|^ +(?:[A-Z][a-z ]+: +)?(holdfast [^\n]+)$", re.MULTILINE)
_USAGE = 2


@pytest.fixture
def two(machine: Machine) -> Machine:
    """Hermes and Codex, as they left their homes; the first checkpoint adds a home."""
    return settle(machine, "hermes", "codex")


def _printed(said: Result) -> list[str]:
    found = [next(filter(None, each)) for each in _SHOWN.findall(said.out + said.err)]
    return [each.rstrip(".") for each in dict.fromkeys(found) if not _BLANK.search(each)]


def _try(machine: Machine, said: Result) -> list[str]:
    """Type every command that was printed, in a process of its own. Nobody answers questions."""
    printed = _printed(said)
    for line in printed:
        if line in ("holdfast demo", "holdfast run -- claude"):
            continue  # it takes long; there is no claude here
        done = machine.run(*shlex.split(line, comments=True)[1:], cwd=machine.user)
        assert done.code != _USAGE, (line, done)
        assert "several homes" not in done.err, (line, done)
    return printed


def test_the_first_checkpoint_and_its_ways_back(two: Machine, project: Path) -> None:
    """It makes a third home, and `undo` works on one."""
    taken = two.run("checkpoints", "take", cwd=project)
    assert _try(two, taken)
    checkpoint = two.json("checkpoints", "list", str(project))["checkpoints"][0]["id"]
    (project / "src" / "main.py").write_text("changed\n")
    asked = two.run("checkpoints", "restore", checkpoint, cwd=project)
    assert asked.code == 3
    with two.terminal("checkpoints", "restore", checkpoint) as shown:
        shown.wait_for("[y/N]")
        shown.type("n\n")
        assert "`holdfast --home holdfast undo` can undo this" in shown.end().words
    restored = two.run("checkpoints", "restore", checkpoint, "--yes", cwd=project)
    assert _try(two, restored) == ["holdfast --home holdfast undo 1"]
    deleted = two.run("checkpoints", "delete", checkpoint, "--yes", cwd=project)
    assert any(each.startswith("holdfast --home holdfast undo") for each in _try(two, deleted))
    cleared = two.run("checkpoints", "clear", "--yes", cwd=project)
    assert any(each.startswith("holdfast --home holdfast undo") for each in _try(two, cleared))
    assert two.json("checkpoints", "list", str(project))["checkpoints"]


def test_with_one_home_nothing_has_to_be_named(machine: Machine, project: Path) -> None:
    machine.run("checkpoints", "take", cwd=project)
    checkpoint = machine.json("checkpoints", "list", str(project))["checkpoints"][0]["id"]
    (project / "src" / "main.py").write_text("changed\n")
    restored = machine.run("checkpoints", "restore", checkpoint, "--yes", cwd=project)
    assert _try(machine, restored) == ["holdfast undo 1"]


@pytest.mark.parametrize(
    "words",
    [
        "",
        "status",
        "--home codex status",
        "sessions",
        "sessions list",
        "sessions list --archived",
        "sessions show zzz",
        "sessions search nowhere-at-all",
        "sessions stats",
        "sessions stats --cost",
        "sessions prune --dry-run",
        "sessions prune --home hermes --older-than 0s --yes",
        "sessions prune --all-homes --older-than 0s --yes",
        "sessions archive",
        "sessions archive --all-homes --older-than 0s --yes",
        "sessions restore zzz",
        "checkpoints",
        "checkpoints list",
        "checkpoints show 3f2a1b9c",
        "checkpoints remote list",
        "checkpoints take",
        "config show",
        "config init",
        "config set sessions.retention_days 30",
        "connect codex --yes",
        "connect --status",
        "doctor",
        "doctor --all-homes",
        "maintain",
        "maintain --dry-run",
        "maintain --all-homes",
        "maintain --home codex",
        "metrics",
        "log",
        "undo",
        "undo 1",
        "--home codex undo 99",
        "redo",
        "trash",
        "trash empty",
        "vault",
        "vault on",
        "vault on --all-homes",
        "--home codx status",
        "--home gemini status",
        "--home gemini config init",
        "--agent gemini sessions list",
        "sessions import nowhere.jsonl",
        "--home codex sessions import nowhere",
        "run",
    ],
)
def test_what_a_command_prints_works(two: Machine, words: str) -> None:
    _try(two, two.run(*words.split(), cwd=two.user))


def test_a_list_of_the_homes_is_of_all(two: Machine) -> None:
    refused = two.run("--home", "gemini", "config", "init")
    assert "`holdfast status` lists the homes" in refused.err
    assert not home_of(two, "gemini").exists()


def test_a_plan_for_a_home_elsewhere_names_it_in_its_way_back(two: Machine) -> None:
    elsewhere = two.root / "elsewhere"
    home_of(two, "hermes").rename(elsewhere)
    settle(two, "holdfast")
    plan = str(two.root / "plan.json")
    prune = ["sessions", "prune", "--older-than", "0s", "--plan-out", plan]
    two.ok("--home", str(elsewhere), *prune)
    applied = two.ok("apply", plan, "--yes")
    assert f"holdfast --home {elsewhere} undo 1" in _try(two, applied)


def _examples() -> list[str]:
    found = [each.command for each in cli_reference.entries()]
    return [line for each in found for line in getattr(each, "example", "").splitlines()]


def test_examples_name_a_home_where_one_is_needed() -> None:
    """What takes --all-homes works on one home; only a session names its home by itself."""
    for line in _examples():
        words = shlex.split(line, comments=True)
        if words[:1] != ["holdfast"] or "|" in words:
            continue
        context, rest = click.Context(root, info_name="holdfast"), words[1:]
        command: click.Command = root
        name = "holdfast"
        while isinstance(command, click.Group) and rest:
            name = rest.pop(0)
            command = command.get_command(context, name) or root
        if "all_homes" not in {each.name for each in command.params} or "--" in rest:
            continue
        given = command.make_context(name, list(rest), resilient_parsing=True).params
        finds_it = given.get("ids") or given.get("watched") or given.get("scheduler")
        assert finds_it or "--home" in rest or given.get("all_homes"), line

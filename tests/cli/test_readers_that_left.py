"""A changing command whose reader went away does what it was told to, with its own exit code."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from holdfast.cli.changing import CHANGING, is_told_to_change
from tests.cli import hostile
from tests.cli.every_command import COMMANDS, ENDLESS, SENSIBLE, say, say_to_nobody
from tests.cli.hostile import World


def _told(path: str, args: str) -> bool:
    entry = COMMANDS[path]
    words = [word.format_map(Counter()) for word in args.split()]
    context = entry.command.make_context(path, words, resilient_parsing=True)
    return is_told_to_change(path, context.params)


_TOLD = [(path, args) for path, runs in SENSIBLE.items() for args in runs if _told(path, args)]


@pytest.fixture(scope="module")
def world_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    return hostile.build(tmp_path_factory.mktemp("left"), time.time())


def test_every_changing_command_is_tried() -> None:
    assert set(COMMANDS) >= CHANGING
    not_here = {"checkpoints clear-legacy", "vault on", "vault off"}  # nothing to clear, no vault
    assert {path for path, _ in _TOLD} | ENDLESS >= CHANGING - not_here


def _state(home: Path) -> tuple[Counter[str], set[str]]:
    """How many files there are in each folder of a home, and the names that are not by chance."""
    files = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
    names = {str(path) for path in files if path.parts[0] in ("sessions", "operations")}
    return Counter(path.parts[0] for path in files if path.parts[0] != "checkpoints"), names


@pytest.mark.parametrize(("path", "args"), _TOLD)
def test_it_is_done(
    tmp_path: Path, world_once: World, path: str, args: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = []
    for name in ("heard", "unheard"):
        (tmp_path / name).mkdir()
        world = hostile.copy(world_once, tmp_path / name)
        words = [word.format(**world.places) for word in args.split()]
        at = ("--home", str(world.home))
        if path == "apply":
            say(*at, "sessions", "delete", world.places["session"], "--plan-out", words[0])
        Path(world.places["project"], "one more").write_text(name)  # for a restore to remove
        before = _state(world.home)
        run = [*at, *path.split(), *words]
        code = say(*run).code if name == "heard" else say_to_nobody(*run)
        seen.append((code, before, _state(world.home)))
    assert seen[0] == seen[1]


def test_whoever_is_asked_must_have_seen_the_plan(world_once: World) -> None:
    for command in ("sessions prune --older-than 1d", "trash empty", "checkpoints clear"):
        assert say_to_nobody("--home", str(world_once.home), *command.split()) == 3


@pytest.mark.parametrize("command", ["status", "log", "sessions list", "sessions prune --dry-run"])
def test_whoever_only_looks_ends_with_its_reader(world_once: World, command: str) -> None:
    assert say_to_nobody("--home", str(world_once.home), *command.split()) == 0

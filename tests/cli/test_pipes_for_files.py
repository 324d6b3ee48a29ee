"""A pipe, a socket or a device where a file is expected: nobody waits for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.cli import hostile
from tests.cli.every_command import Said, say
from tests.cli.hostile import World
from tests.cli.runner import COMMAND, environment
from tests.compat.hermes_sessions import recorded

#: They read and write everything that a home has.
_COMMANDS = (
    "status",
    "sessions list --archived",
    "sessions show 20260101_090000_aaaaaa",
    "sessions search word --archived",
    "checkpoints list --all-projects",
    "checkpoints take {project}",
    "log",
    "trash list",
    "doctor",
    "sessions rename 20260101_090000_aaaaaa title",
    "sessions restore --all",
    "sessions prune --older-than 1d --yes",
    "maintain --force",
    "undo",
    "checkpoints prune --retention-days 0 --yes",
    "trash empty --yes",
)
#: These alone open nearly all of it.
_MOST = ("doctor", "checkpoints take {project}", "maintain --force", "sessions restore --all")
#: Git opens these by itself, one by one as it needs them.
_GITS_OWN = ("checkpoints/store/objects/", "checkpoints/store/refs/")
#: More than any of these takes, even on a busy machine: whoever takes longer waits for a writer.
_PATIENCE = 60


@pytest.fixture(scope="module")
def world_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    return hostile.build(tmp_path_factory.mktemp("pipes"), time.time())


class WaitsForEverError(BaseException):
    """Nobody catches this: maintenance, for one, lets no exception out."""


@contextlib.contextmanager
def _impatient(what: str) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise WaitsForEverError(what)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _kinds(home: Path) -> list[str]:
    """One file of each kind that the home has."""
    found: dict[str, str] = {}
    for path in sorted(home.rglob("*")):
        name = path.relative_to(home).as_posix()
        if path.is_file() and not path.is_symlink() and not name.startswith(_GITS_OWN):
            shape = "".join("#" if c.isdigit() or c in "abcdef" else c for c in name)
            found.setdefault("".join(dict.fromkeys(shape)) + str(path.parent.name == "hooks"), name)
    return list(found.values())


def _run(home: Path, project: str, command: str) -> Said:
    words = [word.format(project=project) for word in command.split()]
    with _impatient(command):
        said = say("--home", str(home), *words)
    assert "Internal error" not in said.text, (command, said)
    assert said.code in (0, 1, 2, 3, 4, 5), (command, said)
    return said


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _try_all(tmp_path: Path, world: World, commands: Sequence[str]) -> None:
    names = [*_kinds(world.home), "config.toml", "maintenance.json"]
    assert len(names) > 15, names
    for number, name in enumerate(names):
        home = tmp_path / str(number)
        shutil.copytree(world.home, home, symlinks=True)
        _pipe(home / name)
        for command in commands:
            _run(home, world.places["project"], command)
        shutil.rmtree(home)


def test_every_file_of_a_home(
    tmp_path: Path, world_once: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    _try_all(tmp_path, world_once, _MOST)


@pytest.mark.deep
def test_every_file_of_a_home_and_every_command(
    tmp_path: Path, world_once: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    _try_all(tmp_path, world_once, _COMMANDS)


@pytest.mark.parametrize("command", ["status", "sessions list", "sessions prune --yes", "doctor"])
@pytest.mark.parametrize(
    "name", ["state.db", "config.yaml", "gateway_state.json", "holdfast/config.toml", "sessions"]
)
def test_a_home_of_hermes(
    tmp_path: Path, name: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = recorded(tmp_path / "hermes")
    if (home / name).is_dir():
        name = next(each.relative_to(home).as_posix() for each in (home / name).iterdir())
    (home / name).parent.mkdir(exist_ok=True)
    _pipe(home / name)
    _run(home, str(tmp_path), command)


@pytest.mark.parametrize("command", ["apply {} --yes", "sessions import {}", "--home {} status"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_a_file_that_is_named(
    tmp_path: Path, command: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    odd = Path("/dev/zero") if kind == "device" else Path("odd")
    if kind == "pipe":
        os.mkfifo(odd)
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "socket":
            listening.bind("odd")
        with _impatient(command):
            said = say(*command.format(odd).split())
    assert said.code in (1, 2), said
    assert "Internal error" not in said.text


def test_a_pipe_from_the_shell_is_read(tmp_path: Path) -> None:
    """`<(zcat old.jsonl.gz)` is a pipe as well, and somebody writes to it."""
    line = '{"id": "20260101_090000_aaaaaa", "source": "cli", "started_at": 1, "messages": []}'
    done = subprocess.run(
        ["bash", "-c", f"\"$@\" sessions import <(echo '{line}')", "bash", *COMMAND],
        env=environment(tmp_path),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Stored 1 session" in done.stdout

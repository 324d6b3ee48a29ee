"""Every command there is, with arguments that make sense, run in this process.

For properties that hold of all commands. A command that is missing here fails their tests.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from holdfast.cli.main import run
from tools import cli_reference

#: `{…}` stands for something in the world that the test made. Two words mean two runs.
SENSIBLE: dict[str, tuple[str, ...]] = {
    "status": ("",),
    "sessions list": ("", "--archived", "--limit 1", "--root-only --not-source cron"),
    "sessions show": ("{session}", "{session} --last 1"),
    "sessions search": ("word", "word --archived"),
    "sessions stats": ("",),
    "store init": ("--print-sql",),
    "sessions export": ("{session} --format markdown", "--all --output {new}"),
    "sessions import": ("{exported} --dry-run", "{exported}", "{exported} --replace"),
    "sessions rename": ("{session} another",),
    "sessions pin": ("{session} --dry-run", "{session}"),
    "sessions unpin": ("{session}",),
    "sessions end": ("{open}",),
    "sessions prune": ("--dry-run --all", "--yes --all", "--archived --older-than 0s --yes"),
    "sessions gc": ("--dry-run --all", "--yes --all"),
    "sessions delete": ("{session} --dry-run --all", "{session} {open} --yes --all"),
    "sessions archive": ("{session} --dry-run --all", "{session} --yes --all"),
    "sessions restore": ("--all --dry-run", "--all"),
    "checkpoints status": ("--all",),
    "checkpoints list": ("{project}", "--all-projects"),
    "checkpoints take": ("{project} --all --dry-run", "{project} --all", "{changed} --all"),
    "checkpoints excluded": ("{project} --all",),
    "checkpoints show": ("{checkpoint} --all",),
    "checkpoints diff": ("{checkpoint} --stat",),
    "checkpoints restore": ("{checkpoint} --dry-run --all", "{checkpoint} --yes --all"),
    "checkpoints import": ("{home}",),
    "checkpoints pin": ("{checkpoint} --dry-run", "{checkpoint}"),
    "checkpoints unpin": ("{checkpoint}",),
    "checkpoints rename": ("{checkpoint} another",),
    "checkpoints delete": ("{checkpoint} --dry-run --all", "{checkpoint} --yes --all"),
    "checkpoints prune": ("--dry-run --all", "--retention-days 0 --yes --all"),
    "checkpoints clear": ("--dry-run --all", "--yes --all"),
    "checkpoints clear-legacy": ("--dry-run --all",),
    "checkpoints remote": ("add other {home} --dry-run", "add other host:x.git", "list"),
    "checkpoints push": ("backup --all-projects --dry-run", "backup {project} --prune --yes"),
    "checkpoints fetch": ("backup --dry-run", "backup --all"),
    "checkpoints verify": ("",),
    "vault status": ("",),
    "vault on": ("--dry-run",),
    "vault off": ("--dry-run",),
    "metrics": ("", "--rules", "--textfile {new}"),
    "maintain": ("--dry-run", "--force"),
    "apply": ("{plan} --dry-run --all", "{plan} --yes --all"),
    "log": ("",),
    "undo": ("--dry-run --all", ""),
    "redo": ("--dry-run --all", "--yes"),
    "trash empty": ("--dry-run --all", "--yes --all"),
    "trash list": ("",),
    "config check": ("",),
    "config get": ("sessions.retention_days",),
    "config init": ("",),
    "config path": ("",),
    "config set": ("sessions.retention_days 30 --dry-run", "sessions.retention_days 30"),
    "config show": ("", "sessions"),
    "connect": ("codex --dry-run", "--status", "gemini --yes"),
    "disconnect": ("gemini --yes",),
    "doctor": ("", "--repair --yes"),
    "run": ("--no-checkpoints -- true", "--max-time 1h -- false"),
    "completion": ("bash",),
    "help": ("", "prune"),
}
#: They run until somebody stops them, run other commands of this list, start an editor, or need a
#: database server (test_fleet.py has those).
ENDLESS = {
    "checkpoints watch",
    "demo",
    "config edit",
    "mcp",
    "store copy",
    "fleet status",
    "fleet forget",
    "web",
}

COMMANDS = {
    entry.path.removeprefix("holdfast "): entry
    for entry in cli_reference.entries()
    if not isinstance(entry.command, click.Group)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a run ended and what it wrote, as bytes."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return (self.out + self.err).decode("utf-8", "surrogateescape")


def say(*words: str) -> Said:
    """Run the command in this process, its output in a pipe of strict UTF-8."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code = _run(words, out, err)
    return Said(code=code, out=_written(out), err=_written(err))


def captured(show: Callable[[], None]) -> Said:
    """What a function shows, as a command that calls it would."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        show()
    return Said(code=0, out=_written(out), err=_written(err))


def say_to_nobody(*words: str) -> int:
    """The exit code of a run whose output, of both kinds, goes into pipes that nobody reads."""
    with contextlib.ExitStack() as open_pipes:
        streams = []
        for _ in range(2):
            reader, writer = os.pipe()
            os.close(reader)
            streams.append(open_pipes.enter_context(os.fdopen(writer, "w")))
        return _run(words, *streams)


def _run(words: Sequence[str], out: TextIO, err: TextIO) -> int:
    thresholds = gc.get_threshold()
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _no_input(),
        ):
            return run(list(words))
    finally:
        gc.set_threshold(*thresholds)


def _written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue()


@contextlib.contextmanager
def _no_input() -> Iterator[None]:
    before = sys.stdin
    with Path("/dev/null").open() as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before

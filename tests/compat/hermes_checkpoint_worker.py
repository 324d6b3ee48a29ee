"""Hermes's own `CheckpointManager`, in a process of its own; runs in the environment of Hermes. The
home is the one in HERMES_HOME.

It reads one request a line, a JSON list of the work and its arguments, and answers with a line.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

_hermes = importlib.import_module("tools.checkpoint_manager")
_manager = _hermes.CheckpointManager(
    enabled=True, max_snapshots=int(os.environ.get("MAX_SNAPSHOTS", "20"))
)
_errors: list[str] = []


class _Listening(logging.Handler):
    """Hermes tells of what failed in its log, and nowhere else."""

    def emit(self, record: logging.LogRecord) -> None:
        _errors.append(record.getMessage())


logging.getLogger("tools.checkpoint_manager").addHandler(_Listening(logging.WARNING))


def take(workdir: str, reason: str, when: int | None = None) -> bool:
    """A checkpoint at the beginning of a turn; with `when`, as if it were that time."""
    for who in ("AUTHOR", "COMMITTER") if when is not None else ():
        os.environ[f"GIT_{who}_DATE"] = f"{when} +0000"
    _manager.new_turn()
    return bool(_manager.ensure_checkpoint(workdir, reason))


def listed(workdir: str) -> Any:
    return _manager.list_checkpoints(workdir)


def diff(workdir: str, commit: str) -> Any:
    return _manager.diff(workdir, commit)


def restore(workdir: str, commit: str) -> Any:
    return _manager.restore(workdir, commit)


def errors() -> list[str]:
    """What went wrong since this was last asked."""
    found = list(_errors)
    _errors.clear()
    return found


def keep_busy(workdirs: list[str], seconds: float) -> dict[str, dict[str, dict[str, str]]]:
    """Change files and take checkpoints, as a busy agent does; what each captured, by reason."""
    captured: dict[str, dict[str, dict[str, str]]] = {each: {} for each in workdirs}
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        for each in workdirs:
            number += 1
            files = {"a.txt": f"{each} {number}\n", f"{number % 7}.txt": "x" * number}
            for name, text in files.items():
                Path(each, name).write_text(text)
            if take(each, f"turn {number}"):
                found = {path.name: path.read_text() for path in Path(each).iterdir()}
                captured[each][f"turn {number}"] = found
    return captured


def status() -> Any:
    return _hermes.store_status()


def prune() -> Any:
    return _hermes.prune_checkpoints(7)


if __name__ == "__main__":
    for line in sys.stdin:
        work, *arguments = json.loads(line)
        sys.stdout.write(json.dumps(globals()[work](*arguments)) + "\n")
        sys.stdout.flush()

"""A project with checkpoints, for tests of `holdfast checkpoints`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.homes.registry import create_home
from holdfast.model.checkpoint import Checkpoint, TakeOutcome
from tests.cli.machine import Machine, entries
from tests.cli.runner import Result

ODD = b"odd \xff\n\x1b[31mname"
ODD_TEXT = os.fsdecode(ODD)
#: What SPEC §9 promises.
PROMISED = {"id", "time", "reason", "session", "files_changed", "insertions", "deletions"}
WITH_AN_ID = ["show", "diff", "restore", "pin", "unpin", "rename", "delete"]


def taken(
    machine: Machine,
    project: Path,
    *,
    reason: str = "by hand",
    session: str | None = None,
    turn: str | None = None,
) -> str:
    """A checkpoint, taken in this process: most tests are about other commands."""
    create_home(machine.home)
    store = checkpoint_store(machine.home.resolve())
    taking = store.take(project, now=time.time(), reason=reason, session=session, turn=turn)
    assert taking.outcome is TakeOutcome.TAKEN
    return str(taking.id)


def run(machine: Machine, *args: str | bytes, cwd: Path | None = None) -> Result:
    return machine.run("checkpoints", *args, cwd=cwd)


def ok(machine: Machine, *args: str | bytes, cwd: Path | None = None) -> Result:
    result = run(machine, *args, cwd=cwd)
    assert result.code == 0, result
    return result


def listed(machine: Machine, project: Path) -> Sequence[Checkpoint]:
    """The checkpoints of a project, the newest first, read in this process."""
    return checkpoint_store(machine.home.resolve()).list(project)


def odd(project: Path) -> Path:
    return Path(os.fsdecode(os.fsencode(project) + b"/" + ODD))


def change(project: Path) -> None:
    """One file changes, one comes, one goes."""
    (project / "src" / "main.py").write_text("one\n2\nthree\n")
    (project / "new.txt").write_text("new\n")
    (project / "with space").unlink()


def contents(folder: Path) -> dict[str, bytes]:
    return {name: each.content for name, each in entries(folder).items()}

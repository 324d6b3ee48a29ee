"""Everything in a home is for its owner alone, whatever the umask, and made so where it was not."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.homes.checkpoints.open_store import checkpoint_store
from tests.cli.machine import Machine

UMASKS = [0o000, 0o022, 0o002]


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """The names that anybody but the owner could read, write or enter, once let in above."""
    found = [folder, *folder.rglob("*")]
    return [str(path) for path in found if not path.is_symlink() and path.stat().st_mode & 0o077]


def work(machine: Machine, project: Path) -> None:
    """A little of everything that leaves something in a home."""
    for number in range(6):
        (project / "src" / f"{number}").write_text(f"{number}\n" * 100)
        machine.ok("checkpoints", "take", str(project))
    first = machine.json("checkpoints", "list", str(project))["checkpoints"][-1]["id"]
    machine.ok("checkpoints", "restore", first, "--yes")
    lines = [
        {
            "id": f"2020010{day}_000000_00000{day}",
            "source": "cli",
            "started_at": 1_577_836_800,
            "ended_at": 1_577_836_900,
            "messages": [{"role": "user", "content": "x", "timestamp": 1_577_836_800}],
        }
        for day in range(1, 5)
    ]
    machine.run("sessions", "import", "-", stdin="".join(f"{json.dumps(x)}\n" for x in lines))
    machine.ok("sessions", "archive", str(lines[0]["id"]), "--yes")
    machine.ok("sessions", "delete", str(lines[1]["id"]), "--yes")
    machine.ok("sessions", "prune", "--yes")
    machine.ok("undo")
    machine.ok("checkpoints", "prune", "--keep-last", "2", "--yes")
    machine.ok("maintain", "--force")


@pytest.mark.parametrize("mask", UMASKS[:1])
def test_nothing_in_a_home_is_open_to_others(machine: Machine, project: Path, mask: int) -> None:
    with umask(mask):
        work(machine, project)
    assert open_to_others(machine.home) == []


@pytest.mark.parametrize("mask", UMASKS)
def test_the_checkpoint_store_is_private_whatever_the_umask(
    machine: Machine, project: Path, mask: int
) -> None:
    with umask(mask):
        store = checkpoint_store(machine.home)
        machine.home.mkdir(parents=True, mode=0o700)
        for number in range(3):
            (project / "new").write_text(f"{number}\n")
            store.take(project, reason="test", now=1_000.0 + number)
    assert open_to_others(machine.home) == []


def loosen(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(stat.S_IMODE(mode) | (0o055 if path.is_dir() else 0o044))


def test_a_store_that_is_open_to_others_is_closed_by_the_next_take(
    machine: Machine, project: Path
) -> None:
    machine.ok("checkpoints", "take", str(project))
    loosen(machine.home / "checkpoints" / "store")
    machine.ok("checkpoints", "take", str(project))
    assert open_to_others(machine.home / "checkpoints") == []


def test_doctor_sees_and_mends_a_store_that_is_open_to_others(
    machine: Machine, project: Path
) -> None:
    machine.ok("checkpoints", "take", str(project))
    loosen(machine.home / "checkpoints" / "store")
    assert "can be read by other users" in machine.run("doctor").words
    machine.ok("doctor", "--repair", "--yes")
    assert open_to_others(machine.home / "checkpoints") == []

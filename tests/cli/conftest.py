"""Every test of the command gets a machine of its own.

Homes that many tests begin with are made once a worker and copied.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.checkpoint_bench import taken
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.cli.session_bench import fill

# A run that was started in the background may ignore Ctrl-C, and so would every command under test.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _new(root: Path) -> Machine:
    machine = Machine(root=root)
    machine.user.mkdir(mode=0o700)
    return machine


def _fill(machine: Machine) -> Machine:
    for number in range(3):
        machine.transcript(days=100 + number, source="cron", kb=8)
    oldest = machine.transcript(days=200, source="telegram")
    machine.dump(oldest, days=200)
    machine.transcript(days=10, source="cron")
    machine.file(machine.sessions / "sessions.json", days=300)
    return machine


def _copy(template: Machine, root: Path) -> Machine:
    shutil.copytree(template.user, root / "user", symlinks=True)
    return Machine(root=root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A user without a home of any agent."""
    return _new(tmp_path)


@pytest.fixture
def used(machine: Machine) -> Machine:
    """A home with old files from two sources, a dump, one recent file and somebody's state."""
    return _fill(machine)


@pytest.fixture(scope="session")
def pruned_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = _fill(_new(tmp_path_factory.mktemp("pruned")))
    machine.ok("sessions", "prune", "--yes")
    return machine


@pytest.fixture
def pruned(tmp_path: Path, pruned_once: Machine) -> Machine:
    """The same home after `sessions prune`: five files in the trash, one operation."""
    return _copy(pruned_once, tmp_path)


@pytest.fixture(scope="session")
def half_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = _fill(_new(tmp_path_factory.mktemp("half")))
    machine.ok("sessions", "prune", "--source", "telegram", "--yes")
    return machine


@pytest.fixture
def half(tmp_path: Path, half_once: Machine) -> Machine:
    """The same home after two of the five were pruned: things to do, things in the trash."""
    return _copy(half_once, tmp_path)


@pytest.fixture(scope="session")
def damaged_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = _new(tmp_path_factory.mktemp("damaged"))
    for source in ("cron", "cli", "telegram"):
        machine.transcript(source=source)
        machine.ok("sessions", "prune", "--source", source, "--yes")
    journal = machine.home / "operations" / "2.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[1] = b'{"intent": [{"n": oh no\n'
    journal.write_bytes(b"".join(lines))
    return machine


@pytest.fixture
def damaged(tmp_path: Path, damaged_once: Machine) -> Machine:
    """Three operations of one file each; the second has a line that is no longer one."""
    return _copy(damaged_once, tmp_path)


@pytest.fixture
def project(machine: Machine) -> Path:
    made = machine.root / "project"
    (made / "src").mkdir(parents=True)
    (made / "src" / "main.py").write_text("one\ntwo\n")
    (made / "with space").write_text("x\n")
    return made


@pytest.fixture
def first(machine: Machine, project: Path) -> str:
    """A checkpoint of the project as it is at first."""
    return taken(machine, project)


@pytest.fixture(scope="session")
def stored_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """For tests that only read; a home of its own is `stored`."""
    machine = _new(tmp_path_factory.mktemp("stored"))
    fill(machine.home)
    return machine


@pytest.fixture
def stored(tmp_path: Path, stored_once: Machine) -> Machine:
    """Four sessions in a store, see session_bench.py."""
    return _copy(stored_once, tmp_path)


@pytest.fixture
def inside(machine: Machine) -> Inside:
    """Commands on `machine`, in this process."""
    return Inside(machine)

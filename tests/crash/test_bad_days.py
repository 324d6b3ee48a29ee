"""Every operation on a disk that is full, nearly full or read-only, in places that lost their
rights, and on days that are years away: it gets through or says why not, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import tally
from tests.cli.privileges import as_nobody_special, mounts_of_its_own
from tests.crash.bad_day_faults import FAULTS
from tests.crash.bad_day_operations import OPERATIONS

ROOT = Path(__file__).parents[2]
_MOUNT = 'mount -t tmpfs -o size=24m tmpfs "$0" && exec "$@"'
#: For every run of the tests; primes, so that each operation and each fault has its turn.
SOME = {"disk": "7", "rights": "29", "clock": "7"}


def meet(kind: str, disk: Path, every: str) -> dict[str, int]:
    disk.mkdir()
    run = [sys.executable, "-m", "tests.crash.bad_day_harness", kind, str(disk), every]
    done = subprocess.run(
        [*before(kind, disk), *run], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    tally.injected(counts["kills"])
    tally.verified(counts["states"])
    return counts


def before(kind: str, disk: Path) -> Sequence[str]:
    if kind == "disk":
        return [*mounts_of_its_own(), "sh", "-c", _MOUNT, str(disk)]
    return as_nobody_special() if kind == "rights" else ()


@pytest.mark.parametrize("kind", FAULTS)
def test_some_operations_on_some_bad_days(tmp_path: Path, kind: str) -> None:
    assert meet(kind, tmp_path / "disk", SOME[kind])["states"] > 4


@pytest.mark.deep
@pytest.mark.parametrize("kind", FAULTS)
def test_every_operation_on_every_bad_day(tmp_path: Path, kind: str) -> None:
    counts = meet(kind, tmp_path / "disk", "1")
    assert counts["states"] == len(FAULTS[kind]) * len(OPERATIONS)
    assert counts["refused"] > 0 or kind == "clock"

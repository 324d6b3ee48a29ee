"""A script that runs with a disk of its own, small enough to be filled, or taken away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import tally
from tests.cli.privileges import mounts_of_its_own

_ROOT = Path(__file__).parents[1]
_MEGABYTE = 1 << 20


def with_a_disk(place: Path, script: str, *arguments: str, megabytes: int, ballast: int = 0) -> str:
    """Run a Python script; what it printed. Its first argument is the disk, `place / "disk"`.

    `ballast` megabytes of it are taken by a file of that name. Skips where nothing can be mounted.
    """
    disk, file = place / "disk", place / "script.py"
    disk.mkdir()
    file.write_text(script)
    fill = f'head -c {ballast * _MEGABYTE} /dev/zero > "$0/ballast"'
    mount = f'mount -t tmpfs -o size={megabytes}m tmpfs "$0" && {fill if ballast else ":"}'
    done = subprocess.run(
        [
            *(*mounts_of_its_own(), "sh", "-c", f'{mount} && exec "$@"', str(disk)),
            *(sys.executable, str(file), str(disk), *arguments),
        ],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    tally.injected()
    tally.verified()
    return done.stdout

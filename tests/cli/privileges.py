"""Running the command where even root is refused: without the right to bypass permissions, or
inside a mount namespace with a small or read-only file system.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

_DROP = Path(__file__).with_name("drop_rights.py")


def as_nobody_special() -> Sequence[str]:
    """What to put before a command so that file permissions hold for it, for root as well."""
    before = _weakened()
    if before is None:
        pytest.skip("running as root, and the right to bypass permissions cannot be dropped here")
    return before


@functools.cache
def _weakened() -> Sequence[str] | None:
    if os.geteuid() != 0:
        return ()
    before = (sys.executable, str(_DROP))
    probe = subprocess.run([*before, "true"], check=False, capture_output=True)
    return before if probe.returncode == 0 else None


def mounts_of_its_own() -> Sequence[str]:
    """What to put before a command so that it may mount things that nobody else sees."""
    before = _unshare()
    if before is None:
        pytest.skip("neither root nor user namespaces can mount a file system here")
    return before


@functools.cache
def _unshare() -> tuple[str, ...] | None:
    for before in (("unshare", "-m"), ("unshare", "-r", "-m")):
        probe = [*before, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/tmp"]  # noqa: S108
        try:
            done = subprocess.run(probe, check=False, capture_output=True)
        except OSError:
            return None
        if done.returncode == 0:
            return before
    return None

"""Real agents in fixed releases, from npm, kept in a cache between runs.

The cache is the folder that HOLDFAST_AGENTS names, or one below the cache of the user.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path


class NotInstallableError(Exception):
    """This agent is not to be had here: there is no npm, no network or no such package."""


def program(package: str, version: str, name: str) -> Path:
    """The program of a release, installed on first use. Many may ask at once: one installs."""
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{package.rpartition('/')[2]}-{version}"
    found = folder / "node_modules" / ".bin" / name
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            _install(folder, f"{package}@{version}")
    if not found.exists():
        raise NotInstallableError(f"{package} {version} has no program {name}")
    return found


def _cache() -> Path:
    named = os.environ.get("HOLDFAST_AGENTS")
    if named:
        return Path(named)
    usual = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(usual) / "holdfast" / "agents"


def _install(folder: Path, wanted: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstallableError(f"{wanted} needs npm, which is not installed")
    sys.stderr.write(f"Installing {wanted} …\n")
    making = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    how = ("--loglevel=error", "--no-fund", "--no-audit", "--prefix", str(making))
    words = [npm, "install", *how, wanted]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(making, ignore_errors=True)
        said = (done.stderr or done.stdout).strip()[-300:]
        raise NotInstallableError(f"npm cannot install {wanted}: {said}")
    making.rename(folder)

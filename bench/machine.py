"""What figures were measured on, in words that tell machines apart and name none."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from baselines import HERMES


def facts() -> list[tuple[str, str]]:
    return [
        ("date", datetime.now(UTC).strftime("%Y-%m-%d")),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("memory", f"{_memory() / 1e9:.0f} GB"),
        ("file system", _file_system(Path(tempfile.gettempdir()))),
        ("system", f"{platform.system()} {platform.release().partition('-')[0]}"),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        ("SQLite", sqlite3.sqlite_version),
        ("git", _version("git", "--version")),
        ("restic", _version("restic", "version")),
        ("borg", _version("borg", "--version")),
        ("Hermes", HERMES),
        ("load before the run", f"{os.getloadavg()[0]:.1f}"),
    ]


def _processor() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _file_system(path: Path) -> str:
    """That of the mount which is nearest above the path."""
    found = {"/": "unknown"}
    for line in _lines(Path("/proc/mounts")):
        _, mount, kind, *_ = line.split()
        found[mount] = kind
    above = [str(each) for each in (path, *path.parents)]
    return next(found[mount] for mount in above if mount in found)


def _version(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return "missing"
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return next((word for word in said.split() if word[0].isdigit()), said.strip())


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []

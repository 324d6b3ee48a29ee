"""Typed settings, from config.toml and the environment, checked as a whole before anything runs.

`config.reader` loads them. This module only decides whether there is anything to load: most homes
are not configured, and a command that takes a checkpoint before every change of an agent should not
load every key to find that out.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Stamp = tuple[int, int, int]
VARIABLE_PREFIX = "HOLDFAST_"
#: The folder next to the configuration into which hooks of connected agents write.
NOTES = "loop"
#: Variables of ours that are not keys.
NO_KEYS = ("HOLDFAST_HOME", "HOLDFAST_DEBUG", "HOLDFAST_EVENT")


def variables(environ: Mapping[str, str]) -> list[str]:
    """The variables that set a key, or seem meant to. An empty variable counts as unset."""
    return sorted(
        name
        for name, text in environ.items()
        if text and name.startswith(VARIABLE_PREFIX) and name not in NO_KEYS
    )


def is_default(path: Path, environ: Mapping[str, str]) -> bool:
    """True if neither the file nor the environment sets anything. A file that cannot be inspected
    may set something: loading the settings reports what is wrong with it."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return not variables(environ)
    except (OSError, ValueError):
        return False
    return False


def stamp_of(path: Path) -> Stamp | None:
    """A value that changes whenever the file does; None if there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116 - called every two seconds
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size

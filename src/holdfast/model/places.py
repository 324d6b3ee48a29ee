"""Paths as people and programs write them, `~` included."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]


def without_tilde(path: StrPath) -> str:
    """The path with `~` and `~user` replaced, as a shell does it: a name that only begins so, and
    belongs to no user, stays as it is. A folder that is really called `~` is `./~`."""
    # Whoever passes such a path means the home directory of the process: nobody else can know it.
    return os.path.expanduser(os.fspath(path))  # noqa: PTH111, TID251


def expanded(path: StrPath) -> Path:
    return Path(without_tilde(path))


def real(path: StrPath) -> Path:
    """The same without symlinks, whether it exists or not."""
    return Path(os.path.realpath(expanded(path)))

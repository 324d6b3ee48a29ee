"""Paths as people and programs write them, `~` included."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from holdfast.errors import UsageError
from holdfast.model.arguments import shown

StrPath: TypeAlias = str | os.PathLike[str]


def without_tilde(path: StrPath) -> str:
    """The path with `~` and `~user` expanded, as a shell does it. A name that only starts with `~`
    and is not a user stays as it is. A folder that is really called `~` is `./~`."""
    # Whoever passes such a path means the home directory of the process: nobody else can know it.
    return os.path.expanduser(os.fspath(path))  # noqa: PTH111, TID251


def expanded(path: StrPath) -> Path:
    return Path(without_tilde(path))


def real(path: StrPath) -> Path:
    """The same path without symlinks, whether it exists or not."""
    return Path(os.path.realpath(expanded(path)))


def named_place(home: object) -> Path:
    """The folder that a host names as its home. Raises `UsageError` for what is not a path."""
    text = os.fspath(home) if isinstance(home, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError(f"A home is the path of a folder, not {shown(home)}.")
    # Not by way of `Path`, which takes "./~name" for "~name".
    place = without_tilde(text)
    if place.startswith("~"):
        raise UsageError(
            f"{text}: there is no such user, or its home directory is not known.",
            hint="Write the whole path, or ./~name for a folder of that name.",
        )
    return Path(place)

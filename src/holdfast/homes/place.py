"""The folder that a host names as its home."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

from holdfast.errors import UsageError
from holdfast.model.given import shown

HomePath: TypeAlias = str | os.PathLike[str]


def named_place(home: object) -> Path:
    """The path, with `~` for the user's home directory. Raises `UsageError` for what is none."""
    text = os.fspath(home) if isinstance(home, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError(f"A home is the path of a folder, not {shown(home)}.")
    # A host names its home as a person does. Not by `Path`, which takes "./~name" for "~name".
    expanded = os.path.expanduser(text)  # noqa: PTH111, TID251
    if expanded.startswith("~"):
        raise UsageError(
            f"{text}: there is no such user, or its home directory is not known.",
            hint="Write the whole path, or ./~name for a folder of that name.",
        )
    return Path(expanded)

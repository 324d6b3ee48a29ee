"""Paths as a person gives them, and as the store has them."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.errors import UsageError


def relative(workdir: Path, path: str) -> bytes:
    """A path of the project as the store has it; raises `UsageError` for one outside.

    Nothing is resolved: a link on the way is a part of the project, what it points at is not.
    """
    whole = os.path.normpath(Path(workdir, path))
    if whole == str(workdir):
        return b""
    try:
        inside = Path(whole).relative_to(workdir)
    except ValueError:
        raise UsageError(f"{path!r} is not in {workdir}.") from None
    return os.fsencode(str(inside))

"""Tells a database that is gone from one that never was. Without it nobody knows which sessions a
home has, so what may belong to one of them stays."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.stores.files import BESIDE_A_DATABASE

#: What our own store leaves there for ever: the files through which its writers take turns.
_BESIDE_OURS = ("-gate", "-queue")
#: The way out, as advice.
PUT_IT_BACK = (
    "Put it back, or mount its disk. Until then no session file is removed. If its sessions are "
    "gone for good, let the agent create a new one."
)


def why_lost(path: Path, *, ours: bool = False) -> str | None:
    """Why a database cannot be read although its agent has one: it is a link that leads nowhere, an
    empty file, or missing from next to files that only accompany it. None if it is there, or if
    there is no trace of one. The answer follows the name of the database in a sentence."""
    place = os.fspath(path)
    try:
        empty = os.stat(place).st_size == 0  # noqa: PTH116 - plain strings
    except OSError:
        if os.path.islink(place):  # noqa: PTH114 - plain strings
            return f"is a link to {os.readlink(place)}, which is not there"  # noqa: PTH115
        beside = (*BESIDE_A_DATABASE, *(_BESIDE_OURS if ours else ()))
        trace = next((end for end in beside if os.path.lexists(f"{place}{end}")), None)
        return None if trace is None else f"is missing, but {path.name}{trace} is still there"
    return "is empty (0 bytes)" if empty else None

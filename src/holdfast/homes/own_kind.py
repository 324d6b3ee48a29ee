"""Which folders are Holdfast's own homes, told from what lies in them.

Recognising a home must be cheap: a command that takes a checkpoint does no more. So the class of
the home, and SQLite with it, is loaded when a home is opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.homes.kind import Kind
from holdfast.homes.options import USUAL, HomeOptions

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.homes.holdfast import HoldfastHome
    from holdfast.ports import Clock

KIND = "holdfast"
DATABASE = "sessions.db"
SESSION_FILES = "sessions"
CHECKPOINTS = "checkpoints"
SIGNS = (DATABASE, "operations", "config.toml", SESSION_FILES, CHECKPOINTS)
#: What no other agent is known to leave in its home. The last one is in the checkpoint store.
_SURE_SIGNS = (DATABASE, "operations", f"{CHECKPOINTS}/store/format")


def is_surely_ours(root: Path) -> bool:
    return any((root / sign).exists() for sign in _SURE_SIGNS)


def recognise(root: Path) -> bool:
    return any((root / sign).exists() for sign in SIGNS)


def open_own(root: Path, clock: Clock, options: HomeOptions = USUAL) -> HoldfastHome:
    """Open a folder as one of Holdfast's own homes, whatever lies in it."""
    from holdfast.homes.holdfast import HoldfastHome  # noqa: PLC0415 - loaded to open a home

    return HoldfastHome(root, clock=clock, options=options)


OWN = Kind(
    name=KIND,
    agent="Holdfast",
    default_folder=".holdfast",
    recognise=recognise,
    open=open_own,
    state=lambda root: root,
    environment="HOLDFAST_HOME",
)

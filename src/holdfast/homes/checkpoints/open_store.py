"""The checkpoint store of a home: the one place that puts it together.

A command that takes a checkpoint wants to be fast, so each function here imports what it makes.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.model.checkpoint import Capturing
from holdfast.stores import lock
from holdfast.stores.checkpoints.repository import is_older_name
from holdfast.value import dataclass

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from holdfast.ports.checkpoints import Bounding
    from holdfast.stores.checkpoints.store import ShadowGitStore
    from holdfast.stores.checkpoints.writer import CheckpointWriter

FOLDER = "checkpoints"
#: Held by the one worker that brings the store back within its bounds.
BOUNDING_LOCK = "bounding.lock"
_USUAL = Capturing()


def checkpoint_writer(
    root: Path,
    how: Capturing = _USUAL,
    *,
    home: Path | None = None,
    looking_at: Path | None = None,
) -> CheckpointWriter:
    """What takes checkpoints in a home. The first checkpoint makes the store.

    `root` is the folder of a home that is ours; `home` is the home itself where that is another
    agent's. With a bound, whatever a take leaves above it goes soon after. `looking_at` is the
    directory of which the whole is captured next.
    """
    if _has_older_layout(root / FOLDER):
        return checkpoint_store(root, how, home=home)
    early = None
    if looking_at is not None:
        from holdfast.stores.checkpoints.early_look import begin_look

        early = begin_look(root / FOLDER, looking_at)
    # git is at work while this loads.
    from holdfast.stores.checkpoints.writer import CheckpointWriter

    return CheckpointWriter(root / FOLDER, how, bounding=_bounding(root, how, home), early=early)


def checkpoint_store(
    root: Path, how: Capturing = _USUAL, *, home: Path | None = None
) -> ShadowGitStore:
    """The whole store, with everything that lists, compares and restores."""
    from holdfast.stores.checkpoints.older_layout import StoreWithOlderLayout
    from holdfast.stores.checkpoints.store import ShadowGitStore

    kind = StoreWithOlderLayout if _has_older_layout(root / FOLDER) else ShadowGitStore
    return kind(root / FOLDER, how, bounding=_bounding(root, how, home))


def _has_older_layout(folder: Path) -> bool:
    """Whether a name in the folder is one that the older layout uses. One look, when the store is
    opened."""
    try:
        return any(map(is_older_name, os.listdir(folder)))  # noqa: PTH208 - names are wanted
    except OSError:
        return False


def _bounding(root: Path, how: Capturing, home: Path | None) -> Bounding | None:
    if not how.max_snapshots and how.max_bytes is None:
        return None
    return Bounds(home or root, root / FOLDER, how.max_snapshots, how.max_bytes)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one store. `home` has the log, `folder` is the store.

    Only a take that went above a bound loads what brings the store back within it.
    """

    home: Path
    folder: Path
    max_snapshots: int
    max_bytes: int | None

    def later(self) -> None:
        """Start the worker, unless one runs already: it looks again before it ends."""
        if lock.is_held(self.folder / BOUNDING_LOCK):
            return
        from holdfast.homes.checkpoints.bounds_worker import start

        start(self)

    def room_made(self) -> AbstractContextManager[None]:
        """Bring the store back within its bounds now, and keep workers away until the end."""
        from holdfast.homes.checkpoints.keep_within_bounds import bounder_of

        return bounder_of(self).room_made()

"""The checkpoint store of a home: the one place that assembles it.

Taking a checkpoint has to be fast, so each function imports only what it needs.
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
    """Return the writer that takes checkpoints in a home. The first checkpoint creates the store.

    `root` is our state folder; `home` is the home itself, if it is another agent's. With a bound,
    what a take leaves above it is removed soon after. `looking_at` is the directory that will be
    captured next as a whole.
    """
    if _has_older_layout(root / FOLDER):
        return checkpoint_store(root, how, home=home)
    early = None
    if looking_at is not None:
        from holdfast.stores.checkpoints.early_look import begin_look

        early = begin_look(root / FOLDER, looking_at)
    # git is already working while this loads.
    from holdfast.stores.checkpoints.writer import CheckpointWriter

    return CheckpointWriter(root / FOLDER, how, bounding=_bounding(root, how, home), early=early)


def checkpoint_store(
    root: Path, how: Capturing = _USUAL, *, home: Path | None = None
) -> ShadowGitStore:
    """Return the full store, which can also list, compare and restore."""
    from holdfast.stores.checkpoints.older_layout import StoreWithOlderLayout
    from holdfast.stores.checkpoints.store import ShadowGitStore

    kind = StoreWithOlderLayout if _has_older_layout(root / FOLDER) else ShadowGitStore
    return kind(root / FOLDER, how, bounding=_bounding(root, how, home))


def _has_older_layout(folder: Path) -> bool:
    """True if the folder contains a name of the older layout. Checked once, on opening."""
    try:
        return any(map(is_older_name, os.listdir(folder)))  # noqa: PTH208 - only names needed
    except OSError:
        return False


def _bounding(root: Path, how: Capturing, home: Path | None) -> Bounding | None:
    if not how.max_snapshots and how.max_bytes is None:
        return None
    return Bounds(home or root, root / FOLDER, how.max_snapshots, how.max_bytes)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one store. `home` has the log, `folder` is the store.

    The code that brings the store back within its bounds is loaded only by a take that exceeded
    one.
    """

    home: Path
    folder: Path
    max_snapshots: int
    max_bytes: int | None

    def later(self) -> None:
        """Start the worker, unless one is running: it looks again before it ends."""
        if lock.is_held(self.folder / BOUNDING_LOCK):
            return
        from holdfast.homes.checkpoints.bounds_worker import start

        start(self)

    def room_made(self) -> AbstractContextManager[None]:
        """Bring the store back within its bounds now, and block workers until the end."""
        from holdfast.homes.checkpoints.keep_within_bounds import bounder_of

        return bounder_of(self).room_made()

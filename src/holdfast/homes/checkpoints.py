"""The checkpoint store of a home."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.ports import Bounding
    from holdfast.stores.checkpoints.store import ShadowGitStore

FOLDER = "checkpoints"
USUAL_FILE_SIZE = 10_000_000


def checkpoint_store(
    root: Path,
    *,
    user_home: Path | None = None,
    max_file_size: int | None = USUAL_FILE_SIZE,
    excludes: Sequence[str] = (),
    max_snapshots: int = 0,
    max_bytes: int | None = None,
    home: Path | None = None,
    hash_all: bool = False,
) -> ShadowGitStore:
    """The store in a home; one that does not exist is made by the first checkpoint.

    `root` is the folder of a home that is ours; `home` is the home itself where that is another
    agent's. With a bound, whatever a take leaves above it goes soon after.
    """
    bounding: Bounding | None = None
    if max_snapshots or max_bytes is not None:
        make = import_module("holdfast.homes.bounding").Bounder
        bounding = make(home or root, root / FOLDER, max_snapshots, max_bytes)
    # Loaded on first use: most runs do without it.
    opened: type[ShadowGitStore] = import_module("holdfast.stores.checkpoints.store").ShadowGitStore
    return opened(
        root / FOLDER,
        user_home=user_home,
        max_file_size=max_file_size,
        excludes=excludes,
        max_snapshots=max_snapshots,
        max_bytes=max_bytes,
        bounding=bounding,
        hash_all=hash_all,
    )


def existing_store(root: Path) -> ShadowGitStore | None:
    """The store in a home, to restore from; None when there is none. Creates nothing."""
    return checkpoint_store(root) if (root / FOLDER).is_dir() else None

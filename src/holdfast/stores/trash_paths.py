"""Paths of undo copies, `trash/<operation>/<number>-<name>`, known before anything moves.

The path follows from the intent alone, so after a kill the disk itself shows how far a removal got.
The name is for users, who can find a file without Holdfast.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from holdfast.model.operation import Removal
from holdfast.stores.files import make_private_dir, open_dir


class TrashFolder:
    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, operation: str) -> Path:
        return self.root / operation

    def path(self, removal: Removal) -> Path:
        return self.folder(removal.operation) / removal.copy_name

    @contextlib.contextmanager
    def opened(self, operation: str, *, create: bool) -> Iterator[int | None]:
        """A descriptor of an operation's folder; None if it does not exist."""
        folder = self.folder(operation)
        if create:
            make_private_dir(folder)
        elif not folder.is_dir():
            yield None
            return
        with open_dir(folder) as fd:
            yield fd

    def drop_if_empty(self, operation: str) -> None:
        # It may hold other copies, or be gone already: both are fine.
        with contextlib.suppress(OSError):
            self.folder(operation).rmdir()

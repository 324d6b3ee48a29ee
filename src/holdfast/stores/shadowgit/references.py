"""Make the reference that makes a checkpoint.

git names one before its bytes are on the disk, unless it is told otherwise: a power cut leaves an
empty one, and git would have to be started.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.stores.files import PRIVATE_FILE, make_private_dir, storage_errors, write_all
from holdfast.stores.shadowgit.flushing import flush_folders

#: Git may remove it again each time, though hardly ever twice.
_TRIES = 50


class NewReference:
    """Written under the name that git gives to its lock, and flushed by whoever has `fd`; then
    `publish` names it. Whoever leaves without that leaves nothing."""

    def __init__(self, store: Path, ref: str, commit: str) -> None:
        self._path = store / ref
        self._lock = store / f"{ref}.lock"
        self._commit = commit
        self._new_folder = False
        self.fd = -1

    def __enter__(self) -> Self:
        with storage_errors(f"write {self._path}"):
            self.fd = self._opened()
            try:
                write_all(self.fd, f"{self._commit}\n".encode("ascii"))
            except BaseException:
                self._close()
                raise
        return self

    def _opened(self) -> int:
        # We hold the project's lock, so one that is there was left by a killed process.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        for _ in range(_TRIES):
            if not self._path.parent.is_dir():
                make_private_dir(self._path.parent)
                self._new_folder = True
            try:
                return os.open(self._lock, flags, PRIVATE_FILE)
            except FileNotFoundError:  # git removes a folder that it finds empty
                continue
        return os.open(self._lock, flags, PRIVATE_FILE)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        os.close(self.fd)
        self._lock.unlink(missing_ok=True)

    def publish(self) -> None:
        """Name it, durably."""
        with storage_errors(f"write {self._path}"):
            self._lock.replace(self._path)
            folders = [self._path.parent]
            if self._new_folder:
                folders += [folders[0].parent, folders[0].parent.parent]
            flush_folders(folders)

"""Blobs as the files of a local folder.

A file gets its name once it is complete and durable, by a hard link, which never replaces another
file. Names that start with a dot are not listed, unless the caller asks for such a folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO

from holdfast.errors import DamageError, StorageError
from holdfast.model.archive import Blob
from holdfast.stores.blobs.durable_batch import DurableBatch
from holdfast.stores.blobs.ownership import Ownership
from holdfast.stores.files import (
    allocated_bytes,
    link_new,
    make_private_dir,
    open_regular,
    storage_errors,
    sync_dir,
)

#: Our files that have no name yet; the second form is from earlier versions.
_UNFINISHED = re.compile(r"\.(put-[0-9a-f]{16}|(\d+|adopted-[0-9a-f]+)-\d+)\.tmp", re.ASCII)
#: A smaller temporary file stays in memory.
_IN_MEMORY = 4 * 1024 * 1024


class FolderBlobs:
    """The files of one folder, which is created when it is needed. A folder that the configuration
    names has an `owner`: it belongs to the first home that used it."""

    def __init__(self, path: Path, owner: Ownership | None = None) -> None:
        self.path = path
        self._owner = owner

    @property
    def place(self) -> str:
        return str(self.path)

    def check(self) -> bool:
        if self._owner is None and self.path.is_symlink():
            raise StorageError(
                f"{self.path} is a link; Holdfast does not follow it out of the home.",
                hint="Set `folder` of [archive] in config.toml to where the archive should be.",
            )
        if self.path.exists() and not self.path.is_dir():
            raise StorageError(f"{self.path} is not a folder; sessions cannot be archived there.")
        return self.path.is_dir() if self._owner is None else self._owner.check()

    def check_usable(self) -> bool:
        exists = self.check()
        return exists if self._owner is None else self._owner.check_usable()

    def make(self) -> None:
        exists = self.check()
        if self._owner is not None:
            self._owner.make()
        elif not exists:
            with storage_errors(f"create the archive folder {self.path}"):
                make_private_dir(self.path)

    def put_new(
        self,
        name: str,
        write: Callable[[IO[bytes]], object],
        checks: Sequence[Callable[[IO[bytes]], object]] = (),
    ) -> None:
        with self.together() as puts:
            puts.put_new(name, write, checks)
            for error in puts.finish().values():
                raise error

    def together(self, number: int = 1) -> DurableBatch:
        return DurableBatch(self.path, self._path, number)

    def copy(self, name: str, new_name: str) -> None:
        source, target = self._path(name), self._path(new_name)
        make_private_dir(target.parent)
        if link_new(source, target):  # blobs never change, so a second name is a copy
            sync_dir(target.parent)
            return
        with self.get(name) as content:
            self.put_new(new_name, lambda file: shutil.copyfileobj(content, file))

    @contextlib.contextmanager
    def get(self, name: str) -> Iterator[IO[bytes]]:
        fd = open_regular(self._path(name), os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(fd, "rb") as file:
            yield file

    def find(self, name: str) -> Blob | None:
        try:
            return _blob(name, self._path(name).lstat())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, folder: str = "") -> Iterator[Blob]:
        start = f"{folder}/" if folder else ""
        try:
            with os.scandir(self._path(folder) if folder else self.path) as entries:
                for entry in entries:
                    if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
                        with contextlib.suppress(FileNotFoundError):
                            yield _blob(start + entry.name, entry.stat(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return

    def delete(self, names: Iterable[str]) -> None:
        parents = set()
        for name in names:
            path = self._path(name)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                parents.add(path.parent)
        for parent in parents:
            sync_dir(parent)
            if parent != self.path:
                with contextlib.suppress(OSError):  # it still has other files
                    parent.rmdir()

    def clear_unfinished(self) -> None:
        try:
            with os.scandir(self.path) as entries:
                left = [each.name for each in entries if _UNFINISHED.fullmatch(each.name)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in left:
            (self.path / name).unlink(missing_ok=True)

    def spool(self) -> IO[bytes]:
        """A temporary file in the folder, which needs the room for the result anyway."""
        return SpooledTemporaryFile(max_size=_IN_MEMORY, dir=str(self.path))

    def _path(self, name: str) -> Path:
        """The path of a blob. A name from a damaged catalogue must not lead out of the folder."""
        if "\0" in name or not all(part not in ("", ".", "..") for part in name.split("/")):
            raise DamageError(f"{name!r} is not the name of a blob")
        return self.path / name


def _blob(name: str, status: os.stat_result) -> Blob:
    return Blob(name=name, size=status.st_size, allocated=allocated_bytes(status))

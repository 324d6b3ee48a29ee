"""Several blobs that are written to a store and become durable together."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from holdfast.stores import flush_disk
from holdfast.stores.files import PRIVATE_FILE, link_new, make_private_dir, sync_dir

_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DIGITS = 16
#: Up to this many files are flushed one by one; for more, the disk is flushed once.
MANY = 64

Write = Callable[[IO[bytes]], object]


def _flush_disk() -> Callable[[int], None] | None:
    """The function that flushes a whole disk; None if that is impossible."""
    return flush_disk.flush_disk if flush_disk.can_flush_disk() else None


def flush_of_many(number: int) -> Callable[[int], None] | None:
    """The function that flushes this many files at once, given a descriptor opened before the first
    of them was written; None if each is flushed on its own."""
    return _flush_disk() if number > MANY else None


class DurableBatch:
    """Complete files in one folder, without their names until `finish`.

    Write-order rule: the content of every file is on the disk before the first one gets its name.
    """

    def __init__(self, folder: Path, place: Callable[[str], Path], number: int) -> None:
        """`place` maps a blob's name to its path. `number` is roughly how many blobs are
        expected."""
        self._folder = folder
        self._place = place
        self._flush = flush_of_many(number)
        # Opened before the first file is written: a flush reports failed writes since then.
        self._disk = None if self._flush is None else os.open(folder, _FOLDER)
        self._unnamed: dict[str, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for temporary in self._unnamed.values():
            temporary.unlink(missing_ok=True)
        if self._disk is not None:
            os.close(self._disk)

    def put_new(self, name: str, write: Write, checks: Sequence[Write] = ()) -> None:
        self._place(name)
        if name in self._unnamed:
            raise _exists(name)
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
        temporary = self._folder / f".put-{digest}.tmp"
        try:
            with os.fdopen(os.open(temporary, _NEW, PRIVATE_FILE), "w+b") as file:
                write(file)
                file.flush()
                if self._disk is None:
                    os.fsync(file.fileno())
                for check in checks:
                    file.seek(0)
                    check(file)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._unnamed[name] = temporary

    def finish(self) -> Mapping[str, OSError]:
        if self._flush is not None and self._disk is not None and self._unnamed:
            self._flush(self._disk)
        failed: dict[str, OSError] = {}
        parents = set()
        while self._unnamed:
            name, temporary = self._unnamed.popitem()
            target = self._place(name)
            try:
                make_private_dir(target.parent)
                _give_name(temporary, target)
                parents.add(target.parent)
            except OSError as error:
                failed[name] = error
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
        for parent in parents:
            sync_dir(parent)
        return failed


def _give_name(temporary: Path, target: Path) -> None:
    """Name a file by a hard link, which never replaces another file."""
    if link_new(temporary, target):
        return
    if os.path.lexists(target):
        raise _exists(str(target))
    temporary.rename(target)


def _exists(name: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)

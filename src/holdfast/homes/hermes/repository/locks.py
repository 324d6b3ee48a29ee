"""Locks on Hermes's checkpoint store: who may change it, and when.

`GitLock` is git's own lock on a file: a second file that ends with `.lock` and then replaces the
first. It is created with its whole content and under a second name, so that a lock left by a killed
run of Holdfast can be told from git's own, and the next run removes it.

`gc_lock` is `gc.pid`, with which `git gc` excludes a second `git gc`. It is the only lock that a
running Hermes respects: Hermes starts `git gc` now and then, which exits at once while the lock is
held. The lock of a dead process does not count; git checks that as well.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import BusyError, StorageError
from holdfast.homes.hermes.repository.layout import HermesLayout
from holdfast.homes.hermes.repository.quarantine import Quarantine
from holdfast.homes.hermes.repository.why_read_only import check_known
from holdfast.stores import lock, processes
from holdfast.stores.files import (
    PRIVATE_FILE,
    make_private_dir,
    read_file,
    storage_errors,
    sync_dir,
    write_all,
)

_OURS = "holdfast-"
#: git holds such a lock only briefly; an older one was left by a killed process.
_STALE = 60.0

_GC_LOCK = "gc.pid"
_PAUSE = 0.05
#: git itself ignores an older lock.
_FORGOTTEN = 12 * 3_600.0
#: The most digits of a process id.
_LONGEST = 9

_WAIT = 30.0


class GitLock:
    """The lock on `path`. Only one process of Holdfast at a time may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = path.with_name(f"{path.name}.lock")
        self._mine = path.with_name(f"{_OURS}{path.name}")

    @contextlib.contextmanager
    def holding(self, data: bytes, mode: int) -> Iterator[bool]:
        """Take the lock, with the new content of the file. Yields False if another process has
        it."""
        self._clear()
        self._write(data, mode)
        try:
            os.link(self._mine, self._guard)
        except FileExistsError:
            self._remove_stale()
            self._mine.unlink()
            yield False
            return
        try:
            yield True
        finally:
            self._clear()

    def _write(self, data: bytes, mode: int) -> None:
        fd = os.open(self._mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            write_all(fd, data)
            os.fsync(fd)
        except BaseException:
            self._mine.unlink()
            raise
        finally:
            os.close(fd)

    def commit(self) -> None:
        """Turn the lock into the file."""
        self._guard.replace(self._path)
        sync_dir(self._path.parent)

    def _clear(self) -> None:
        """Remove the files of this run, or of a killed one. The lock goes first: its second name
        proves that it is ours."""
        with contextlib.suppress(FileNotFoundError):
            if self._mine.samefile(self._guard):
                self._guard.unlink()
        self._mine.unlink(missing_ok=True)

    def _remove_stale(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            age = time.time() - self._guard.stat().st_mtime  # noqa: TID251 - the age of a lock
            if age > _STALE:
                self._guard.unlink()


@contextlib.contextmanager
def gc_lock(store: Path, *, wait: float) -> Iterator[None]:
    """Keep every `git gc` out of a store, or raise `BusyError` after `wait` seconds."""
    path = store / _GC_LOCK
    deadline = time.monotonic() + wait
    with storage_errors(f"lock {store}"):
        while (busy := _try(path)) is not None:
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"`git gc` is running on {store}: {busy}.",
                    hint="Wait until it has finished, then try again.",
                )
            time.sleep(_PAUSE)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _try(path: Path) -> str | None:
    """Take the lock, or return who has it."""
    lock = GitLock(path)
    with lock.holding(f"{os.getpid()} {socket.gethostname()}".encode(), PRIVATE_FILE) as held:
        if not held:
            return "it is about to begin"
        holder = _holder(path)
        if holder is None:
            lock.commit()
        return holder


def _holder(path: Path) -> str | None:
    """The holder of the lock; None if no living process has it."""
    try:
        words = read_file(path).decode("utf-8", "replace").split()
        age = time.time() - path.stat().st_mtime  # noqa: TID251 - the age of git's lock
    except FileNotFoundError:
        return None
    if len(words) != len(("process", "host")) or not words[0].isdecimal() or age > _FORGOTTEN:
        return None
    if len(words[0]) > _LONGEST:
        return None
    process, host = int(words[0]), words[1]
    if host == socket.gethostname() and not processes.exists(process):
        return None
    return f"process {process} on {host}"


@contextlib.contextmanager
def changing(layout: HermesLayout, *, holder: str) -> Iterator[None]:
    """Let only one process of Holdfast change the store at a time, and exclude `git gc`.

    Hermes takes no lock, so everything done under this lock must be safe while Hermes takes a
    checkpoint.
    """
    _check_owner(layout)
    check_known(layout)
    with storage_errors(f"make {layout.notes}"):
        make_private_dir(layout.notes)
    with (
        lock.exclusive(
            layout.notes / "lock",
            holder=holder,
            wait=_WAIT,
            doing="changing the checkpoints in",
            place=layout.folder,
        ),
        gc_lock(layout.store, wait=_WAIT),
    ):
        Quarantine(layout.store).bring_back_all()  # a killed run did not recheck these files
        yield


def _check_owner(layout: HermesLayout) -> None:
    with storage_errors(f"open the checkpoint store {layout.store}"):
        owner = layout.store.stat().st_uid
    if owner != os.geteuid():
        raise StorageError(
            f"The checkpoint store {layout.store} belongs to user {owner}, not to you.",
            hint="Run this as its owner: files of two owners would lock Hermes out.",
        )

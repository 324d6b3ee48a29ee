"""The lock by which `git gc` keeps a second one out: the file `gc.pid`.

It is the one lock that a running Hermes respects: it starts `git gc` now and then, and that ends at
once while we hold it. A process that died holds it no longer: git and we look whether it lives.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import BusyError
from holdfast.homes.hermes.repository.git_lock import GitLock
from holdfast.stores import processes
from holdfast.stores.files import PRIVATE_FILE, read_file, storage_errors

_NAME = "gc.pid"
_PAUSE = 0.05
#: git itself takes no notice of one that is older.
_FORGOTTEN = 12 * 3_600.0
#: The digits of a process's number; a longer one is no number of a process.
_LONGEST = 9


@contextlib.contextmanager
def gc_lock(store: Path, *, wait: float) -> Iterator[None]:
    """Keep every `git gc` out of a store, or raise `BusyError` after `wait` seconds."""
    path = store / _NAME
    deadline = time.monotonic() + wait
    with storage_errors(f"lock {store}"):
        while (busy := _try(path)) is not None:
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"`git gc` is running on {store}: {busy}.",
                    hint="Wait until it is done, then try again.",
                )
            time.sleep(_PAUSE)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _try(path: Path) -> str | None:
    """Take the lock, or say who has it."""
    lock = GitLock(path)
    with lock.holding(f"{os.getpid()} {socket.gethostname()}".encode(), PRIVATE_FILE) as held:
        if not held:
            return "it is about to begin"
        holder = _holder(path)
        if holder is None:
            lock.commit()
        return holder


def _holder(path: Path) -> str | None:
    """Who has the lock; None when that is nobody who lives."""
    try:
        words = read_file(path).decode("utf-8", "replace").split()
        age = time.time() - path.stat().st_mtime  # noqa: TID251 - the age of a lock of git's
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

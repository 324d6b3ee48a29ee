"""Git's list of references that have no file of their own, `packed-refs`.

Maintenance puts references there, because a file for each takes a block. To take one out, the whole
list is written anew, which every checkpoint of a project would have to do that makes its oldest one
go. So the first that has to takes out all of its project.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.stores.files import PRIVATE_DIR, PRIVATE_FILE, read_file, write_all
from holdfast.stores.shadowgit.flushing import flush, flush_folders

_LIST = "packed-refs"
_ID = 40


def listed(store: Path, prefix: str) -> Mapping[str, str]:
    """The references of one folder in the list: their ids by their names in it."""
    data = _read(store)
    start, end = _part(data, prefix)
    lines = data[start:end].decode("utf-8", "surrogateescape").splitlines()
    return {line[_ID + 1 + len(prefix) :]: line[:_ID] for line in lines}


@contextlib.contextmanager
def locked(path: Path) -> Iterator[tuple[Path, int]]:
    """Git's lock of a file, to write what takes its place into. Raises `FileExistsError` when
    another process has it; what a killed one left, maintenance removes."""
    lock = path.with_name(f"{path.name}.lock")
    fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        yield lock, fd
    finally:
        os.close(fd)
        lock.unlink(missing_ok=True)


def unlist(store: Path, prefix: str) -> None:
    """Give every reference of one folder a file. Raises `FileExistsError` when another process has
    the list, or one of them.

    Write-order rule: the files are durable before the list is written without them. Killed in
    between, a reference stands in both, with the same id.
    """
    with locked(store / _LIST) as (lock, fd):
        data = _read(store)
        start, end = _part(data, prefix)
        _write_files(store / prefix, listed(store, prefix))
        write_all(fd, data[:start] + data[end:])
        os.fsync(fd)
        lock.replace(store / _LIST)
        flush_folders([store])


def _write_files(folder: Path, ids: Mapping[str, str]) -> None:
    folder.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        locks = {name: held.enter_context(locked(folder / name)) for name in ids}
        for name, (_, fd) in locks.items():
            write_all(fd, f"{ids[name]}\n".encode("ascii"))
        flush([fd for _, fd in locks.values()])
        for name, (lock, _) in locks.items():
            lock.replace(folder / name)
    flush_folders([folder])


def _read(store: Path) -> bytes:
    try:
        return read_file(store / _LIST)
    except FileNotFoundError:
        return b""


def _part(data: bytes, prefix: str) -> tuple[int, int]:
    """Where the lines of one folder begin and end: they are sorted by name.

    A line is an id, a space and a name.
    """
    wanted = b" " + prefix.encode("utf-8", "surrogateescape")
    found = data.find(wanted)
    if found < 0:
        return 0, 0
    start = end = found - _ID
    for line in _lines(data, start):
        if line[_ID : _ID + len(wanted)] != wanted:
            break
        end += len(line)
    return start, end


def _lines(data: bytes, place: int) -> Iterator[bytes]:
    while place < len(data):
        end = data.find(b"\n", place) + 1 or len(data)
        yield data[place:end]
        place = end

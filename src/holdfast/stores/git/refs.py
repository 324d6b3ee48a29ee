"""References: loose files, packed-refs, and transactions.

`NewReference` writes a loose reference in process: git would have to be started, and by default it
renames a reference before its bytes are on disk, so that a power cut leaves an empty one.

packed-refs holds references without a file of their own. Removing one means rewriting the whole
file, so `unlist` removes all references of a folder at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.stores.files import (
    PRIVATE_DIR,
    PRIVATE_FILE,
    make_private_dir,
    read_file,
    storage_errors,
    sync_dir,
    write_all,
)
from holdfast.stores.git.pack_writer import flush
from holdfast.stores.git.program import Git
from holdfast.stores.git.trees import is_id
from holdfast.value import dataclass

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Self

#: git may remove the empty folder each time, though hardly ever twice.
_TRIES = 50

_LIST = "packed-refs"
_ID = 40
#: Longer than any reference.
_ENOUGH = 200


class NewReference:
    """A new reference under the name of git's lock file. The caller fsyncs `fd`, then `publish`
    renames it. Leaving the context without `publish` removes it."""

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
        # The caller holds the project's lock, so an existing file was left by a killed process.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        for _ in range(_TRIES):
            if not self._path.parent.is_dir():
                make_private_dir(self._path.parent)
                self._new_folder = True
            try:
                return os.open(self._lock, flags, PRIVATE_FILE)
            except FileNotFoundError:  # git removes folders that it finds empty
                continue
        return os.open(self._lock, flags, PRIVATE_FILE)

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        os.close(self.fd)
        self._lock.unlink(missing_ok=True)

    def publish(self) -> None:
        """Rename the reference to its final name, durably."""
        with storage_errors(f"write {self._path}"):
            self._lock.replace(self._path)
            for folder in self._path.parents[: 3 if self._new_folder else 1]:
                sync_dir(folder)


def listed(store: Path, prefix: str) -> Mapping[str, str]:
    """Return the ids of the packed references in one folder, by name."""
    data = _read(store)
    start, end = _part(data, prefix)
    lines = data[start:end].decode("utf-8", "surrogateescape").splitlines()
    return {line[_ID + 1 + len(prefix) :]: line[:_ID] for line in lines}


def read_refs(store: Path, prefix: str) -> Sequence[tuple[str, str]]:
    """Return name and content of every reference two levels below a folder, sorted by name, without
    starting a process. Do not call it while references are being packed."""
    rows = (line.decode("utf-8", "surrogateescape").rstrip() for line in _lines(_read(store), 0))
    # packed-refs first: a process that unpacks references writes their files before it removes them
    # from packed-refs.
    found = {row[_ID + 1 :]: row[:_ID] for row in rows if row.startswith(prefix, _ID + 1)}
    for inner in loose_names(store / prefix):
        for name in loose_names(f"{store}/{prefix}{inner}"):
            with contextlib.suppress(OSError):
                found[f"{prefix}{inner}/{name}"] = small_text(f"{store}/{prefix}{inner}/{name}")
    return sorted(found.items())


def is_listed(store: Path, prefix: str) -> bool:
    """True if there is a packed reference in this folder or below it."""
    return b" " + prefix.encode("utf-8", "surrogateescape") in _read(store)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[tuple[Path, int]]:
    """Take git's lock on a file, and write the new content into it. Raises `FileExistsError` if
    another process holds it. Maintenance removes the lock of a killed process."""
    lock = path.with_name(f"{path.name}.lock")
    fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        yield lock, fd
    finally:
        os.close(fd)
        lock.unlink(missing_ok=True)


def unlist(store: Path, prefix: str) -> None:
    """Turn every packed reference of one folder into a file. Raises `FileExistsError` if another
    process has locked packed-refs or one of the references.

    Write-order rule: the files are durable before the references leave packed-refs. After a kill in
    between, a reference is in both, with the same id.
    """
    with locked(store / _LIST) as (lock, fd):
        data = _read(store)
        start, end = _part(data, prefix)
        _write_files(store / prefix, listed(store, prefix))
        write_all(fd, data[:start] + data[end:])
        os.fsync(fd)
        lock.replace(store / _LIST)
        sync_dir(store)


def _write_files(folder: Path, ids: Mapping[str, str]) -> None:
    folder.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        locks = {name: held.enter_context(locked(folder / name)) for name in ids}
        for name, (_, fd) in locks.items():
            write_all(fd, f"{ids[name]}\n".encode("ascii"))
        flush([fd for _, fd in locks.values()])
        for name, (lock, _) in locks.items():
            lock.replace(folder / name)
    sync_dir(folder)


def _read(store: Path) -> bytes:
    try:
        return read_file(store / _LIST)
    except FileNotFoundError:
        return b""


def _part(data: bytes, prefix: str) -> tuple[int, int]:
    """Return where the lines of one folder begin and end. They are sorted by name. A line is an id,
    a space and a name."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RefUpdate:
    """A reference that changes from the id `old` to `new`. "" means no reference."""

    name: str
    old: str = ""
    new: str = ""


def each_ref(git: Git, *prefixes: str) -> Sequence[tuple[str, str]]:
    """Return name and id of every reference that git can read, sorted by name."""
    said = git.run("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
    lines = said.output.decode("utf-8", "surrogateescape").splitlines()
    return [(name, oid) for oid, _, name in (line.partition(" ") for line in lines)]


def update_refs(git: Git, updates: Iterable[RefUpdate]) -> None:
    """Change all references or none; raises `GitFailedError` if one is no longer `old`."""
    lines = [_update(each) for each in updates]
    if lines:
        text = "\n".join(["start", *lines, "prepare", "commit", ""])
        git.run("update-ref", "--stdin", stdin=text.encode("utf-8", "surrogateescape"))


def _update(each: RefUpdate) -> str:
    if not each.old:
        return f"create {each.name} {each.new}"
    if not each.new:
        return f"delete {each.name} {each.old}"
    return f"update {each.name} {each.new} {each.old}"


def read_reference(store: Path, ref: str) -> str:
    """Return the id in a reference; raises `DamageError` if it is missing or unreadable."""
    folder, _, name = ref.rpartition("/")
    try:
        found = small_text(store / ref)
    except FileNotFoundError:
        found = listed(store, f"{folder}/").get(name, "")
    if not is_id(found):
        raise DamageError(f"The reference {ref} is damaged.")
    return found


def loose_names(folder: Path | str) -> Sequence[str]:
    """Return the names of references that are files, except those that are being written."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - only names needed
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return [name for name in names if not name.endswith(".lock")]


def small_text(path: Path | str) -> str:
    """Read a small file with one read: a take reads about twenty of them."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _ENOUGH).decode("ascii", "replace").strip()
    finally:
        os.close(fd)

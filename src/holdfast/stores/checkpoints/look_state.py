"""What the last look knew, so that the next look only checks what may have changed.

None of it has to survive. A lost, torn or outdated state makes the next look slower, never wrong.
So it is written without flushing, and the part that every checkpoint writes is overwritten in
place: renaming a new file over an old one makes some file systems wait for the disk. A digest
detects a torn write.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.stores.checkpoints.file_content import Signature, signature_at
from holdfast.stores.files import PRIVATE_FILE, open_regular, read_file, storage_errors, write_all
from holdfast.stores.git.trees import path_bytes, path_text
from holdfast.value import dataclass, field

#: Of a directory: a digest of its names, and one of the ignore rules that hold in it.
FolderDigests = tuple[str, str]
Listing = Mapping[bytes, FolderDigests]

_FORMAT = 1
_STATE, _LISTING = "state.json", "listing"
_QUICK_COMPRESSION = 1
_DIGEST_BYTES = 8
#: So many spaces are no reason to make a file shorter.
_SPARE = 4_096
#: An agent works in few directories at a time.
_REMEMBERED = 4


@dataclass(frozen=True, slots=True)
class Listed:
    """The directories of the last whole look, the paths that it could not capture, and how many
    names in a directory the default excludes leave out."""

    directories: Listing
    left: frozenset[bytes]
    excluded: Mapping[bytes, int]


NOTHING_LISTED = Listed({}, frozenset(), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """`tree` is the files tree that the private index stands for, except at the paths `ahead`.

    `left` are the paths that could not be captured, looked at every time. `limit` is the size limit
    that they were judged by. `young` are files that had just changed, with their signatures: git
    tells times by the second, so it may not see the next change of these.
    """

    tree: str = ""
    limit: int | None = None
    ahead: frozenset[bytes] = frozenset()
    left: Mapping[bytes, str] = field(default_factory=dict)
    young: Mapping[bytes, Signature] = field(default_factory=dict)


def read_state(folder: Path) -> State:
    """The state; an empty one when it is missing or unreadable."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        digest, _, text = read_file(folder / _STATE).partition(b"\n")
        data = json.loads(text)
        if digest == _digest(text.rstrip()) and data["format"] == _FORMAT:
            return State(
                tree=data["tree"],
                limit=data["limit"],
                ahead=frozenset(path_bytes(path) for path in data["ahead"]),
                left={path_bytes(path): reason for path, reason in data["left"].items()},
                young={path_bytes(path): _signature(*it) for path, it in data["young"].items()},
            )
    return State()


def write_state(folder: Path, state: State) -> None:
    data = {
        "format": _FORMAT,
        "tree": state.tree,
        "limit": state.limit,
        "ahead": sorted(path_text(path) for path in state.ahead),
        "left": {path_text(path): reason for path, reason in state.left.items()},
        "young": {path_text(path): signature for path, signature in state.young.items()},
    }
    text = json.dumps(data).encode("ascii")
    path = folder / _STATE
    with storage_errors(f"write {path}"):
        fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
        try:
            length = os.fstat(fd).st_size
            whole = b"%b\n%b\n" % (_digest(text), text)
            # Spaces instead of a shorter file, unless that is much shorter.
            write_all(fd, whole.ljust(length) if length < len(whole) + _SPARE else whole)
            if length >= len(whole) + _SPARE:
                os.ftruncate(fd, len(whole))
        finally:
            os.close(fd)


def read_listing(folder: Path) -> Listed:
    """What the last whole look saw. It is in one file: directories without the paths that could
    not be captured would hide those from the next look."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
        data = json.loads(zlib.decompress(read_file(folder / _LISTING)))
        if data["format"] == _FORMAT:
            listed = data["directories"].items()
            listing = {path_bytes(path): (names, rules) for path, (names, rules) in listed}
            left = frozenset(path_bytes(path) for path in data["left"])
            excluded = {path_bytes(path): int(n) for path, n in data["excluded"].items()}
            return Listed(listing, left, excluded)
    return NOTHING_LISTED


class Listings:
    """Listings that were read before, of which a process that goes on taking checkpoints needs the
    same one again. They are replaced whole, so the file tells whether one is still right."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[Signature, Listed]] = {}

    def read(self, folder: Path) -> Listed:
        signature = signature_at(os.fsencode(folder / _LISTING))
        known = self._read.pop(folder, None)
        if signature is None:
            return NOTHING_LISTED
        if known is None or known[0] != signature:
            known = signature, read_listing(folder)
        self._read[folder] = known
        while len(self._read) > _REMEMBERED:
            self._read.pop(next(iter(self._read)), None)
        return known[1]


def write_listing(
    folder: Path, listing: Listing, left: Iterable[bytes], excluded: Mapping[bytes, int]
) -> None:
    data = {
        "format": _FORMAT,
        "directories": {path_text(path): seen for path, seen in listing.items()},
        "left": sorted(path_text(path) for path in left),
        "excluded": {path_text(path): count for path, count in excluded.items()},
    }
    text = json.dumps(data).encode("ascii")
    _write(folder / _LISTING, zlib.compress(text, _QUICK_COMPRESSION))


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode("ascii")


def _signature(inode: int, mode: int, size: int, modified: int, changed: int) -> Signature:
    return inode, mode, size, modified, changed


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"{path.name}.new")
    with storage_errors(f"write {path}"):
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        temporary.replace(path)

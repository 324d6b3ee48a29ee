"""What the last look knew, so that the next look checks only what may have changed.

A lost, torn or outdated state makes the next look slower, never wrong. So it is written without
fsync, and the part that changes with every checkpoint is overwritten in place: renaming a new file
over an old one makes some file systems wait for the disk. A digest detects a torn write.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.stores.checkpoints.read_file import Signature, signature_at
from holdfast.stores.checkpoints.repository import write_cache
from holdfast.stores.digest import blake2b
from holdfast.stores.files import open_regular, read_file, storage_errors, write_all
from holdfast.stores.git.trees import path_bytes, path_text
from holdfast.value import dataclass, field

#: Two digests for a directory: of its names, and of the ignore rules that apply in it.
FolderDigests = tuple[str, str]
Listing = Mapping[bytes, FolderDigests]
#: Identifies a directory, its permissions, and when its names last changed. Any later change gives
#: it a different stamp.
Stamp = str

#: A file as it was read: its signature, git's mode, and the id of its content.
KnownFile = tuple[Signature, int, bytes]

_FORMAT = 1
_LISTING_FORMAT = 2
_STATE, _LISTING = "state.json", "listing"
_QUICK_COMPRESSION = 1
_DIGEST_BYTES = 8
#: A file is only truncated if more than this many bytes would be spaces.
_SPARE = 4_096
#: An agent works in few directories at a time.
_REMEMBERED = 4


@dataclass(frozen=True, slots=True)
class Listed:
    """The directories of the last whole look, the paths that it could not capture, and the number
    of names that the default excludes leave out, by directory.

    `stamps` has directories whose times can be trusted and whose names had not just changed;
    `inside` has the listed subdirectories of each directory.
    """

    directories: Listing = field(default_factory=dict)
    left: frozenset[bytes] = frozenset()
    excluded: Mapping[bytes, int] = field(default_factory=dict)
    stamps: Mapping[bytes, Stamp] = field(default_factory=dict)
    inside: Mapping[bytes, Sequence[bytes]] = field(default_factory=dict)


NOTHING_LISTED = Listed()


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """`tree` is the files tree that the private index matches, except at the paths `ahead`.

    `left` are the paths that could not be captured; every look checks them. `limit` is the size
    limit of that look. `young` are files that had just changed, with their signatures: git compares
    whole seconds, so it may miss their next change. `known` are files that git lists as changed
    because the index is behind, but that match `tree` while they have this signature.
    """

    tree: str = ""
    limit: int | None = None
    ahead: frozenset[bytes] = frozenset()
    left: Mapping[bytes, str] = field(default_factory=dict)
    young: Mapping[bytes, Signature] = field(default_factory=dict)
    known: Mapping[bytes, KnownFile] = field(default_factory=dict)


def read_state(folder: Path) -> State:
    """Return the state; an empty one if it is missing or unreadable."""
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
                # Missing in the state of an earlier version.
                known={path_bytes(path): _known(*it) for path, it in data.get("known", {}).items()},
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
        "known": {
            path_text(path): (*signature, kind, oid.hex())
            for path, (signature, kind, oid) in state.known.items()
        },
    }
    text = json.dumps(data).encode("ascii")
    path = folder / _STATE
    with storage_errors(f"write {path}"):
        fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
        try:
            length = os.fstat(fd).st_size
            whole = b"%b\n%b\n" % (_digest(text), text)
            # Pad with spaces instead of truncating, unless it would be much shorter.
            write_all(fd, whole.ljust(length) if length < len(whole) + _SPARE else whole)
            if length >= len(whole) + _SPARE:
                os.ftruncate(fd, len(whole))
        finally:
            os.close(fd)


def read_listing(folder: Path) -> Listed:
    """Return what the last whole look saw. Directories and uncaptured paths are in one file: with
    the directories alone, the next look would miss those paths."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, zlib.error):
        data = json.loads(zlib.decompress(read_file(folder / _LISTING)))
        if data["format"] == _LISTING_FORMAT:
            paths = list(map(path_bytes, data["directories"]))
            rows = list(zip(paths, data["directories"].values(), strict=True))
            inside: dict[bytes, list[bytes]] = {}
            for path in paths:
                if path:
                    inside.setdefault(path.rpartition(b"/")[0], []).append(path)
            return Listed(
                directories={path: (names, rules) for path, (names, rules, _) in rows},
                left=frozenset(path_bytes(path) for path in data["left"]),
                excluded={path_bytes(path): int(n) for path, n in data["excluded"].items()},
                stamps={path: stamp for path, (_, _, stamp) in rows if stamp},
                inside=inside,
            )
    return NOTHING_LISTED


class Listings:
    """A cache of listings, for a process that takes many checkpoints. A listing is replaced as a
    whole, so the signature of its file shows whether it is current."""

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


def write_listing(folder: Path, listed: Listed) -> None:
    stamps = listed.stamps
    data = {
        "format": _LISTING_FORMAT,
        "directories": {
            path_text(path): (*seen, stamps.get(path, ""))
            for path, seen in listed.directories.items()
        },
        "left": sorted(path_text(path) for path in listed.left),
        "excluded": {path_text(path): count for path, count in listed.excluded.items()},
    }
    text = json.dumps(data).encode("ascii")
    with storage_errors(f"write {folder / _LISTING}"):
        write_cache(folder / _LISTING, zlib.compress(text, _QUICK_COMPRESSION))


def _digest(text: bytes) -> bytes:
    return blake2b(text, digest_size=_DIGEST_BYTES).hexdigest().encode("ascii")


def _signature(inode: int, mode: int, size: int, modified: int, changed: int) -> Signature:
    return inode, mode, size, modified, changed


def _known(*of: int | str) -> KnownFile:
    *signature, kind, oid = of
    return _signature(*map(int, signature)), int(kind), bytes.fromhex(str(oid))

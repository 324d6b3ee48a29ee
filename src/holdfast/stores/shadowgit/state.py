"""What the last look knew: so that the next one asks only what may have changed.

Nothing here needs to survive. A state that is lost, torn or out of step makes the next look slower,
and never wrong; so it is written without flushing.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.stores.files import PRIVATE_FILE, storage_errors, write_all
from holdfast.stores.shadowgit.beside import path_bytes, path_text
from holdfast.stores.shadowgit.reading import Signature

#: Of a directory: a digest of its names, and one of the ignore rules that hold in it.
Seen = tuple[str, str]
Listing = Mapping[bytes, Seen]
NOTHING_LISTED: Listing = {}

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """`tree` is the files tree that the private index stands for, except at the paths `ahead`.

    `last` is the ref of the checkpoint with that tree; `coming` a ref that was about to be made.
    `left` are the paths that could not be captured, looked at every time. `limit` is the size limit
    that they were judged by. `young` are files that had just changed, with their signatures: git
    tells times by the second, so it may not see the next change of these.
    """

    tree: str = ""
    last: str = ""
    coming: str = ""
    limit: int | None = None
    ahead: frozenset[bytes] = frozenset()
    left: Mapping[bytes, str] = field(default_factory=dict)
    young: Mapping[bytes, Signature] = field(default_factory=dict)


def read_state(folder: Path) -> State:
    """The state; an empty one when there is none that can be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        data = json.loads((folder / "state.json").read_bytes())
        if data["format"] == _FORMAT:
            return State(
                tree=data["tree"],
                last=data["last"],
                coming=data["coming"],
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
        "last": state.last,
        "coming": state.coming,
        "limit": state.limit,
        "ahead": sorted(path_text(path) for path in state.ahead),
        "left": {path_text(path): reason for path, reason in state.left.items()},
        "young": {path_text(path): signature for path, signature in state.young.items()},
    }
    _write(folder / "state.json", json.dumps(data).encode("ascii"))


def read_listing(folder: Path) -> tuple[Listing, frozenset[bytes]]:
    """The directories of the last whole look, and the paths that it could not capture.

    They are in one file: a listing without them would hide them from the next look.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        data = json.loads((folder / "listing.json").read_bytes())
        if data["format"] == _FORMAT:
            listed = data["directories"].items()
            listing = {path_bytes(path): (names, rules) for path, (names, rules) in listed}
            return listing, frozenset(path_bytes(path) for path in data["left"])
    return NOTHING_LISTED, frozenset()


def write_listing(folder: Path, listing: Listing, left: Iterable[bytes]) -> None:
    data = {
        "format": _FORMAT,
        "directories": {path_text(path): seen for path, seen in listing.items()},
        "left": sorted(path_text(path) for path in left),
    }
    _write(folder / "listing.json", json.dumps(data).encode("ascii"))


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

"""Who has a database open: every connection to one in WAL mode keeps a lock on it while it lives.

The kernel lists those locks. Asking the file itself would mean to open it, and closing any
descriptor on it would drop the locks of this very process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from holdfast.stores import processes

_LOCKS = Path("/proc/locks")
_OWNER, _FILE, _FIELDS = 4, 5, 6


def others_have_open(database: Path) -> bool:
    """Whether another process may have it open, asked by one that has. True as well when that
    cannot be known."""
    owners = _owners(database)
    return owners is None or bool(owners)


def strangers_have_open(database: Path) -> bool:
    """Whether one of them may count process ids in another way, as one in a container does. Where
    that cannot be known, on a system that has containers, it may."""
    owners = _owners(database)
    return sys.platform == "linux" if owners is None else not all(map(_is_neighbour, owners))


def _owners(database: Path) -> set[str] | None:
    """Process ids of others; None when our own lock is not on the list, which then says nothing.
    Neither does that of a container: it leaves out whoever is outside."""
    if not processes.is_outermost():
        return None
    try:
        wanted = _named(database)
        lines = _LOCKS.read_text("ascii").splitlines()
    except (OSError, ValueError):
        return None
    owners = {owner for line in lines if (owner := _owner(line.split(), wanted)) is not None}
    mine = str(os.getpid())
    return owners - {mine} if mine in owners else None


def _owner(words: list[str], wanted: str) -> str | None:
    if words[1:2] == ["->"]:  # somebody who waits for a lock
        words = [words[0], *words[2:]]
    return words[_OWNER] if len(words) >= _FIELDS and words[_FILE] == wanted else None


def _named(path: Path) -> str:
    status = path.stat()
    return f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"


def _is_neighbour(process: str) -> bool:
    try:
        theirs, ours = (os.stat(f"/proc/{each}/ns/pid") for each in (process, "self"))  # noqa: PTH116
    except OSError:
        return False
    return theirs.st_ino == ours.st_ino

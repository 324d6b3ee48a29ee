"""One recorded home of a real agent: what the laws, the kills and the commands want to know of it.

A new agent is one file here with a `HOME`, and one line in `__init__.py`.
"""

from __future__ import annotations

import fcntl
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast import Home

_DATA = Path(__file__).parents[2] / "data" / "homes"
#: Locks last as long as a descriptor is open.
_held: list[int] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHome:
    """`whole` is the session with most messages: tools were called in it. `file` finds the file
    that holds it, below the home.

    `touch` changes a session as the agent would, `revive` gives it a sign of life, `renew` makes
    the version of the home unknown. `database` is a SQLite file that another process can lock.
    `words_in` is the table and column with the text of messages, where no file has it as text.
    """

    name: str
    people: str
    folder: str
    make: Callable[[Path], None]
    touch: Callable[[Home, str], object]
    renew: Callable[[Path], object]
    whole: str
    file: str
    sessions: int
    revive: Callable[[Home, str], object] | None = None
    database: str | None = None
    words_in: tuple[str, str] | None = None
    #: Some sessions have at most so many messages, others more.
    trivial: int = 5
    #: Whether only the folder of a session says its id, and no file in it.
    anonymous: bool = False
    #: Whether its messages have no times.
    timeless: bool = False
    #: Whether one file has a whole session, so that it can be imported alone.
    alone: bool = True


def unpack(agent: str, folder: str, root: Path) -> Path:
    """The home as the agent left it, at `root`; what else it left is in the folder that returns."""
    around = root.with_name(f"{root.name}.recorded")
    with tarfile.open(_DATA / f"{agent}.tar.xz") as tar:
        tar.extractall(around, filter="tar")
    (around / folder).rename(root)
    return around


def append(path: Path, record: Mapping[str, object]) -> None:
    """As the agent would, a second later: the laws are about the content, not about the clock."""
    status = path.stat()
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


def hold(path: Path) -> None:
    """Lock a file as a running agent does, until this process ends."""
    _held.append(os.open(path, os.O_RDWR | os.O_CREAT))
    fcntl.flock(_held[-1], fcntl.LOCK_EX)

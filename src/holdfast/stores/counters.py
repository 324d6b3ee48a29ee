"""Counts that many processes add to, and that a kill cannot damage.

tallies/WHAT, tallies/WHAT.AGENT    one byte for each event; the length is the count

Adding is one write of one byte: no lock, nothing to read first, nothing that can be torn. A count
that gets too long restarts at zero, as counters of metrics may.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from holdfast.model.figures import Tally
from holdfast.stores.files import make_private_dir, opened_regular

FOLDER = "tallies"
_ADD = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
_LONGEST = 1024**2
_PLAIN = re.compile(r"[a-z][a-z0-9-]{0,39}")
_OTHER = "other"
#: An agent may call itself anything. Beyond this many names, the rest are counted as one.
_MOST_AGENTS = 50


class FileTallies:
    """The counts of one home."""

    def __init__(self, state: Path) -> None:
        self._folder = state / FOLDER

    def add(self, what: Tally, agent: str = "") -> None:
        """Count one more. Never raises: the counted work matters more than its count."""
        with contextlib.suppress(OSError):
            path = self._path(what, agent)
            if not self._folder.parent.is_dir():
                return  # a count must not recreate a home that was removed
            make_private_dir(self._folder)
            with opened_regular(path, _ADD) as fd:
                if os.fstat(fd).st_size >= _LONGEST:
                    os.ftruncate(fd, 0)
                os.write(fd, b".")

    def read(self) -> Mapping[tuple[Tally, str], int]:
        """The counts that are not 0, by what was counted and the name of the agent."""
        found: dict[tuple[Tally, str], int] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    what, _, agent = entry.name.partition(".")
                    if what in tuple(Tally) and entry.is_file(follow_symlinks=False):
                        with contextlib.suppress(OSError):
                            found[Tally(what), agent] = entry.stat(follow_symlinks=False).st_size
        except OSError:
            return {}
        return found

    def total(self, what: Tally) -> int:
        return sum(count for (each, _), count in self.read().items() if each is what)

    def _path(self, what: Tally, agent: str) -> Path:
        """The path of a count. An agent's name is used only as a name, never as a path."""
        name = agent if not agent or _PLAIN.fullmatch(agent) else _OTHER
        path = self._folder / (f"{what.value}.{name}" if name else what.value)
        if name and not path.exists() and len(self.read()) >= _MOST_AGENTS:
            return self._folder / f"{what.value}.{_OTHER}"
        return path

"""Checkpoints of one directory by a process that stays: it looks only at what changed.

The first take after the watch began looks at everything, and so does each one of which the watch
cannot say what changed. A take that finds another checkpoint than its own before it, or that left
something out, is followed by a whole look as well.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.model.checkpoint import ChangedPaths, Taking

if TYPE_CHECKING:
    from holdfast.stores.checkpoints.standing_watch import StandingWatch
    from holdfast.stores.checkpoints.writer import CheckpointWriter

#: More paths than these cost more than a look at the whole tree.
_MOST_PATHS = 500
#: How long not to try again what cannot be watched.
_PAUSE = 600.0


class WatchedTakes:
    """Takes checkpoints of one directory, one at a time; the caller sees to that."""

    def __init__(self, writer: CheckpointWriter, workdir: Path) -> None:
        self._writer = writer
        self._workdir = workdir
        self._watch: StandingWatch | None = None
        self._pause_until = 0.0
        #: The checkpoint since which every change is in `_pending` or still to be told.
        self._synced: str | None = None
        self._pending = ChangedPaths()

    def take(self, *, reason: str, now: float, session: str | None, turn: str | None) -> Taking:
        paths = self._changed()
        taking = self._writer.take(
            self._workdir,
            reason=reason,
            now=now,
            session=session,
            turn=turn,
            paths=paths,
            after=self._synced,
        )
        # Not before: what was told is still to be looked at when a take fails.
        self._pending = ChangedPaths()
        watched = self._watch is not None and not taking.not_captured
        self._synced = taking.id if watched else None
        return taking

    def _changed(self) -> list[str] | None:
        """The paths to look at; None for all."""
        if self._watch is None:
            return None
        self._pending |= self._watch.since()
        if self._pending.lost:
            self.close()
        if self._synced is None or len(self._pending.paths) > _MOST_PATHS:
            return None
        return sorted(self._pending.paths)

    def is_to_be_followed(self) -> bool:
        return (
            sys.platform == "linux"
            and self._watch is None
            and not self._writer.how.hash_all
            and time.monotonic() >= self._pause_until
        )

    def watch(self) -> StandingWatch | None:
        """Begin to watch, which takes a while: no take need wait for it. `follow` puts it to use.
        None where not every change would be told."""
        self._pause_until = time.monotonic() + _PAUSE
        with suppress(HoldfastError, OSError, ValueError, ImportError):
            # Imported here: it needs a library that is there on Linux alone.
            from holdfast.stores.checkpoints.standing_watch import StandingWatch  # noqa: PLC0415

            return StandingWatch(self._writer.layout, self._workdir)
        return None

    def follow(self, watch: StandingWatch) -> None:
        """From now on. The next take looks at everything: nobody told what changed until here."""
        self._watch, self._synced, self._pending = watch, None, ChangedPaths()
        self._pause_until = 0.0

    def close(self) -> None:
        """Watch no longer. A take looks at everything then."""
        if self._watch is not None:
            self._watch.close()
        self._watch, self._synced = None, None

"""Checkpoints of one directory by a long-running process, which looks only at what changed.

The first take after the watch began does a whole look, and so does every take for which the watch
cannot tell what changed. The take after one that did not capture everything does too, and so does
one that finds a checkpoint other than its own before it.
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

#: Looking at more paths than this costs more than a whole look.
_MOST_PATHS = 500
#: How long to wait before retrying to watch.
_PAUSE = 600.0


class WatchedTakes:
    """Takes checkpoints of one directory, one at a time; the caller ensures that."""

    def __init__(self, writer: CheckpointWriter, workdir: Path) -> None:
        self._writer = writer
        self._workdir = workdir
        self._watch: StandingWatch | None = None
        self._pause_until = 0.0
        #: The checkpoint since which every change is in `_pending` or still to be reported.
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
        # Not earlier: if a take fails, the reported changes still have to be looked at.
        self._pending = ChangedPaths()
        watched = self._watch is not None and not taking.not_captured
        self._synced = taking.id if watched else None
        return taking

    def _changed(self) -> list[str] | None:
        """Return the paths to look at; None for all."""
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
        """Start watching, which takes a while, so takes do not wait for it. `follow` puts it to
        use. Returns None if changes could be missed."""
        self._pause_until = time.monotonic() + _PAUSE
        with suppress(HoldfastError, OSError, ValueError, ImportError):
            # Imported here: it needs a library that only exists on Linux.
            from holdfast.stores.checkpoints.standing_watch import StandingWatch  # noqa: PLC0415

            return StandingWatch(self._writer.layout, self._workdir)
        return None

    def follow(self, watch: StandingWatch) -> None:
        """Use a watch from now on. The next take does a whole look: earlier changes are unknown."""
        self._watch, self._synced, self._pending = watch, None, ChangedPaths()
        self._pause_until = 0.0

    def close(self) -> None:
        """Stop watching. The next take does a whole look."""
        if self._watch is not None:
            self._watch.close()
        self._watch, self._synced = None, None

"""What only the messages of a session tell: how many there are, and what they used.

A session is read once for each version of it. One whose agent only appends is read on from where
the last reader stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.homes.appended import Appended
from holdfast.homes.notes import Notes, Seen
from holdfast.model.part import Counts
from holdfast.ports.formats import Format

#: What a list reads to count messages: some seconds of work.
MOST_LISTED_BYTES = 512 * 1024**2
#: A smaller transcript is read whole again: a note about it would cost more than it saves.
_LARGE = 1024**2


class MessageCounts:
    def __init__(self, form: Format, root: Path, notes: Notes) -> None:
        self._format = form
        self._root = root
        self._notes = notes
        self._partly: dict[str, Counts] = {}

    def of(self, session_id: str) -> Counts | None:
        """What is known without reading: of the whole session, or of its beginning."""
        return self._notes.counts(session_id) or self._partly.get(session_id)

    def is_whole(self, session_id: str) -> bool:
        return self._notes.counts(session_id) is not None

    def count(self, sessions: Iterable[Seen], *, most_bytes: int | None = None) -> None:
        """Count the messages of sessions that nobody counted since they changed. With `most_bytes`
        no more than that is read, as far as a session can be read in pieces: what is left is for
        the next time."""
        left = most_bytes
        waiting = [each for each in sessions if not self.is_whole(each.unit.id)]
        for each in waiting:
            # One that cannot be read costs itself: it is listed, and nobody claims to know more.
            self._partly.setdefault(each.unit.id, Counts())
            with suppress(OSError, ValueError, KeyError, TypeError, HoldfastError):
                read = self._count(each, left)
                left = None if left is None else max(0, left - read)
        if waiting:
            self._notes.save_some()

    def _count(self, seen: Seen, most_bytes: int | None) -> int:
        """Count one session; gives the bytes that were read."""
        appended = self._appended(seen)
        if appended is not None:
            return self._count_on(seen.unit.id, appended, most_bytes)
        if most_bytes is not None and seen.bytes > most_bytes:
            return 0
        said = seen.messages(self._format, self._root)
        self._notes.keep_counts(seen.unit.id, Counts.of(said))
        return seen.bytes

    def _count_on(self, session_id: str, appended: Appended, most_bytes: int | None) -> int:
        before = self._notes.point(session_id)
        if most_bytes == 0:
            if before is not None:
                self._partly[session_id] = before.counts
            return 0
        counted = appended.count(before, most_bytes=most_bytes)
        if counted.point is not None and counted.point.offset > _LARGE:
            self._notes.keep_point(session_id, counted.point)
        if counted.whole:
            self._notes.keep_counts(session_id, counted.counts)
            self._partly.pop(session_id, None)
        else:
            self._partly[session_id] = counted.counts
        return counted.bytes

    def _appended(self, seen: Seen) -> Appended | None:
        find = getattr(self._format, "appended", None)
        found: Appended | None = None if find is None else find(self._root, seen.unit)
        return found

"""Counts and sums over the sessions of another agent: the number of messages and the usage, which
only reading the messages can tell.

A session is read once per version. If its agent only appends, reading continues where the last
reader stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.homes.agents.appended_transcript import Appended
from holdfast.homes.agents.json_lines import UNREADABLE
from holdfast.homes.foreign.notes import Notes, Seen
from holdfast.model.guard import Booked, Guarded
from holdfast.model.part import Counts, Unit
from holdfast.model.session import Session
from holdfast.model.usage import Share, StoreStats
from holdfast.model.utc_day import utc_day
from holdfast.ports.formats import Format
from holdfast.stores.sessions.survey import AVERAGES, SIZES

#: How much a list reads to count messages: some seconds of work.
MOST_LISTED_BYTES = 512 * 1024**2
#: A smaller transcript is read again in full: a note about it would cost more than it saves.
_LARGE = 1024**2


class MessageCounts:
    def __init__(self, form: Format, root: Path, notes: Notes) -> None:
        self._format = form
        self._root = root
        self._notes = notes
        self._partly: dict[str, Counts] = {}

    def of(self, session_id: str) -> Counts | None:
        """The known counts, without reading: of the whole session, or of its beginning."""
        return self._notes.counts(session_id) or self._partly.get(session_id)

    def is_whole(self, session_id: str) -> bool:
        return self._notes.counts(session_id) is not None

    def count(self, sessions: Iterable[Seen], *, most_bytes: int | None = None) -> None:
        """Count the messages of sessions that changed since they were last counted. Stop after
        `most_bytes`, as far as a session can be read in pieces; the rest is counted next time."""
        left = most_bytes
        waiting = [each for each in sessions if not self.is_whole(each.unit.id)]
        for each in waiting:
            # A session that cannot be read is listed with the counts known so far; the others are
            # not affected.
            self._partly.setdefault(each.unit.id, Counts())
            with suppress(*UNREADABLE):
                read = self._count(each, left)
                left = None if left is None else max(0, left - read)
        if waiting:
            self._notes.save_some()

    def _count(self, seen: Seen, most_bytes: int | None) -> int:
        """Count one session; return the number of bytes read."""
        find = getattr(self._format, "appended", None)
        appended: Appended | None = None if find is None else find(self._root, seen.unit)
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


def booked(unit: Unit) -> Guarded | None:
    """The usage of a session apart from its messages, on the day of its last use."""
    if unit.used is None:
        return None
    on = utc_day(unit.active)
    return Guarded(booked=(Booked(day=on, model=unit.model, usage=unit.used),))


def statistics(
    sessions: Sequence[Session], now: float, ages: Sequence[tuple[str, float]]
) -> StoreStats:
    def shares(
        classes: Sequence[tuple[str, float]], place: Callable[[Session, float], bool]
    ) -> tuple[Share, ...]:
        found = {name: Share(name=name, count=0, bytes=0) for name, _ in classes}
        for each in sessions:
            fitting = (name for name, bound in classes if place(each, bound))
            name = next(fitting, classes[-1][0])
            old = found[name]
            found[name] = Share(name=name, count=old.count + 1, bytes=old.bytes + each.bytes)
        return tuple(found.values())

    sources = sorted({each.source for each in sessions})
    return StoreStats(
        sessions=len(sessions),
        open_sessions=sum(not each.ended for each in sessions),
        messages=sum(each.message_count for each in sessions),
        tokens=sum(each.tokens.total for each in sessions),
        cost=sum(each.cost for each in sessions),
        message_bytes=sum(each.bytes for each in sessions),
        database_bytes=0,
        free_bytes=0,
        wal_bytes=0,
        by_source=shares(
            [(name, number) for number, name in enumerate(sources)],
            lambda each, number: each.source == sources[int(number)],
        )
        if sources
        else (),
        by_age=shares(ages, lambda each, bound: now - each.last_active_at < bound),
        by_size=shares(SIZES, lambda each, bound: each.message_count <= bound),
        by_average_message=shares(
            AVERAGES, lambda each, bound: each.bytes / max(1, each.message_count) < bound
        ),
    )

"""The one loop that touches a home: announce a batch, act on it, record the results."""

from __future__ import annotations

import contextlib
import errno
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from holdfast.errors import HoldfastError, StorageError
from holdfast.model.operation import Removal
from holdfast.model.plan import Action
from holdfast.model.report import Outcome, Report, Result
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Doer, Journal, Progress

#: Small enough that a stop is quick and a kill leaves little to settle; large enough that the
#: fsyncs per batch do not matter.
BATCH = 1_000
_BATCH_BYTES = 64 * 1024 * 1024
#: The same limit for items that come back. It is larger because a bundle that is split across two
#: batches has to be rewritten in between.
_RETURNING_BYTES = 4 * _BATCH_BYTES
FULL = "stopped by a full disk"
#: With less free space than this, the first batch is one item, and batches double from there: what
#: one batch frees makes room to announce the next.
_HARDLY_ANY = 1024 * 1024

Act = Callable[[Doer, Sequence[Removal]], Sequence[Outcome]]
#: Maximum batch size by kind and action; the default is `BATCH`.
Together = Mapping[tuple[str, Action], int]
_AS_USUAL: Together = MappingProxyType({})


def carry_out(
    journal: Journal,
    removals: Iterable[Removal],
    act: Act,
    home: Home,
    *,
    label: str,
    clock: Clock,
    progress: Progress,
    removing: Together | None = None,
) -> Report:
    """Act on everything, group by group, and close the journal. Stops are possible between groups.
    On a full disk, a removal (`removing` is set) still tries to close it."""
    every = list(removals)
    together = removing or _AS_USUAL
    most_bytes = _RETURNING_BYTES if removing is None else _BATCH_BYTES
    outcomes: list[Outcome] = []
    stopped = None
    for group in groups(every, most_bytes=most_bytes, first=_first(home), together=together):
        if progress.stop_requested():
            stopped = "stopped by the user"
            break
        try:
            journal.intend(group)
        except StorageError as error:
            if removing is not None and outcomes and _is_full(error):
                _close(journal, clock)
            raise
        for batch in batches(group, most_bytes=most_bytes, together=together):
            doer = doer_of(home, batch)
            done = act(doer, batch)
            try:
                journal.record(batch, done)
            except StorageError as error:
                full = removing is not None and _is_full(error)
                if full and _withdrawn(journal, doer, batch) and outcomes:
                    _close(journal, clock)
                raise
            outcomes += done
            progress.step(label, len(outcomes), len(every))
    journal.finish(at=clock(), stopped=stopped)
    return Report(
        operation=journal.operation,
        outcomes=tuple(outcomes),
        stopped=stopped,
        log_bytes=journal.bytes(),
    )


def _is_full(error: StorageError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


def _close(journal: Journal, clock: Clock) -> None:
    """Close the journal: everything announced has its result. If that does not fit, the next run
    does it."""
    with contextlib.suppress(StorageError):
        journal.finish(at=clock(), stopped=FULL)


def _withdrawn(journal: Journal, doer: Doer, batch: Sequence[Removal]) -> bool:
    """Take back the announcement of a batch whose results cannot be written, provided that every
    item is still whole in the home: the announcement takes room on a full disk and carries no
    information. If anything is uncertain it stays, and the next run settles it."""
    try:
        settled = doer.settle(batch)
        return all(each.result is Result.SKIPPED for each in settled) and journal.withdraw()
    except (HoldfastError, OSError):
        return False


def _first(home: Home) -> int:
    room = home.disk_room()
    return 1 if room is not None and room.free < _HARDLY_ANY else BATCH


def groups(
    removals: Iterable[Removal],
    *,
    most_bytes: int = _BATCH_BYTES,
    first: int = BATCH,
    together: Together = _AS_USUAL,
) -> Iterator[tuple[Removal, ...]]:
    """Yield batches of items, each with the files that go with its sessions: a stop comes between
    whole sessions, and a killed run has announced the files before their sessions leave.

    In an undo, files come before their sessions, and stay there.
    """
    every = list(removals)
    places = {each.item.id: place for place, each in enumerate(every) if not each.item.goes_with}
    files: dict[str, list[Removal]] = defaultdict(list)
    others = []
    for place, each in enumerate(every):
        if places.get(each.item.goes_with, place) < place:
            files[each.item.goes_with].append(each)
        else:
            others.append(each)
    for batch in batches(others, most_bytes=most_bytes, first=first, together=together):
        following = [file for each in batch for file in files.pop(each.item.id, ())]
        following.sort(key=lambda file: (file.item.kind, file.number))
        yield (*batch, *following)


def batches(
    removals: Iterable[Removal],
    *,
    most_bytes: int = _BATCH_BYTES,
    first: int = BATCH,
    together: Together = _AS_USUAL,
) -> Iterator[tuple[Removal, ...]]:
    """Split into batches of one kind and action each, because each of these has its own doer. A
    batch holds up to `together` items, unless the `first` one has to be small."""
    most = first
    for key, alike in itertools.groupby(
        removals, key=lambda each: (each.item.kind, each.item.action)
    ):
        batch: list[Removal] = []
        size = 0
        at_once = together.get(key, 0) if most == BATCH else 0
        for removal in alike:
            batch.append(removal)
            if len(batch) < at_once:
                continue
            size += removal.item.bytes
            if len(batch) >= most or size >= most_bytes:
                yield tuple(batch)
                batch, size = [], 0
                most = min(2 * most, BATCH)
        if batch:
            yield tuple(batch)


def doer_of(home: Home, batch: Sequence[Removal]) -> Doer:
    return home.doer(batch[0].item.kind, batch[0].item.action)


class Silent:
    """A progress for hosts: shows nothing and never stops."""

    def step(self, label: str, done: int, total: int | None) -> None:
        """Shows nothing."""

    def stop_requested(self) -> bool:
        return False

"""Copies a whole session store into an empty one, of another kind or of the same.

Rows are copied unchanged, under their numbers. A session and its messages are copied in one
transaction, so a copy that was killed continues with what is missing. At the end both stores are
read once more and compared, every byte of every message. The source is only read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from operator import itemgetter
from typing import Any, Protocol

from holdfast.errors import DamageError, UsageError
from holdfast.ports.runs import Progress
from holdfast.stores.sessions.content import storable
from holdfast.stores.sessions.session_rows import COUNTS, LEASE_COLUMNS, SESSION_COLUMNS
from holdfast.value import dataclass

#: Limits of one transaction.
_MOST_SESSIONS = 500
_MOST_MESSAGES = 5_000
#: The most rounds of copying and comparing.
_ATTEMPTS = 2
_AGAIN = "Run the same command again to copy the rest."

#: Name of the fact with the source of an incomplete copy.
FILLED_FROM = "filled_from"
LEDGER_COLUMNS = ("day", "source", "model", *COUNTS)
MESSAGE_COLUMNS = ("session", "number", "role", "timestamp", "form", "body", "fields")
_PINNED = 1 + SESSION_COLUMNS.index("pinned")
_RELEASED = LEASE_COLUMNS.index("released")
#: The position of the message count in a head.
_COUNT = 1 + SESSION_COLUMNS.index("message_count")

#: The number of a session, then its columns as in `SESSION_COLUMNS`.
Head = tuple[Any, ...]
#: Session, number, role, time, form, body, fields; the last two as bytes.
MessageRow = tuple[int, int, str, float, int, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The small tables next to sessions and messages, which may change at any time: rows with
    values in the order of the columns. `ledger` is by day, source and model."""

    parents: Sequence[tuple[int, int]]
    routes: Sequence[tuple[Any, ...]]
    leases: Sequence[tuple[Any, ...]]
    guarded: Sequence[tuple[Any, ...]]
    ledger: Sequence[tuple[Any, ...]]


def head(row: Sequence[Any]) -> Head:
    """Normalize a row so that both kinds of store can hold it."""
    texts = (storable(each) if isinstance(each, str) else each for each in row)
    return tuple(bool(each) if place == _PINNED else each for place, each in enumerate(texts))


def beside(
    parents: Iterable[Sequence[Any]],
    routes: Iterable[Sequence[Any]],
    leases: Iterable[Sequence[Any]],
    guarded: Iterable[Sequence[Any]],
    ledger: Iterable[Sequence[Any]],
) -> Beside:
    """Normalize and sort rows so that both kinds of store can hold them and compare equal."""
    return Beside(
        parents=[(child, parent) for child, parent in parents],
        routes=sorted(_clean(routes)),
        leases=sorted(
            tuple(bool(each) if place == _RELEASED else each for place, each in enumerate(row))
            for row in _clean(leases)
        ),
        guarded=sorted(_clean(guarded), key=lambda row: row[0]),
        ledger=sorted(_clean(ledger), key=lambda row: row[:3]),
    )


def _clean(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(storable(x) if isinstance(x, str) else x for x in row) for row in rows]


class Source(Protocol):
    """A snapshot of a store."""

    @property
    def place(self) -> str: ...

    def heads(self) -> Iterator[Head]:
        """All sessions, ordered by number."""

    def messages(self, sessions: Sequence[int] | None = None) -> Iterator[MessageRow]:
        """The messages of all sessions or of some, ordered by session and number."""

    def beside(self) -> Beside: ...

    def filled_from(self) -> str | None:
        """The store that this one is still being filled from, if any."""

    def has_changed(self) -> bool:
        """True if the store was written to since the snapshot."""


class Target(Source, Protocol):
    """A store that is being filled, in its current state."""

    def begin(self, source: str) -> None:
        """Record the source that it is filled from. Only for a store without sessions."""

    def put(self, heads: Sequence[Head], messages: Iterable[MessageRow]) -> None:
        """Store sessions with their messages; existing ones are replaced."""

    def drop(self, sessions: Sequence[int]) -> None: ...

    def put_beside(self, beside: Beside) -> None:
        """Replace all rows of the small tables."""

    def finish(self) -> None:
        """Record that the copy is complete."""

    def index(self) -> Iterator[int]:
        """Index messages for search, batch by batch; yield how many remain. It may be stopped at
        any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The content of both stores after the copy, with a checksum of all of it; `moved` is the
    number of sessions that the target lacked. `changed` is True if the source was written to
    meanwhile."""

    sessions: int
    messages: int
    checksum: str
    moved: int
    changed: bool


def copy(source: Source, target: Target, progress: Progress) -> Copied:
    if source.filled_from() is not None:
        raise UsageError(f"{source.place} is itself a copy that is not complete.", hint=_AGAIN)
    _begin(source, target)
    heads = {head[0]: head for head in source.heads()}
    there = {head[0]: head for head in target.heads()}
    target.drop([number for number in there if number not in heads])
    wrong = [number for number, head in heads.items() if there.get(number) != head]
    moved = len(wrong)
    compared = _Compared(checksum="", messages=0, wrong=())
    for _ in range(_ATTEMPTS):
        _move(source, target, [heads[number] for number in wrong], progress)
        target.put_beside(source.beside())
        compared = _compare(source, target, len(heads), progress)
        wrong = list(compared.wrong)
        if not wrong:
            break
    if wrong or source.beside() != target.beside():
        raise DamageError(
            f"{target.place} differs from {source.place} after the copy.",
            hint=f"Another process may be writing to it. {_AGAIN}",
        )
    changed = source.has_changed()
    if not changed:
        target.finish()
        _index(target, compared.messages, progress)
    return Copied(
        sessions=len(heads),
        messages=compared.messages,
        checksum=compared.checksum,
        moved=moved,
        changed=changed,
    )


def _index(target: Target, total: int, progress: Progress) -> None:
    for left in target.index():
        progress.step("indexing messages", max(0, total - left), total)
        if progress.stop_requested():
            break  # a search reads the rest itself


def _begin(source: Source, target: Target) -> None:
    filled_from = target.filled_from()
    if filled_from == source.place:
        return
    if filled_from is not None:
        raise UsageError(f"{target.place} is being filled from {filled_from}.")
    if next(target.heads(), None) is not None or target.beside().ledger:
        raise UsageError(
            f"{target.place} is not empty; a store is copied into an empty one.",
            hint="To add sessions to a store, export them and import them there.",
        )
    target.begin(source.place)


def _move(source: Source, target: Target, heads: Sequence[Head], progress: Progress) -> None:
    done = 0
    for batch in _batches(heads):
        if progress.stop_requested():
            raise UsageError("The copy was stopped.", hint=_AGAIN)
        target.put(batch, source.messages([head[0] for head in batch]))
        done += len(batch)
        progress.step("copying sessions", done, len(heads))


def _batches(heads: Sequence[Head]) -> Iterator[Sequence[Head]]:
    batch: list[Head] = []
    messages = 0
    for head in heads:
        count = head[_COUNT]
        if batch and (len(batch) == _MOST_SESSIONS or messages + count > _MOST_MESSAGES):
            yield batch
            batch, messages = [], 0
        batch.append(head)
        messages += count
    if batch:
        yield batch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    checksum: str
    messages: int
    wrong: Sequence[int]


def _compare(source: Source, target: Target, total: int, progress: Progress) -> _Compared:
    """Compare every head and every message of both stores."""
    whole, messages = hashlib.sha256(), 0
    wrong = {
        (ours or theirs)[0]
        for ours, theirs in zip_longest(source.heads(), target.heads())
        if ours != theirs
    }
    mine, yours = _digests(source.messages()), _digests(target.messages())
    for done, (ours, theirs) in enumerate(zip_longest(mine, yours), start=1):
        if ours != theirs:
            wrong |= {each[0] for each in (ours, theirs) if each is not None}
        if ours is not None:
            messages += ours[1]
            whole.update(ours[2])
        progress.step("comparing", done, total)
    for head in source.heads():
        whole.update(repr(head).encode("utf-8", "surrogatepass"))
    return _Compared(checksum=whole.hexdigest(), messages=messages, wrong=sorted(wrong))


def _digests(rows: Iterator[MessageRow]) -> Iterator[tuple[int, int, bytes]]:
    """For each session with messages: its number, their count and their checksum."""
    for session, messages in groupby(rows, key=itemgetter(0)):
        digest, count = hashlib.sha256(), 0
        for row in messages:
            count += 1
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
        yield session, count, digest.digest()

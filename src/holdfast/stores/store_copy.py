"""Copy a whole session store into an empty one, of another kind or of the same.

Rows go as they are, under their numbers. A session and its messages go in one transaction, so a
copy that was killed goes on with what is missing. At the end both are read once more and compared,
every byte of every message. The source is only read.
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

#: What one transaction takes at most.
_MOST_SESSIONS = 500
_MOST_MESSAGES = 5_000
#: How often sessions that turn out to differ are copied again.
_ATTEMPTS = 2
_AGAIN = "Run the same command again: it goes on with what is missing."

#: The fact that names the source of a copy that is not complete.
FILLED_FROM = "filled_from"
LEDGER_COLUMNS = ("day", "source", "model", *COUNTS)
MESSAGE_COLUMNS = ("session", "number", "role", "timestamp", "form", "body", "fields")
_PINNED = 1 + SESSION_COLUMNS.index("pinned")
_RELEASED = LEASE_COLUMNS.index("released")
#: Where a head has the number of its messages.
_COUNT = 1 + SESSION_COLUMNS.index("message_count")

#: The number of a session, then its columns as in `SESSION_COLUMNS`.
Head = tuple[Any, ...]
#: Session, number, role, time, form, body, fields; the last two as bytes.
MessageRow = tuple[int, int, str, float, int, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What lies beside sessions and messages, small, and changing at any time: rows in the order
    of their columns. `ledger` is by day, source and model."""

    parents: Sequence[tuple[int, int]]
    routes: Sequence[tuple[Any, ...]]
    leases: Sequence[tuple[Any, ...]]
    guarded: Sequence[tuple[Any, ...]]
    ledger: Sequence[tuple[Any, ...]]


def head(row: Sequence[Any]) -> Head:
    """As both kinds of store can hold it."""
    texts = (storable(each) if isinstance(each, str) else each for each in row)
    return tuple(bool(each) if place == _PINNED else each for place, each in enumerate(texts))


def beside(
    parents: Iterable[Sequence[Any]],
    routes: Iterable[Sequence[Any]],
    leases: Iterable[Sequence[Any]],
    guarded: Iterable[Sequence[Any]],
    ledger: Iterable[Sequence[Any]],
) -> Beside:
    """As both kinds of store can hold it, in one order."""
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
    """A store at one moment."""

    @property
    def place(self) -> str: ...

    def heads(self) -> Iterator[Head]:
        """By number."""

    def messages(self, sessions: Sequence[int] | None = None) -> Iterator[MessageRow]:
        """Of all sessions or of some, by session and number."""

    def beside(self) -> Beside: ...

    def filled_from(self) -> str | None:
        """The store that this one is still being filled from, if any."""

    def has_changed(self) -> bool:
        """Whether somebody wrote to it since this moment."""


class Target(Source, Protocol):
    """A store that is being filled, as it is now."""

    def begin(self, source: str) -> None:
        """Note where it is filled from. Only for a store without sessions."""

    def put(self, heads: Sequence[Head], messages: Iterable[MessageRow]) -> None:
        """Sessions with their messages; those that are there already are replaced."""

    def drop(self, sessions: Sequence[int]) -> None: ...

    def put_beside(self, beside: Beside) -> None:
        """In place of what is there."""

    def finish(self) -> None:
        """It is whole."""

    def index(self) -> Iterator[int]:
        """Index messages for search, some at a time; how many wait still. May end at any time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What is in both stores now, with a checksum of all of it; `moved` are the sessions that were
    not there before. `changed` says that the source was written to meanwhile."""

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
            f"{target.place} does not hold what {source.place} holds.",
            hint=f"Does somebody write to it? {_AGAIN}",
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
    """Every head and every message of both."""
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
    """Each session with messages, how many, and their checksum."""
    for session, messages in groupby(rows, key=itemgetter(0)):
        digest, count = hashlib.sha256(), 0
        for row in messages:
            count += 1
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
        yield session, count, digest.digest()

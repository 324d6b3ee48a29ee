"""Messages before they are rows: checks what a host appends, computes the totals of the session
afterwards, and defines what replacing messages means."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from holdfast.errors import UsageError
from holdfast.model.arguments import mapping, shown
from holdfast.model.session import COMPACTED, TAKEN_BACK, Addition, Message, Session, by_count
from holdfast.policy.budgets import COUNT, is_count
from holdfast.stores.sessions import content
from holdfast.value import dataclass, replace

#: Larger than any time or cost in practice, and fits a 64-bit integer column.
_LARGEST = 1e18
#: The first page is small: most readers want only a few messages.
_FIRST_PAGE = 50
_PAGE = 500
#: Reads rows that start with their numbers. Takes two exclusive bounds and the most rows to return.
Pages = Callable[[int, int, int], Sequence[Sequence[Any]]]


def paged(
    read: Pages, *, after: int, before: int, limit: int | None, newest_first: bool
) -> Iterator[Sequence[Any]]:
    """Rows between two numbers, page by page so that no reader blocks a checkpoint for long."""
    remaining = limit
    for size in itertools.chain([_FIRST_PAGE], itertools.repeat(_PAGE)):
        most = size if remaining is None else min(size, remaining)
        rows = read(after, before, most) if most > 0 else ()
        yield from rows
        if len(rows) < most or most <= 0:
            return
        remaining = None if remaining is None else remaining - len(rows)
        if newest_first:
            before = rows[-1][0]
        else:
            after = rows[-1][0]


def checked(message: Message) -> Message:
    """Return a valid message. A host's errors are reported here, before anything is written."""
    if not isinstance(message.role, str):
        raise UsageError(f"The role of a message must be text, not {shown(message.role)}.")
    if not message.role:
        raise UsageError("A message needs a role.")
    for count in message.usage.counts:
        if not is_count(count):
            raise UsageError(
                f"`tokens` of a message must be {COUNT}, or Tokens(…) of such numbers, not "
                f"{shown(count)}."
            )
    # A valid cost may exceed any budget. NaN fails this check.
    cost, timestamp = message.cost, message.timestamp
    if cost is not None and not (_is_number(cost) and 0 <= cost <= _LARGEST):
        raise UsageError(
            f"`cost` of a message must be a finite number of 0 or more, not {shown(cost)}."
        )
    if timestamp is not None and not (_is_number(timestamp) and abs(timestamp) <= _LARGEST):
        raise UsageError(
            f"`timestamp` of a message must be a time in epoch seconds, not {shown(timestamp)}.",
            hint="For a datetime, pass `when.timestamp()`.",
        )
    mapping(message.extra, "The extra fields of a message")
    return message


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def with_totals(
    before: Session, rows: Sequence[tuple[Message, content.Row]], now: float
) -> Session:
    tokens, unpriced = before.tokens, before.unpriced
    active = before.last_active_at
    for message, _ in rows:
        tokens = tokens.plus(message.usage)
        unpriced = unpriced.plus(message.unpriced)
        timestamp = now if message.timestamp is None else message.timestamp
        # Never later than now: a clock that jumped ahead must not keep the session alive forever.
        active = min(max(active, timestamp), now)
    return replace(
        before,
        last_active_at=active,
        message_count=before.message_count + sum(not m.taken_back for m, _ in rows),
        tool_call_count=before.tool_call_count + sum(m.tool_call_count for m, _ in rows),
        tokens=tokens,
        cost=before.cost + sum(message.cost or 0.0 for message, _ in rows),
        unpriced=unpriced,
        bytes=before.bytes + sum(row.size for _, row in rows),
    )


def without(after: Session, rows: Sequence[tuple[Message, content.Row]]) -> Session:
    """The totals of a session before these messages were added."""
    nothing = Session(id="", source="", started_at=0.0, last_active_at=0.0)
    sums = with_totals(nothing, rows, 0.0)
    return replace(
        after,
        message_count=after.message_count - sums.message_count,
        tool_call_count=after.tool_call_count - sums.tool_call_count,
        tokens=by_count(after.tokens, sums.tokens, operator.sub),
        cost=after.cost - sums.cost,
        unpriced=by_count(after.unpriced, sums.unpriced, operator.sub),
        bytes=after.bytes - sums.bytes,
    )


def used(before: Session, after: Session) -> bool:
    """True if there is usage to book: most messages of most agents use nothing, and then no page of
    the ledger is touched."""
    return after.tokens != before.tokens or after.cost != before.cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The effect of a replacement on the messages after a number."""

    #: The number of given messages that are already stored at the right place.
    kept: int
    #: The rest, in order: the number of a stored message that only moves, or a new message and its
    #: row.
    rest: Sequence[int | tuple[Message, content.Row]]
    #: Stored messages that are not among the given ones.
    dropped: Mapping[int, Message]

    @property
    def new(self) -> list[tuple[Message, content.Row]]:
        return [each for each in self.rest if not isinstance(each, int)]

    @property
    def replaced(self) -> int:
        return len(self.dropped) + len(self.rest) - len(self.new)


def replacement(
    known: Collection[int],
    stored: Mapping[int, Message],
    given: Sequence[tuple[Message, content.Row]],
) -> Replacement:
    """Compare the stored messages with the ones that should replace them. `known` are those of the
    given numbers that belong to messages of the session, current or not.

    A given message that equals a stored one, number included, is kept: its usage is already
    counted. A message that was changed, or that is history, becomes a new message; its usage stays
    with the old one.
    """
    pairs = zip(stored.items(), given, strict=False)
    same = itertools.takewhile(lambda pair: pair[0] == (pair[1][0].number, pair[1][0]), pairs)
    kept = len(list(same))
    dropped = dict(itertools.islice(stored.items(), kept, None))
    rest: list[int | tuple[Message, content.Row]] = []
    for message, row in given[kept:]:
        if message.number in dropped and dropped[message.number] == message:
            rest.append(message.number)
            del dropped[message.number]
        elif message.number in known:
            extra = {k: v for k, v in message.extra.items() if k not in (TAKEN_BACK, COMPACTED)}
            again = replace(message, tokens=None, cost=None, extra=extra)
            rest.append((again, content.encode(again)))
        else:
            rest.append((message, row))
    return Replacement(kept=kept, rest=rest, dropped=dropped)


def replaced(
    before: Session,
    change: Replacement,
    numbers: Sequence[int],
    *,
    grown: int,
    mark: str,
    now: float,
) -> Addition:
    """The session after a stored replacement. `numbers` are the numbers of the given messages now;
    messages that became history were marked and are `grown` bytes larger."""
    summed = with_totals(before, change.new, now)
    unsaid = len(change.dropped) if mark == TAKEN_BACK else 0
    after = replace(
        summed,
        message_count=summed.message_count - unsaid,
        bytes=summed.bytes + grown,
        last_active_at=_later(before.last_active_at, now),
    )
    return Addition(
        numbers=tuple(numbers),
        before=before,
        after=after,
        kept=change.kept,
        replaced=change.replaced,
    )


def not_replaced(rows: Iterable[Sequence[Any]]) -> dict[int, Message]:
    """Those of these messages that were not replaced, by number."""
    found = (content.decode(*row) for row in rows)
    return {message.number or 0: message for message in found if not message.replaced}


def without_model(rows: Iterable[Sequence[Any]]) -> list[Message]:
    """Those of these messages that used something without naming the model."""
    found = (content.decode(*row) for row in rows)
    return [each for each in found if each.model is None and (each.usage.any or each.cost)]


def _later(before: float, now: float) -> float:
    """The time of a change that may not change the number of messages: always later than the last
    one, so that the session's version changes, whatever the clock says."""
    return max(now, math.nextafter(before, math.inf))

"""What a session may use: the limits that a guard enforces, the usage figures that a host may
report, and the time that a session was at work. 0 turns a limit off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from holdfast.errors import UsageError
from holdfast.model.arguments import shown
from holdfast.model.guard import Guarded, Sample, Work
from holdfast.model.session import Tokens
from holdfast.value import dataclass, field, fields

#: A larger figure is a mistake, and sums of such figures would exceed what the store can hold.
MOST_TOKENS = 10**12
MOST_COST = 1e9
#: What `is_count` accepts, in words.
COUNT = f"a whole number from 0 to {MOST_TOKENS:,}"
MINUTE = 60.0


class Budget(StrEnum):
    """The budgets, by their names in `Budgets`, errors, alerts and end reasons."""

    TOKENS_IN = "tokens_in"
    TOKENS_OUT = "tokens_out"
    TOKENS = "tokens"
    COST = "cost"
    ITERATIONS = "iterations"
    WALL_SECONDS = "wall_seconds"
    MESSAGES_PER_MINUTE = "messages_per_minute"
    DAILY_TOKENS = "daily_tokens"
    DAILY_COST = "daily_cost"


#: The budgets that need not be whole numbers.
_FRACTIONS = frozenset({Budget.COST, Budget.WALL_SECONDS, Budget.DAILY_COST})
_BUDGETS = tuple((budget, budget.value) for budget in Budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Limits for one session, and for one UTC day over all sessions; 0 means no limit.

    `tokens` counts input and output together. `wall_seconds` counts the time in which the session
    was at work. There is one warning at each of the `warn_shares` of a limit.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    tokens: int = 0
    cost: float = 0.0
    iterations: int = 0
    wall_seconds: float = 0.0
    messages_per_minute: int = 0
    daily_tokens: int = 0
    daily_cost: float = 0.0
    warn_shares: tuple[float, ...] = (0.8,)

    def __post_init__(self) -> None:
        for budget in Budget:
            limit = getattr(self, budget)
            most = MOST_COST if budget in (Budget.COST, Budget.DAILY_COST) else MOST_TOKENS
            if not _is_number(limit) or (budget not in _FRACTIONS and limit != int(limit)):
                kind = "number" if budget in _FRACTIONS else "whole number"
                raise UsageError(f"The budget `{budget}` must be a {kind}, not {shown(limit)}.")
            if not 0 <= limit <= most:
                raise UsageError(
                    f"The budget `{budget}` must be from 0 to {most:,.0f}, not {shown(limit)}.",
                    hint="0 turns a budget off.",
                )
        if not isinstance(self.warn_shares, Iterable):
            raise UsageError(f"`warn_shares` must be a list, not {self.warn_shares!r}.")
        for share in self.warn_shares:
            if not _is_number(share) or not 0 < share < 1:
                raise UsageError(f"A share to warn at must be between 0 and 1, not {share!r}.")

    @property
    def of_day(self) -> bool:
        """True if there is a daily limit."""
        return bool(self.daily_tokens or self.daily_cost)

    def limits(self) -> Iterator[tuple[Budget, float]]:
        """The limits that are set."""
        for budget, name in _BUDGETS:
            limit: float = getattr(self, name)
            if limit:
                yield budget, limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """After how many calls in a row each level of advice is given; 0 means never."""

    nudge: int = 3
    strong_nudge: int = 6
    stop: int = 9

    def __post_init__(self) -> None:
        given = [getattr(self, each.name) for each in fields(self)]
        if any(not isinstance(each, int) or each < 0 for each in given):
            raise UsageError(f"Thresholds must be whole numbers of calls, 0 or more, not {given}.")
        rising = [each for each in given if each]
        if rising != sorted(set(rising)):
            raise UsageError(f"Thresholds must increase, zeros aside, not {given}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardOptions:
    """How a guard behaves. For a session of a source in `by_source`, those limits replace the ones
    of `everywhere`. Its daily limits apply to that source alone; those of `everywhere` still limit
    the day of all sources together.

    `breaker` counts tool errors in a row, `same_call` calls of one tool in a row with the same
    arguments, `same_tool` with any arguments. Between two calls at most `idle_after` seconds count
    as wall time: a session that waits for its user is not at work.
    """

    everywhere: Budgets = field(default_factory=Budgets)
    by_source: Mapping[str, Budgets] = field(default_factory=dict)
    breaker: Thresholds = field(default_factory=Thresholds)
    same_call: Thresholds = field(default_factory=Thresholds)
    same_tool: Thresholds = field(
        default_factory=lambda: Thresholds(nudge=20, strong_nudge=40, stop=0)
    )
    idle_after: float = 300.0

    def __post_init__(self) -> None:
        if not _is_number(self.idle_after) or self.idle_after < 0:
            raise UsageError(
                f"`idle_after` must be a number of seconds, 0 or more, not {self.idle_after}."
            )

    def budgets_of(self, source: str) -> Budgets:
        """The limits of a session of this source."""
        return self.by_source.get(source, self.everywhere)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def checked_tokens(tokens: Tokens | None) -> Tokens:
    """The tokens that a host reports; None means nothing was used. A bare number is refused,
    because it could be input or output."""
    if tokens is None:
        return Tokens()
    if not isinstance(tokens, Tokens):
        raise UsageError(
            f"Tokens of a call must be given as Tokens(input=…, output=…), not as {shown(tokens)}."
        )
    for count in tokens.counts:
        if not is_count(count):
            raise UsageError(f"Each count of Tokens(…) must be {COUNT}, not {shown(count)}.")
    return tokens


def checked_cost(cost: float) -> float:
    if not _is_number(cost) or not 0 <= cost <= MOST_COST:
        raise UsageError(f"`cost` must be a number from 0 to {MOST_COST:,.0f}, not {shown(cost)}.")
    return float(cost)


def is_count(value: object) -> bool:
    """True for a valid count. A host may pass on whatever a provider sent: text, true, a
    fraction."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS


#: A sample closer to the last one than this adds nothing, so there are about sixty at most.
_APART = 1.0


def ticked(
    work: Work, *, boot: str, at: float, messages: int, in_flight: bool, idle_after: float
) -> Work:
    """What to remember after a look at the clock. `in_flight` means that a call was running until
    then.

    `at` is a time of the monotonic clock, which counts from boot, is the same for all processes of
    the machine, and cannot be set. A pause without a call in flight counts up to `idle_after`.
    After a reboot, or if the clock went back, the time since the last look is unknown and does not
    count.
    """
    goes_on = work.boot == boot and work.ticked is not None and at >= work.ticked
    passed = at - work.ticked if goes_on and work.ticked is not None else 0.0
    counted = passed if in_flight else min(passed, idle_after)
    before = work.guarded
    return Work(
        guarded=Guarded(
            iterations=before.iterations, seconds=before.seconds + counted, booked=before.booked
        ),
        boot=boot,
        ticked=at,
        samples=sampled(work.samples if goes_on else (), at, messages),
        warned=work.warned,
    )


def in_last_minute(samples: Sequence[Sample], at: float, messages: int) -> int:
    """The number of messages in the last minute, for a session that now has `messages`. Between two
    samples, messages are assumed to be evenly spread. Those from before the first sample do not
    count: their times are unknown."""
    if not samples:
        return 0
    start = at - MINUTE
    before = [sample for sample in samples if sample.at <= start]
    if not before:
        return messages - samples[0].messages
    old = before[-1]
    later = (sample for sample in samples if sample.at > start)
    new = next(later, Sample(at=at, messages=messages))
    share = (start - old.at) / (new.at - old.at)
    return messages - math.ceil(old.messages + share * (new.messages - old.messages))


def sampled(samples: tuple[Sample, ...], at: float, messages: int) -> tuple[Sample, ...]:
    """The samples with this one added: those of the last minute, and the one before them."""
    if not samples:
        return (Sample(at=at, messages=messages),)
    start = at - MINUTE
    adds = at - samples[-1].at >= _APART
    if not adds and (len(samples) == 1 or samples[1].at > start):
        return samples  # the same object, so that nothing has to be stored
    inside = [sample for sample in samples if sample.at > start]
    before = [sample for sample in samples if sample.at <= start][-1:]
    if adds:
        inside.append(Sample(at=at, messages=messages))
    return (*before, *inside)

"""Supervise a running command, and stop it when it exceeds a limit.

Its usage is read from the sessions that its agent writes, so it is known as soon as the agent has
written it. Reading is costly: the pause between two reads is ten times as long as the last one
took.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from holdfast.errors import HoldfastError, UsageError
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import several, shown, text
from holdfast.model.durations import parse_duration
from holdfast.model.text import format_cost, format_count, format_duration, one_line
from holdfast.ports.runs import Clock
from holdfast.value import dataclass, replace

_MONEY = r"\$?(\d+(?:\.\d+)?)\s*(?:usd|\$)?"
_TOKENS = r"(\d+(?:\.\d+)?)\s*([km]?)\s*(?:tokens?|tok)"
_NO_TIME = r"0+(?:\.0+)?"
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_LOOK_EVERY = 1.0
_SHARE_OF_TIME = 10
#: Each signal, and how long to wait for everything to end before the next one.
_STOPS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
_STEP = 0.05
#: Tolerance for rounding errors in sums of costs: three times 0.1 is more than 0.3.
_ROUNDING = 1e-9


class Attended(Protocol):
    """A command with all processes that it started."""

    def wait(self, seconds: float) -> int | None: ...

    def signal(self, number: int) -> None: ...

    def alive(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What the agents of a run used. `known` is the cost, or a lower bound of it if `unpriced` has
    models without a price. `unread` lists what could not be counted."""

    tokens: int = 0
    known: float = 0.0
    sessions: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def cost(self) -> float | None:
        return None if self.unpriced else self.known

    @property
    def in_words(self) -> str:
        """`10 tokens, $0.50, in 1 session`, and which part of the cost is unknown."""
        tokens = format_count(self.tokens, "token")
        sessions = format_count(len(self.sessions), "session")
        cost = f", {self.cost_in_words}," if self.known or not self.unpriced else ""
        used = f"{tokens}{cost} in {sessions}"
        if not self.unpriced:
            return used
        whose = "the cost of the rest" if self.known else "their cost"
        models = ", ".join(map(one_line, self.unpriced))
        return f"{used}; {whose} is unknown: no price for {models}"

    @property
    def cost_in_words(self) -> str:
        return f"{'at least ' if self.unpriced else ''}{format_cost(self.known)}"


def _only_one(given: dict[str, str], unit: str, budget: str) -> None:
    if before := given.get(unit):
        raise UsageError(
            f"Two budgets in {unit}: {before!r} and {budget!r}.", hint="Give only one of them."
        )
    given[unit] = budget


def _seconds(duration: str) -> float:
    """Parse a duration. "0" needs no unit, because it is refused anyway."""
    return 0.0 if re.fullmatch(_NO_TIME, duration.strip()) else parse_duration(duration)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits of a run; None for no limit. With `strict`, a run is stopped when a limit cannot
    be checked."""

    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    strict: bool = True

    def __post_init__(self) -> None:
        for what, limit in (
            ("token budget", self.tokens),
            ("budget", self.cost),
            ("time limit", self.seconds),
        ):
            if limit is not None and not isinstance(limit, int | float):
                raise UsageError(f"A {what} must be a number, not {shown(limit)}.")
            if limit is not None and not 0 < limit < float("inf"):
                raise UsageError(
                    f"A {what} must be more than 0.", hint="Leave it out for no limit."
                )

    @classmethod
    @checked
    def read(
        cls, budgets: Iterable[str] = (), *, max_time: str | None = None, strict: bool = True
    ) -> RunLimits:
        """Parse limits such as "5USD" and "500ktokens", and a `max_time` such as "2h"."""
        cost: float | None = None
        tokens: int | None = None
        given: dict[str, str] = {}
        for each in several(budgets):
            compact = text(each, "A budget").strip().lower()
            if match := re.fullmatch(_TOKENS, compact):
                _only_one(given, "tokens", each)
                tokens = round(float(match[1]) * _TIMES[match[2]])
            elif (match := re.fullmatch(_MONEY, compact)) and match[0] != match[1]:
                _only_one(given, "money", each)
                cost = float(match[1])
            elif match:
                raise UsageError(
                    f"{each!r} has no unit: it could mean {each} US dollars or {each} tokens.",
                    hint=f"Write {each}USD or {each}tokens.",
                )
            else:
                raise UsageError(f"{each!r} is not a budget.", hint="Write 5USD or 500ktokens.")
        seconds = None if max_time is None else _seconds(max_time)
        return cls(tokens=tokens, cost=cost, seconds=seconds, strict=strict)

    @property
    def on_spending(self) -> bool:
        return self.tokens is not None or self.cost is not None

    def exceeded(self, spent: Spent, ran: float) -> str | None:
        """Return why a run has to stop; None while it may go on."""
        if self.seconds is not None and ran >= self.seconds:
            return (
                f"it ran for {format_duration(ran)}, the limit is {format_duration(self.seconds)}"
            )
        if self.tokens is not None and spent.tokens >= self.tokens:
            return f"it used {spent.tokens:,} tokens, the budget is {self.tokens:,}"
        if self.cost is None:
            return self._unchecked(spent) if self.tokens is not None else None
        if spent.known >= self.cost * (1 - _ROUNDING):
            return f"it cost {spent.cost_in_words}, the budget is {format_cost(self.cost)}"
        return self._unchecked(spent)

    def _unchecked(self, spent: Spent) -> str | None:
        doubt = self.doubt(spent)
        return f"its budget cannot be checked: {doubt}" if self.strict and doubt else None

    def doubt(self, spent: Spent) -> str | None:
        """Return why the budget cannot be checked; None if it can."""
        if self.cost is not None and spent.unpriced:
            models = ", ".join(spent.unpriced)
            return f"{models} {'has' if len(spent.unpriced) == 1 else 'have'} no price"
        return f"{spent.unread[0]} cannot be read" if self.on_spending and spent.unread else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended. `stopped` is why we stopped it, "" if it ended by itself, and `signal` the
    signal that ended it. `seconds` is how long it ran, including the time to stop it. `left` is
    True if a process that it started still runs."""

    code: int
    seconds: float
    spent: Spent
    stopped: str = ""
    signal: str = ""
    left: bool = False


def attend(
    group: Attended,
    limits: RunLimits,
    spent: Callable[[], Spent],
    *,
    told: Callable[[str], None] = lambda _: None,
    monotonic: Clock = time.monotonic,
) -> Ending:
    """Wait for a command, and stop it if it exceeds its limits. `told` is called with messages for
    the user."""
    began = monotonic()
    used, pause, warned = Spent(), _LOOK_EVERY, ""
    while True:
        left = None if limits.seconds is None else limits.seconds - (monotonic() - began)
        code = group.wait(max(0.0, pause if left is None else min(pause, left)))
        looked = monotonic()
        if code is not None or limits.on_spending:
            used = _looked(spent, used)
            pause = max(_LOOK_EVERY, _SHARE_OF_TIME * (monotonic() - looked))
        ran = monotonic() - began
        if code is not None:
            return Ending(code=code, seconds=ran, spent=used, left=group.alive())
        if why := limits.exceeded(used, ran):
            told(f"stopping the command: {why}")
            ended, last, left_over = _stop(group, monotonic)
            return Ending(
                code=ended,
                seconds=monotonic() - began,
                spent=_looked(spent, used),
                stopped=why,
                signal=last.name,
                left=left_over,
            )
        doubt = limits.doubt(used) or ""
        if doubt and doubt != warned:
            told(f"the budget cannot be checked, but the command keeps running: {doubt}")
            warned = doubt


def _looked(spent: Callable[[], Spent], last: Spent) -> Spent:
    """Read the usage. If that fails, for example on a full disk, the last usage is returned, marked
    as incomplete: the command is still supervised."""
    try:
        return spent()
    except HoldfastError as error:
        return replace(last, unread=(f"its usage ({error.message})",))


def _stop(group: Attended, monotonic: Clock) -> tuple[int, signal.Signals, bool]:
    """End the command with everything it started. Returns its exit code, the signal that ended it,
    and whether a process survived even SIGKILL."""
    code: int | None = None
    for number, patience in _STOPS:
        group.signal(number)
        until = monotonic() + patience
        while monotonic() < until:
            code = group.wait(_STEP) if code is None else code
            if code is not None and not group.alive():
                return code, number, False
            if code is not None:
                time.sleep(_STEP)
    return 128 + signal.SIGKILL if code is None else code, signal.SIGKILL, True

"""One object around the loop of an agent, for one session.

Whether a call is permitted is decided and recorded in one transaction of the store. So of two
threads or processes one comes first, and the other sees what the first was permitted. Nothing is
kept only in memory, so a restart cannot reset a budget.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from holdfast.errors import (
    BudgetExceededError,
    HoldfastError,
    SessionEndedError,
    UnknownCostError,
    UsageError,
)
from holdfast.guard.call import Call
from holdfast.model.append import Appended
from holdfast.model.argument_checks import called, checked, made_by
from holdfast.model.guard import Advice, Alert, Estimate, Reservation, Standing, Work
from holdfast.model.session import Addition, EndReason, Message, Session, Tokens
from holdfast.model.usage import Usage
from holdfast.policy import budget_check
from holdfast.policy.budget_check import Measure, warnings
from holdfast.policy.budget_headroom import Headroom
from holdfast.policy.budgets import (
    MINUTE,
    Budgets,
    GuardOptions,
    checked_cost,
    checked_tokens,
    ticked,
)
from holdfast.policy.circuit_breaker import (
    Run,
    breaker_advice,
    errors_after,
    fingerprint,
    fixation_advice,
)
from holdfast.policy.prices import Prices
from holdfast.ports.runs import Clock
from holdfast.ports.sessions import GuardBook
from holdfast.ports.upkeep import Processes
from holdfast.value import dataclass, replace

#: Longer than any call. Used only for processes on another machine or in another container, where
#: we cannot check whether they are alive.
_FOREIGN_SECONDS = 60 * MINUTE
_UNKNOWN = Estimate()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRules:
    """The budgets that a guard enforces. `own` are the limits of this session, which replace those
    of its source."""

    options: GuardOptions
    prices: Prices
    own: Budgets | None = None

    def __post_init__(self) -> None:
        if self.own is not None and self.own.of_day:
            raise UsageError(
                "A daily budget covers many sessions; it cannot be set for a single one.",
                hint="Set it in the configuration, or in `GuardOptions`.",
            )

    def bounds_days(self, source: str) -> bool:
        sources = (self.options.everywhere, self.options.budgets_of(source))
        return any(budgets.of_day for budgets in sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """The decision about a call: its reservation, or why it was refused."""

    reservation: int = 0
    refusal: HoldfastError | None = None
    ended: bool = False
    alerts: Sequence[Alert] = ()


@made_by("`home.sessions.guard(session)`")
@called("guard")
@checked
class Guard:
    """The guard of one session. Safe to share between threads; other processes have their own."""

    def __init__(  # noqa: PLR0913 - all but three are named
        self,
        book: GuardBook,
        processes: Processes,
        session: Session,
        *,
        rules: GuardRules,
        clock: Clock,
        monotonic: Clock,
        tell: Callable[[Alert], None],
        on_end: Callable[[str], None],
        store: Callable[[Sequence[Message], float, Callable[[Addition], None]], Appended],
        on_refusal: Callable[[], None] = lambda: None,
    ) -> None:
        self.session_id = session.id
        self._bounds_days = rules.bounds_days(session.source)
        self._book = book
        self._processes = processes
        self._rules = rules
        self._headroom = Headroom(rules.options, rules.prices, session.source, own=rules.own)
        self._clock = clock
        self._monotonic = monotonic
        self._tell = tell
        self._on_end = on_end
        self._store = store
        self._on_refusal = on_refusal
        self._lock = threading.Lock()
        self._errors = 0
        self._run = Run()

    def call(self, *, tokens: Tokens | None = None, cost: float = 0.0) -> Call:
        """One call of the model, or one turn of the loop: `with guard.call() as call:`.

        Entering the block raises `BudgetExceededError` when the call would exceed a budget; the
        session has ended then. `tokens` and `cost` are the most that the call may use, if you know
        that: they count against the budgets until the call is over.
        """
        if tokens is None and type(cost) is float and not cost:
            return Call(self, _UNKNOWN)
        return Call(self, Estimate(tokens=checked_tokens(tokens), cost=checked_cost(cost)))

    def measures(self) -> Sequence[Measure]:
        """How much of each of its budgets the session has used. Changes nothing."""
        now = self._clock()
        standing = self._seen(now)
        return self._measured(self._ticked(standing))

    def tool_result(self, tool: str, arguments: object = None, *, failed: bool) -> Advice:
        """Report every tool call when it is over, in any order.

        Returns the advice of the breaker or of the check for fixation, whichever is stronger:
        `text` is for the model, `level` for you. A success ends a run of errors, another tool ends
        a fixation.
        """
        arguments_seen = fingerprint(arguments)
        options = self._rules.options
        with self._lock:
            self._errors = errors_after(self._errors, failed=failed)
            self._run = self._run.after(tool, arguments_seen)
            errors, run = self._errors, self._run
        broken = breaker_advice(errors, tool, options.breaker)
        fixed = fixation_advice(run, same_call=options.same_call, same_tool=options.same_tool)
        return broken if broken.level >= fixed.level else fixed

    # --- For `Call` -------------------------------------------------------------------------------

    def begin(self, estimate: Estimate) -> int:
        """Reserve a call or refuse it. Returns the number of the reservation."""
        now = self._clock()
        # Other processes see it at once, and it survives this process. It reaches the disk in a
        # moment, while the request is in progress; a power failure before that ends the call as
        # well.
        with self._book.transaction(flushed=False):
            decided = self._decide(estimate, now)
        if decided.alerts or decided.ended:
            with self._book.transaction():
                pass  # flushes what was just decided
        self._tell_all(decided.alerts)
        if decided.ended:
            self._on_end(self.session_id)
        if decided.refusal is not None:
            self._on_refusal()
            raise decided.refusal
        return decided.reservation

    def settle(self, reservation: int | None, usage: Usage | None, model: str | None) -> None:
        """End a call and book what it used, even if the session has ended meanwhile: the call was
        permitted before, and was paid for."""
        self._settle(reservation, [] if usage is None else [(usage, model or None)])

    def append(self, reservation: int | None, messages: Sequence[Message]) -> Appended:
        """End a call and store its reply."""
        now = self._clock()
        today = now if self._bounds_days else None
        alerts: list[Alert] = []

        def end(added: Addition) -> None:
            alerts[:] = self._end(reservation, now, session=added.after)

        try:
            with self._book.before_append(today=today):
                appended = self._store(messages, now, end)
        except SessionEndedError:
            self._settle(reservation, [(_usage(each), each.model) for each in messages])
            raise
        self._tell_all(alerts)
        return appended

    def _settle(self, reservation: int | None, used: Sequence[tuple[Usage, str | None]]) -> None:
        now = self._clock()
        with self._book.transaction():
            alerts = self._end(reservation, now, used)
        self._tell_all(alerts)

    # --- Inside a transaction ---------------------------------------------------------------------

    def _decide(self, estimate: Estimate, now: float) -> _Decided:
        seen = self._seen(now)
        standing = self._ticked(self._swept(seen, now))
        if not standing.session.ended and self._is_quiet(standing, estimate):
            return self._begun(standing, estimate, now, was=seen.work)
        found = self._measured(standing)
        if standing.session.ended:
            return _Decided(refusal=_already_ended(standing, found), ended=True)
        passed = budget_check.refusal(found, estimate)
        if passed is not None:
            alerts = self._warned(standing.work, found, now, was=seen.work, passed=passed)
            self._book.end(self.session_id, budget_check.end_reason(passed.budget), at=now)
            return _Decided(refusal=_over_budget(standing, passed), ended=True, alerts=alerts)
        unknown = budget_check.unknown_cost(found)
        if unknown is not None:
            return _Decided(refusal=_cost_unknown(standing, unknown))
        after = budget_check.with_iteration(found)
        return self._begun(standing, estimate, now, was=seen.work, found=after)

    def _begun(
        self,
        standing: Standing,
        estimate: Estimate,
        now: float,
        *,
        was: Work,
        found: Sequence[Measure] = (),
    ) -> _Decided:
        """Reserve a permitted call. `found` are the measures that may need a warning."""
        holder = self._processes.this_process()
        reservation = self._book.reserve(self.session_id, holder, estimate, now=now)
        work = standing.work.with_iteration()
        return _Decided(reservation=reservation, alerts=self._warned(work, found, now, was=was))

    def _end(
        self,
        reservation: int | None,
        now: float,
        used: Sequence[tuple[Usage, str | None]] = (),
        session: Session | None = None,
    ) -> Sequence[Alert]:
        """End a call. Returns the alerts to send."""
        seen = self._seen(now, session)
        standing = self._ticked(self._swept(seen, now))
        if reservation is not None:
            self._book.give_up([reservation])
            left = tuple(each for each in standing.in_flight if each.number != reservation)
            standing = Standing(
                session=standing.session, work=standing.work, in_flight=left, day=standing.day
            )
        if used:
            standing = self._booked(standing, used, now)
        found = () if self._is_quiet(standing, _UNKNOWN) else self._measured(standing)
        return self._warned(standing.work, found, now, was=seen.work)

    def _booked(
        self, standing: Standing, used: Sequence[tuple[Usage, str | None]], now: float
    ) -> Standing:
        work, usual = standing.work, standing.session.model or ""
        for usage, model in used:
            of = usual if model is None else model
            priced = self._priced(usage, usual, of)
            work = self._book.book(standing.session, work, priced, model=of, now=now)
        return replace(self._seen(now), work=work)

    def _seen(self, now: float, session: Session | None = None) -> Standing:
        today = now if self._bounds_days else None
        return self._book.standing(self.session_id, today=today, session=session)

    def _swept(self, standing: Standing, now: float) -> Standing:
        """The standing without the calls of dead processes, which must not count for ever."""
        dead = [each.number for each in standing.in_flight if self._is_over(each, now)]
        if not dead:
            return standing
        self._book.give_up(dead)
        alive = tuple(each for each in standing.in_flight if each.number not in set(dead))
        return replace(standing, in_flight=alive)

    def _is_over(self, reservation: Reservation, now: float) -> bool:
        here = self._processes.this_process()
        if reservation.holder == here:
            return False
        if not here.host or reservation.holder.host != here.host:
            # Also over if its time is in the future: that clock was set back, or differs from ours.
            return abs(now - reservation.made_at) > _FOREIGN_SECONDS
        return self._processes.is_dead(reservation.holder)

    def _ticked(self, standing: Standing) -> Standing:
        mine = any(each.session_id == self.session_id for each in standing.in_flight)
        work = ticked(
            standing.work,
            boot=self._processes.this_process().boot,
            at=self._monotonic(),
            messages=standing.session.message_count,
            in_flight=mine,
            idle_after=self._rules.options.idle_after,
        )
        return Standing(
            session=standing.session, work=work, in_flight=standing.in_flight, day=standing.day
        )

    def _is_quiet(self, standing: Standing, estimate: Estimate) -> bool:
        """True if there is nothing to refuse, nothing to warn about, and no earlier warning to
        withdraw."""
        work = standing.work
        return not work.warned and self._headroom.suffices(
            standing, estimate, at=work.ticked or 0.0
        )

    def _measured(self, standing: Standing) -> tuple[Measure, ...]:
        rules = self._rules
        return budget_check.measures(
            rules.options, standing, rules.prices, own=rules.own, at=standing.work.ticked or 0.0
        )

    def _warned(
        self,
        work: Work,
        found: Sequence[Measure],
        now: float,
        *,
        was: Work,
        passed: Measure | None = None,
    ) -> Sequence[Alert]:
        """The alerts to send now. Records that they were sent, and the work of the session."""
        daily = [each for each in found if each.is_daily] if self._bounds_days else []
        own = [each for each in found if not each.is_daily] if daily else found
        of_session = warnings(self.session_id, own, work.warned, passed=passed)
        if of_session.told != work.warned:
            work = replace(work, warned=of_session.told)
        self._book.keep(self.session_id, work, was=was)
        if not daily:
            return of_session.alerts
        told = self._book.warned_on(now)
        of_day = warnings(self.session_id, daily, told, passed=passed)
        fresh = [key for key in of_day.told if key not in told]
        if fresh:  # keep the warnings of other sources, which are not measured here
            self._book.warn_on(now, [*told, *fresh])
        return (*of_session.alerts, *of_day.alerts)

    def _priced(self, usage: Usage, usual: str, model: str) -> Usage:
        """Tokens of the session's own model are priced when sums are made. Tokens of another model
        are priced now, if their price is known."""
        if usage.unpriced == Tokens() or model == usual:
            return usage
        cost = self._rules.prices.cost_of(model or None, usage.unpriced)
        return usage if cost is None else Usage(tokens=usage.tokens, cost=usage.cost + cost)

    def _tell_all(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            self._tell(alert)


def _usage(message: Message) -> Usage:
    return Usage(tokens=message.usage, cost=message.cost or 0.0, unpriced=message.unpriced)


# --- Why a call is refused ------------------------------------------------------------------------


def _over_budget(standing: Standing, measure: Measure) -> BudgetExceededError:
    """The error for a call that would exceed a budget, which ends the session."""
    name = standing.session.id
    used = measure.least + measure.in_flight
    flying = f", {_amount(measure.in_flight)} of that in flight" if measure.in_flight else ""
    budget = f"its budget of {_amount(measure.limit)} {measure.words}"
    if used >= measure.limit:
        why = f"{budget} is used up ({_amount(used)}{flying})"
    else:
        why = f"the call would pass {budget} ({_amount(used)} used{flying})"
    return BudgetExceededError(
        f"Session {name} has ended: {why}.",
        session_id=name,
        budget=measure.budget,
        used=used,
        limit=measure.limit,
    )


def _already_ended(standing: Standing, found: Sequence[Measure]) -> HoldfastError:
    """The error for a session that had ended before, because of a budget or for another reason."""
    session = standing.session
    message = f"Session {session.id} has ended ({session.end_reason}); the call was not made."
    budget = budget_check.ended_by(session.end_reason)
    if budget is None and session.end_reason == EndReason.LIMIT:
        return SessionEndedError(
            message,
            hint="It was continued in a new session: `sessions.tip(session)` returns that one. "
            "Get a guard for it.",
        )
    if budget is None:
        return SessionEndedError(message, hint="Reopen it before going on with it.")
    measure = next((each for each in found if each.budget is budget), None)
    return BudgetExceededError(
        message,
        session_id=session.id,
        budget=budget,
        used=0 if measure is None else measure.least + measure.in_flight,
        limit=0 if measure is None else measure.limit,
    )


def _cost_unknown(standing: Standing, measure: Measure) -> UnknownCostError:
    session = standing.session
    of = f"model {session.model}" if session.model else "sessions without a model"
    return UnknownCostError(
        f"Session {session.id} has a budget of {_amount(measure.limit)} {measure.words}, and "
        "the cost of some of its tokens is unknown; the call was not made.",
        hint=f"Set a price for {of} under [prices], or pass the cost of each call.",
    )


def _amount(value: float) -> str:
    return f"{budget_check.shown(value):,}"

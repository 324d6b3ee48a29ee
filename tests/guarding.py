"""A guarded session on clocks that tests move."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.api.sessions import AgentSessions, open_sessions
from holdfast.errors import BudgetExceededError
from holdfast.guard.guard import Guard
from holdfast.model.guard import Alert
from holdfast.model.session import Tokens
from holdfast.policy.budgets import Budgets, GuardOptions
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.prices import Price, Prices
from holdfast.policy.session_limits import SessionLimits

#: Noon, UTC.
START = 1_774_440_000.0
PRICES = Prices(by_model={"m": Price(input=1_000_000, output=2_000_000)})


class Time:
    """A clock that tests move."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Bench:
    """A home with guarded sessions: `clock` is the one that people set, `machine` the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Time()
        self.machine = Time(1_000.0)
        self.alerts: list[Alert] = []
        self.opened: list[AgentSessions] = []

    def open(self, guards: GuardOptions | None = None, prices: Prices = PRICES) -> AgentSessions:
        sessions = open_sessions(
            self.root,
            options=SessionOptions(limits=SessionLimits(max_messages=0, max_bytes=0)),
            guards=guards or GuardOptions(),
            prices=prices,
            on_alert=self.alerts.append,
            clock=self.clock,
        )
        self.opened.append(sessions)
        return sessions

    def guard(self, sessions: AgentSessions, session_id: str, **limits: Any) -> Guard:
        budgets = Budgets(**limits) if limits else None
        return sessions.guard(session_id, budgets=budgets, monotonic=self.machine)

    def fresh(self, source: str = "cli", model: str | None = "m", **limits: Any) -> Guard:
        """The guard of a new session with these limits."""
        sessions = self.open()
        return self.guard(sessions, sessions.create(source=source, model=model).id, **limits)

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.machine.now += seconds

    def close(self) -> None:
        for sessions in self.opened:
            sessions.close()


def spend(guard: Guard, tokens_in: int = 0, tokens_out: int = 0, **more: Any) -> None:
    """One whole call."""
    with guard.call() as call:
        call.used(Tokens(input=tokens_in, output=tokens_out), **more)


def until_refused(step: Callable[[], object], *, most: int = 10_000) -> int:
    """How often something can be done before a budget refuses it."""
    for done in range(most):
        with suppress(BudgetExceededError):
            step()
            continue
        return done
    raise AssertionError("no budget refused it")

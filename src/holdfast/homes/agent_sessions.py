"""Sessions with their guards: what `open_sessions` gives to an agent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.guard.guard import Guard, GuardRules
from holdfast.model.alert import Alert
from holdfast.model.given import instance
from holdfast.policy.budgets import Budgets, GuardOptions
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.prices import Prices
from holdfast.ports import Clock, GuardBook, Processes, SessionFiles, SessionStore
from holdfast.services.sessions import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """What guards are made of."""

    book: GuardBook
    options: GuardOptions
    prices: Prices


class AgentSessions(Sessions):
    """The session store an agent embeds, and the guards around its loops."""

    def __init__(
        self,
        store: SessionStore,
        files: SessionFiles,
        processes: Processes,
        *,
        options: SessionOptions,
        clock: Clock,
        random_hex: Callable[[], str],
        on_alert: Callable[[Alert], None] | None = None,
        guarding: Guarding,
    ) -> None:
        super().__init__(
            store,
            files,
            processes,
            options=options,
            clock=clock,
            random_hex=random_hex,
            on_alert=on_alert,
        )
        self._guarding = guarding

    def guard(
        self,
        session_id: str,
        *,
        budgets: Budgets | None = None,
        monotonic: Clock = time.monotonic,
    ) -> Guard:
        """The guard of a session: one for its whole loop, shared by all its threads.

        `budgets` are limits of this session alone, in place of those that the configuration has
        for its source; what it says of days holds beside them. The guard is of use until the
        sessions are closed. This process holds the session from here on.
        """
        if budgets is not None:
            instance(budgets, Budgets, "The budgets of a session")
        session = self.get(session_id)
        rules = GuardRules(
            options=self._guarding.options, prices=self._guarding.prices, own=budgets
        )
        self._hold(session_id, self._clock())
        return Guard(
            self._guarding.book,
            self._processes,
            session,
            rules=rules,
            clock=self._clock,
            monotonic=monotonic,
            tell=self._tell,
            on_end=self._release,
        )

"""The sessions of a home as an agent uses them, with the guards around its loops."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from holdfast.api.place import Place, find_home
from holdfast.errors import UsageError
from holdfast.guard.guard import Guard, GuardRules
from holdfast.homes.kind import KIND
from holdfast.homes.maintenance import alerting
from holdfast.homes.sessions.files import HomeSessionFiles
from holdfast.model.argument_checks import called, checked, made_by
from holdfast.model.arguments import StrPath, instance
from holdfast.model.figures import Tally
from holdfast.model.guard import Alert
from holdfast.model.session import Json, Session, SessionRef
from holdfast.policy.budgets import Budgets, GuardOptions
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.prices import Prices
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock
from holdfast.ports.sessions import GuardBook
from holdfast.services.restore import elsewhere
from holdfast.services.sessions import Sessions
from holdfast.stores import processes
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """The ingredients of guards. `on_refusal` is called for each refused call."""

    book: GuardBook
    options: GuardOptions
    prices: Prices
    on_refusal: Callable[[], None]


@made_by("`home.sessions`, or with `open_sessions(home)`")
@called("sessions")
@checked
class AgentSessions(Sessions):
    """The session store an agent embeds, and the guards around its loops."""

    #: None for the sessions of another agent, which are not guarded here.
    guarding: Guarding | None = None

    def guard(
        self,
        session: SessionRef,
        *,
        budgets: Budgets | None = None,
        monotonic: Clock = time.monotonic,
    ) -> Guard:
        """The guard of a session: one for its whole loop, shared by all its threads.

        `budgets` are limits of this session alone, which replace those in the configuration for its
        source. The configured daily limits still apply. The guard works until the sessions are
        closed. This process holds the session from now on.
        """
        if budgets is not None:
            instance(budgets, Budgets, "The budgets of a session")
        if self.guarding is None:
            _refuse("guard")
        found = self.get(session)
        rules = GuardRules(options=self.guarding.options, prices=self.guarding.prices, own=budgets)
        self._leases.hold(found.id, self._clock())
        return Guard(
            self.guarding.book,
            self._processes,
            found,
            rules=rules,
            clock=self._clock,
            monotonic=monotonic,
            tell=self._tell,
            on_end=self._leases.release,
            store=functools.partial(self._append, found.id),
            on_refusal=self.guarding.on_refusal,
        )


@checked
def open_sessions(
    home: StrPath,
    *,
    options: SessionOptions | None = None,
    on_alert: Callable[[Alert], None] | None = None,
    clock: Clock | None = None,
    guards: GuardOptions | None = None,
    prices: Prices | None = None,
) -> AgentSessions:
    """Open only the sessions of a home, for an agent that needs nothing else. `home` is a path or
    the name of an agent, as in `holdfast.open`; the home is created if it does not exist. Closing
    the sessions closes everything."""
    place = Place(find_home(home), clock=clock)
    place.create_own()
    return sessions_of(place, options=options, on_alert=on_alert, guards=guards, prices=prices)


def sessions_of(
    place: Place,
    *,
    options: SessionOptions | None = None,
    on_alert: Callable[[Alert], None] | None = None,
    guards: GuardOptions | None = None,
    prices: Prices | None = None,
) -> AgentSessions:
    """The sessions of a home. Without `options`, `guards` and `prices` its config.toml decides.

    In Holdfast's own home the store is created if it does not exist. The sessions of another agent
    can be read; that agent writes them itself.
    """
    settings = place.settings
    options = options or settings.session_options()
    if place.home.kind != KIND:
        return _foreign(place, options)
    home = place.own(lambda usual: usual.living_by(options))
    opened = AgentSessions(
        home.create_session_store(),
        HomeSessionFiles(home, place.clock),
        processes,
        options=options,
        clock=place.clock,
        on_alert=alerting(home.root, settings, place.clock, on_alert),
        elsewhere=lambda session_id: elsewhere(home, session_id),
    )
    opened.on_close = lambda: place.close_one(home)
    opened.guarding = Guarding(
        book=home.own.guard_book(),
        options=guards or settings.guard_options(),
        prices=prices or settings.prices(),
        on_refusal=lambda: _count_refusal(home),
    )
    return opened


def _count_refusal(home: Home) -> None:
    home.tallies.add(Tally.REFUSALS)


def _foreign(place: Place, options: SessionOptions) -> AgentSessions:
    home = place.another()
    store = home.session_store()
    if store is None:
        raise UsageError(f"{place.root} has no session store, and so no sessions.")
    opened = AgentSessions(
        store,
        _NoFiles(),
        processes,
        options=options,
        clock=place.clock,
        elsewhere=lambda session_id: elsewhere(home, session_id),
    )
    opened.on_close = lambda: place.close_one(home)
    return opened


class _NoFiles:
    """Refuses to write the files of another agent's sessions: that agent writes them itself."""

    def append(self, session_id: str, lines: Sequence[Mapping[str, Json]], *, sync: bool) -> Path:
        _refuse("write a transcript of")

    def dump_request(self, session_id: str, stamp: str, request: Mapping[str, Json]) -> Path:
        _refuse("write a request dump of")

    def archive(self, session_id: str) -> None:
        _refuse("reset")

    def remove(self, session_id: str) -> Sequence[Path]:
        _refuse("reset")

    def remove_whole(self, session: Session, reason: str) -> None:
        _refuse("deliver")

    def end_abandoned(self) -> Sequence[str]:
        _refuse("end")


def _refuse(what: str) -> NoReturn:
    raise UsageError(
        f"Cannot {what} a session of another agent, which writes its sessions itself.",
        hint="Write your own sessions to a Holdfast home.",
    )

"""The usage of a run's agents since it began.

It is read from the sessions of all homes. If an agent's transcripts can be metered, they are read
by model, because a session may use several models, and each has its own price, or none.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from holdfast.api.run_limits import Spent
from holdfast.errors import HoldfastError
from holdfast.homes.foreign.sessions import FormatSessions
from holdfast.homes.meters.meter import TRANSCRIBED, read_transcript
from holdfast.homes.meters.tally import Marks
from holdfast.model.session import Session, SessionFilter, Tokens
from holdfast.model.usage import Usage
from holdfast.policy.loop_guard import less
from holdfast.policy.prices import Prices, cost
from holdfast.value import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine
    from holdfast.api.machine_sessions import FoundSession

#: The source of the sessions of runs themselves, which have no messages and no usage.
SOURCE = "run"
_Key: TypeAlias = tuple[Path, str]


class RunMeter:
    """The usage of the agents that work in a directory, since the run began.

    A session counts if its directory is this one or below. A session without a directory counts if
    it began after the run. `prices` apply to all homes, and take precedence over a home's own.
    """

    def __init__(self, machine: Machine, workdir: Path, prices: Prices, *, began: float) -> None:
        self._machine = machine
        self._workdir = workdir
        self._prices = prices
        self._began = began
        self._before: dict[_Key, _Before] = {}
        self._accounts: dict[_Key, _Account] = {}

    def remember(self) -> None:
        """Remember the usage before the run, because a run may continue a session. All sessions are
        remembered, because another path may lead to our directory through symlinks."""
        for each in self._machine.list_sessions().found:
            path = self._transcript(each.home, each.session)
            self._before[_key(each)] = _Before(session=each.session, bytes=_size(path))

    def spent(self) -> Spent:
        self._machine.look_for_homes()
        page = self._machine.list_sessions(SessionFilter(active_after=self._began - 1))
        unread = [str(each.path) for each in page.looked.unread]
        for each in page.found:
            if each.session.source == SOURCE or not self._counts(each):
                continue
            key = _key(each)
            if key not in self._accounts:
                self._accounts[key] = _Account(each.home.agent, self._before.get(key))
            path = self._transcript(each.home, each.session)
            prices = self._prices.over(each.page.prices)
            try:
                self._accounts[key].see(each.session, path, prices)
            except (OSError, ValueError, HoldfastError):
                unread.append(str(path))
        counted = self._accounts.values()
        unpriced = {
            model or "a model without a name" for each in counted for model in each.unpriced
        }
        return Spent(
            tokens=round(sum(each.tokens.amount for each in counted)),
            known=sum((each.money.amount for each in counted), 0.0),
            sessions=tuple(key[1] for key, each in self._accounts.items() if each.tokens.amount),
            unpriced=tuple(sorted(unpriced)),
            unread=tuple(unread),
        )

    def _counts(self, found: FoundSession) -> bool:
        session = found.session
        if not session.cwd:
            return session.started_at >= self._began - 1
        return Path(os.path.realpath(session.cwd)).is_relative_to(self._workdir)

    def _transcript(self, home: AgentHome, session: Session) -> Path | None:
        if home.agent not in TRANSCRIBED:
            return None
        store = self._machine.place(home).home.session_store()
        return store.transcript(session.id) if isinstance(store, FormatSessions) else None


def _key(found: FoundSession) -> _Key:
    return found.home.path, found.session.id


def _size(path: Path | None) -> int:
    try:
        return path.stat().st_size if path else 0
    except OSError:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """A session before the run, and the size of its transcript."""

    session: Session
    bytes: int


class _Used:
    """The tokens or the money that one session used since the run began.

    It never decreases: when a transcript is truncated or rewritten, the old total is kept and the
    new usage is added, as in `homes.meters`. A total that is lower in only one read was read while
    the agent wrote the file, and is ignored.
    """

    def __init__(self, before: float) -> None:
        self._before = before
        self._last = before
        self._kept = 0.0
        self._low: float | None = None

    def see(self, total: float) -> None:
        if total >= self._last:
            self._last, self._low = total, None
        elif self._low is None:
            self._low = total
        else:
            self._kept += self._last - min(self._low, total)
            self._last, self._low = total, None

    @property
    def amount(self) -> float:
        return self._last + self._kept - self._before


class _Account:
    """The usage of one session since the run began, and its models that have no price."""

    def __init__(self, agent: str, before: _Before | None) -> None:
        self._agent = agent
        self._before = before.session if before else None
        self._bytes = before.bytes if before else 0
        self.tokens = _Used(self._before.tokens.total if self._before else 0)
        self.money = _Used(0.0)
        self.unpriced: set[str] = set()
        self._marks: Marks | None = None
        self._models_before: Mapping[str, Usage] = {}

    def see(self, session: Session, transcript: Path | None, prices: Prices) -> None:
        """Count what is new."""
        self.tokens.see(session.tokens.total)
        new = less(_usage(session), _usage(self._before))
        told = session.cost > 0 and session.unpriced == Tokens()  # the agent reports the cost
        models = {} if told or transcript is None else self._by_model(transcript)
        # Tokens that the transcript attributes to no model get the price of the session's model.
        rest = new.unpriced
        for usage in models.values():
            rest = less(Usage(unpriced=rest), Usage(unpriced=usage.unpriced)).unpriced
        of_models = [*models.items(), (session.model or "", Usage(cost=new.cost, unpriced=rest))]
        costs = [(model, cost(prices, model or None, usage)) for model, usage in of_models]
        self.money.see(sum(each.known for _, each in costs))
        self.unpriced = {model for model, each in costs if each.full is None}

    def _by_model(self, transcript: Path) -> Mapping[str, Usage]:
        if self._marks is None:
            self._models_before, self._marks = (
                read_transcript(self._agent, transcript, {}, until=self._bytes)
                if self._bytes
                else ({}, {})
            )
        models, self._marks = read_transcript(self._agent, transcript, self._marks)
        return {
            model: less(usage, self._models_before.get(model, Usage()))
            for model, usage in models.items()
        }


def _usage(session: Session | None) -> Usage:
    if session is None:
        return Usage()
    return Usage(tokens=session.tokens, cost=session.cost, unpriced=session.unpriced)

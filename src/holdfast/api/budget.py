"""The shared budget of all homes of a machine: plan what to remove, and make room."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import BusyError, HoldfastError
from holdfast.homes.maintenance import tell_unreached
from holdfast.model.json_value import JsonValue
from holdfast.model.operation import MAINTAIN, one_run
from holdfast.model.plan import Plan
from holdfast.model.report import Report
from holdfast.policy.shared_budget import Pot, is_high, is_over
from holdfast.services.apply_until_within_caps import ROUNDS
from holdfast.services.budget import Weighed, budget_of, plan_homes, weigh
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.stores.files import storage_errors
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine_limits import MachineLimits
    from holdfast.ports.runs import Progress

_log = logging.getLogger("holdfast")


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeShare(JsonValue):
    """One home: the bytes that count, the plan, and the report once the plan was applied. `error`
    is why nothing was done here."""

    home: str
    bytes: int
    plan: Plan
    report: Report | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineBudget(JsonValue):
    """All homes. `limit` is None without a budget. `homes` are those with something to remove,
    a shortfall or an error, `unread` those that could not be measured: they count as empty, and
    nothing in them is removed."""

    limit: int | None
    bytes: int
    homes: tuple[HomeShare, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return any(each.error or (each.report and each.report.failed) for each in self.homes)

    @property
    def removed(self) -> int:
        return sum(each.report.removed for each in self.homes if each.report is not None)


class BudgetKeeper:
    """Measures the homes of a machine, and makes room when the machine's budget is exceeded. Each
    home's own budget limits it too. The machine's limit comes from the configuration of Holdfast's
    own home."""

    def __init__(self, machine: MachineLimits, progress: Progress | None = None) -> None:
        self._machine = machine
        self._progress = progress
        self._begun = False
        limit = machine.guardian.max_bytes if machine.is_whole else None
        self.budget = budget_of(machine.guardian, limit)

    def plan(self) -> MachineBudget:
        """Return what would be removed now. Changes nothing."""
        if self.budget is None:
            return MachineBudget(limit=None, bytes=0)
        weighed, unread = self._weigh_all()
        found = [
            HomeShare(home=str(home.path), bytes=_bytes(weighed[home]), plan=made)
            for home, made in self._plans(weighed).items()
            if made.steps or made.shortfalls
        ]
        return self._result(list(weighed.values()), found, unread)

    def keep(self) -> MachineBudget:
        """Make room, home by home, starting with the one that has to free the most. Each home is
        measured again before anything is removed, and afterwards: an old measurement decides
        nothing."""
        if self.budget is None:
            return MachineBudget(limit=None, bytes=0)
        weighed, unread = self._weigh_all()
        done: list[HomeShare] = []
        with one_run():
            for _ in range(ROUNDS):  # what a plan frees is certain only afterwards
                if not is_over(self.budget, _pots(weighed)) or self._is_stopped():
                    break
                self._begun = is_high(self.budget, _pots(weighed))
                given = [self._give(home, weighed) for home in self._by_excess(weighed)]
                done += [each for each in given if each is not None]
                if not any(each.report and each.report.removed for each in given if each):
                    break
        return self._result(list(weighed.values()), done, unread)

    def _is_stopped(self) -> bool:
        return self._progress is not None and self._progress.stop_requested()

    def _give(self, home: AgentHome, weighed: dict[AgentHome, Weighed]) -> HomeShare | None:
        if self._is_stopped():
            return None
        before = weighed[home]
        try:
            with before.home.maintenance_gate.entered(MAINTAIN):
                weighed[home] = self._weigh(home)
                made = self._plans(weighed)[home]
                if not made.steps and not made.shortfalls:
                    return None
                clock = self._machine.clock
                report = apply(made, before.home, clock=clock, progress=self._progress or Silent())
                tell_unreached(before.home, before.settings, made.shortfalls, now=clock())
                weighed[home] = self._weigh(home)
        except Exception as error:  # noqa: BLE001 - one home that fails costs itself only
            if not isinstance(error, BusyError):
                _log.error("making room in %s failed: %s", home.path, error)
            said = error.message if isinstance(error, HoldfastError) else str(error)
            empty = Plan(home=str(home.path), command=MAINTAIN, made_at=0.0, items=())
            return HomeShare(home=str(home.path), bytes=_bytes(before), plan=empty, error=said)
        return HomeShare(home=str(home.path), bytes=_bytes(before), plan=made, report=report)

    def _plans(self, weighed: dict[AgentHome, Weighed]) -> dict[AgentHome, Plan]:
        now = self._machine.clock()
        plans = plan_homes(self.budget, list(weighed.values()), now=now, begun=self._begun)
        return dict(zip(weighed, plans, strict=True))

    def _by_excess(self, weighed: dict[AgentHome, Weighed]) -> list[AgentHome]:
        found = {home: made for home, made in self._plans(weighed).items() if made.items}
        return sorted(found, key=lambda home: -found[home].bytes)

    def _weigh_all(self) -> tuple[dict[AgentHome, Weighed], list[str]]:
        weighed: dict[AgentHome, Weighed] = {}
        unread: list[str] = [str(each.path) for each in self._machine.unread]
        for home in self._machine.homes:
            try:
                weighed[home] = self._weigh(home)
            except Exception as error:  # noqa: BLE001 - one home that fails costs itself only
                _log.warning("%s does not count against the budget: %s", home.path, error)
                unread.append(str(home.path))
        return weighed, unread

    def _weigh(self, home: AgentHome) -> Weighed:
        place = self._machine.place(home)
        with storage_errors(f"read {home.path}"):
            return weigh(
                place.home, place.settings, now=self._machine.clock(), progress=self._progress
            )

    def _result(
        self, weighed: Sequence[Weighed], homes: Sequence[HomeShare], unread: Sequence[str]
    ) -> MachineBudget:
        return MachineBudget(
            limit=None if self.budget is None else self.budget.limit,
            bytes=sum(map(_bytes, weighed)),
            homes=tuple(homes),
            unread=tuple(unread),
        )


def _pots(weighed: Mapping[AgentHome, Weighed]) -> list[Pot]:
    return [pot for each in weighed.values() for pot in each.pots]


def _bytes(weighed: Weighed) -> int:
    return sum(each.bytes for each in weighed.pots)

"""Budgets of bytes, for one home and for all homes of a machine. The usual planner decides what to
remove, and the usual operations remove it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.config.guardian import GuardianSettings
from holdfast.config.settings import Settings
from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.item import LEFTOVER, TRASH, Inventory
from holdfast.model.operation import MAINTAIN
from holdfast.model.plan import Plan
from holdfast.policy.planner import plan, plan_checkpoints
from holdfast.policy.rules import Caps, Limits, Policy
from holdfast.policy.shared_budget import (
    Budget,
    Pot,
    Share,
    after,
    is_over,
    shares,
    tighter,
    trash_shares,
)
from holdfast.ports.home import Home
from holdfast.ports.runs import Progress
from holdfast.services.plans import archive_inventory
from holdfast.value import dataclass, replace

#: The share of a pot that may keep everything.
_ALL = Share()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """The parts of a home that count: its sessions with their files, trash and log; its archive, if
    that is inside the home; its checkpoints. Leftovers and an agent's other files do not count."""

    home: Home
    settings: Settings
    sessions: Inventory
    archive: Inventory | None = None
    checkpoints: CheckpointInventory | None = None

    @property
    def pots(self) -> tuple[Pot, Pot, Pot]:
        """The pots of the sessions, the archive and the checkpoints."""
        of_checkpoints = 0 if self.checkpoints is None else self.checkpoints.bounded_bytes
        return _pot(self.sessions), _pot(self.archive), Pot(kept=of_checkpoints)

    @property
    def budget(self) -> Budget | None:
        guardian = self.settings.guardian
        return budget_of(guardian, guardian.max_home_bytes)

    def own_shares(self) -> Sequence[Share]:
        """How much each pot may keep under the home's own budget."""
        budget = self.budget
        if budget is None or not is_over(budget, self.pots):
            return (_ALL,) * 3
        return shares(budget, self.pots)


def budget_of(marks: GuardianSettings, limit: int | None) -> Budget | None:
    if not limit:
        return None
    return Budget.of(limit, high_percent=marks.high_percent, low_percent=marks.low_percent)


def weigh(
    home: Home, settings: Settings, *, now: float, progress: Progress | None = None
) -> Weighed:
    """Scan everything that counts. A read-only home has nothing to give."""
    sessions = home.scan(now, progress)
    if sessions.read_only:
        return Weighed(home=home, settings=settings, sessions=replace(sessions, items=(), trash=()))
    here = sessions.archive_bytes > 0
    has_checkpoints = home.has_checkpoints()
    return Weighed(
        home=home,
        settings=settings,
        sessions=sessions,
        archive=archive_inventory(home) if here else None,
        checkpoints=home.checkpoint_upkeep.scan(now) if has_checkpoints else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """All removals of a home in one plan, so that they are one operation with one undo. `kept` is
    what then remains in each pot, without trash: more than its share if items are in use or
    pinned."""

    plan: Plan
    kept: tuple[int, int, int]


def plan_shares(weighed: Weighed, given: Sequence[Share], *, now: float) -> Planned:
    """Plan what to remove so that each pot keeps to its share."""
    sessions, archive, checkpoints = given
    plans: dict[int, Plan] = {}
    if sessions.gives:
        policy = _capped(weighed.settings.policy(), sessions)
        plans[0] = plan(policy, weighed.sessions, now, command=MAINTAIN)
    if archive.gives and weighed.archive is not None:
        policy = _capped(weighed.settings.archive_policy(), archive)
        plans[1] = plan_of("the archive", policy, weighed.archive, now)
    if checkpoints.gives and weighed.checkpoints is not None:
        most = checkpoints.bytes if checkpoints.kept is None else checkpoints.kept
        bounded = replace(weighed.settings.checkpoint_policy().upkeep_only(), max_bytes=most)
        plans[2] = plan_checkpoints(bounded, weighed.checkpoints, now, command=MAINTAIN)
    first, second, third = (
        pot.kept - (_taken(plans[place]) if place in plans else 0)
        for place, pot in enumerate(weighed.pots)
    )
    made = Plan(
        home=str(weighed.home.root),
        command=MAINTAIN,
        made_at=now,
        items=tuple(item for each in plans.values() for item in each.items),
        shortfalls=tuple(each for made in plans.values() for each in made.shortfalls),
    )
    return Planned(plan=made, kept=(first, second, third))


def _taken(made: Plan) -> int:
    """The bytes of the removals that are not trash."""
    return sum(item.bytes for item in made.removals if item.kind != TRASH)


def plan_home_budget(weighed: Weighed, *, now: float) -> Plan:
    """Plan what to remove under the home's own budget."""
    [made] = plan_homes(weighed.budget, [weighed], now=now)
    return made


def plan_homes(
    budget: Budget | None, homes: Sequence[Weighed], *, now: float, begun: bool = False
) -> list[Plan]:
    """Plan what to remove from each home, under its own budget and that of the machine. Once a run
    has `begun` to make room, it continues until the low mark is reached.

    If a pot stays above its share because its items are held, no other pot loses sessions for it.
    Other pots may lose trash, which goes first while the total is over the budget.
    """
    given = _shares(budget, homes, begun=begun)
    planned = [plan_shares(each, mine, now=now) for each, mine in zip(homes, given, strict=True)]
    if budget is None:
        return [each.plan for each in planned]
    left = [
        Pot(kept=kept, trash=_trash_after(pot, kept, share))
        for each, made, mine in zip(homes, planned, given, strict=True)
        for pot, kept, share in zip(each.pots, made.kept, mine, strict=True)
    ]
    if sum(each.bytes for each in left) <= budget.limit:
        return [each.plan for each in planned]
    of_trash = iter(trash_shares(budget, left))
    tight = [[tighter(share, next(of_trash)) for share in mine] for mine in given]
    return [
        made.plan if mine == was else plan_shares(each, mine, now=now).plan
        for each, made, mine, was in zip(homes, planned, tight, given, strict=True)
    ]


def _trash_after(pot: Pot, kept: int, share: Share) -> int:
    trash = pot.bytes - kept
    return trash if share.bytes is None else max(0, min(trash, share.bytes - kept))


def _shares(
    budget: Budget | None, homes: Sequence[Weighed], *, begun: bool
) -> list[Sequence[Share]]:
    own = [each.own_shares() for each in homes]
    left = [
        after(pot, share)
        for each, given in zip(homes, own, strict=True)
        for pot, share in zip(each.pots, given, strict=True)
    ]
    if budget is None or not (begun or is_over(budget, left)):
        return own
    of_all = iter(shares(budget, left, begun=begun))
    return [[tighter(share, next(of_all)) for share in given] for given in own]


def _pot(inventory: Inventory | None) -> Pot:
    """Counts bytes in the same way as the planner's caps."""
    if inventory is None:
        return Pot(kept=0)
    items = sum(each.capped_bytes for each in inventory.items if each.kind != LEFTOVER)
    trash = sum(each.capped_bytes for each in inventory.trash)
    return Pot(kept=items + sum(inventory.overhead.values()), trash=trash)


def _capped(policy: Policy, share: Share) -> Policy:
    """The caps of a share and no other rule. Pinned items stay, as always."""
    caps = Caps(max_bytes=share.bytes, keep_bytes=share.kept)
    return replace(policy, everywhere=Limits(caps=caps), by_source={}, leftovers={})


def plan_of(what: str, policy: Policy, inventory: Inventory, now: float) -> Plan:
    """A plan under caps that are not those of the sessions. The names of unreached caps say whose
    they are."""
    made = plan(policy, inventory, now, command=MAINTAIN)
    unreached = tuple(replace(each, cap=f"{each.cap} of {what}") for each in made.shortfalls)
    return replace(made, shortfalls=unreached)

"""The machine at a glance: what fills the disk, what the policy would free, what is in use now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.model.alarm import Alarm
from holdfast.model.figures import Growth, HomeFigures
from holdfast.model.item import LEFTOVER, SESSION
from holdfast.model.operation import Operation
from holdfast.model.plan import Outlook
from holdfast.model.session import SessionFilter
from holdfast.model.usage import Share
from holdfast.policy.budgets import Budget
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome, UnreadHome
    from holdfast.api.disks import Disk
    from holdfast.api.machine import Machine, MachineStatus
    from holdfast.api.machine_sessions import FoundSession
    from holdfast.api.values import HomeStatus
    from holdfast.model.guard import Near

_BUDGETS = frozenset(each.value for each in Budget)
_MOST_ALIVE = 20
_MOST_PROJECTS = 12
_MOST_OPERATIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeOverview:
    """One home. `parts` are its bytes by kind, which add up to `bytes`. `outlook` is what the
    policy would do, None if there is no policy; `trash_days` is how long the trash keeps what it
    removes. `troubles` counts the problems that need the user's attention."""

    home: AgentHome
    version: str | None
    sessions: int
    in_use: int
    bytes: int
    parts: Mapping[str, int]
    outlook: Outlook | None
    trash_days: int
    read_only: bool
    troubles: int

    @property
    def frees(self) -> int:
        """The bytes that the policy would free, once the trash is emptied."""
        return self.outlook.frees if self.outlook else 0

    @property
    def later(self) -> int:
        """The part of `frees` that stays in the trash for `trash_days`."""
        return self.outlook.later if self.outlook else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOverview:
    """All homes, the largest first. `disks` are the disks that they are on, the one with the least
    free space first. `alive` are the sessions in use, `operations` the latest operations, newest
    first. `projects` are the directories that sessions worked in, with the bytes of those sessions,
    the largest first; the one without a name has the sessions without a directory. `over` are
    budgets that are used up. `at` is the time of the figures."""

    at: float
    homes: Sequence[HomeOverview]
    projects: Sequence[Share]
    growth: Growth
    alarms: Sequence[Alarm]
    unread: Sequence[UnreadHome]
    alive: Sequence[tuple[FoundSession, str]]
    operations: Sequence[tuple[AgentHome, Operation]]
    disks: Sequence[Disk] = ()
    over: Sequence[tuple[AgentHome, Near]] = ()

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.homes)

    @property
    def sessions(self) -> int:
        return sum(each.sessions for each in self.homes)

    @property
    def in_use(self) -> int:
        return sum(each.in_use for each in self.homes)

    @property
    def frees(self) -> int:
        return sum(each.frees for each in self.homes)

    @property
    def later(self) -> int:
        return sum(each.later for each in self.homes)

    @property
    def trash_days(self) -> tuple[int, int]:
        """The minimum and maximum number of days for which the trash keeps what the policy
        removes."""
        found = [each.trash_days for each in self.homes if each.later] or [0]
        return min(found), max(found)

    @property
    def removals(self) -> int:
        return sum(each.outlook.removals for each in self.homes if each.outlook)

    @property
    def trash(self) -> int:
        return sum(each.parts["trash"] for each in self.homes)


def overview(machine: Machine, status: MachineStatus, *, now: float) -> MachineOverview:
    """Put a status together for one screen."""
    homes = [_home(machine, home, seen) for home, seen in status.seen]
    return MachineOverview(
        at=now,
        homes=sorted(homes, key=lambda each: -each.bytes),
        projects=_projects(machine, status),
        growth=machine.growth().together,
        alarms=[each for each in machine.alarms() if each.active],
        unread=status.unread,
        alive=_alive(machine, status),
        operations=_operations(machine),
        disks=machine.disks(home for home, _ in status.seen),
        over=[
            (home, near)
            for home, seen in status.seen
            for near in seen.nearness.near
            if near.share >= 1 and near.what in _BUDGETS
        ],
    )


def last_overview(machine: Machine) -> MachineOverview | None:
    """An overview from each home's latest recorded figures, without a scan; None if there are none.
    It has no sessions in use, because those are not recorded."""
    growth = machine.growth()
    noted = [(home, each.latest) for home, each in growth.seen if each.latest is not None]
    if not noted:
        return None
    homes = [_noted(home, each) for home, each in noted]
    return MachineOverview(
        at=min(each.at for _, each in noted),
        homes=sorted(homes, key=lambda each: -each.bytes),
        projects=(),
        growth=growth.together,
        alarms=[each for each in machine.alarms() if each.active],
        unread=growth.unread,
        alive=(),
        operations=_operations(machine),
        disks=machine.disks(home for home, _ in noted),
    )


def _noted(home: AgentHome, figures: HomeFigures) -> HomeOverview:
    return HomeOverview(
        home=home,
        version=None,
        sessions=figures.sessions,
        in_use=0,
        bytes=figures.bytes,
        parts={
            "sessions": figures.session_bytes,
            "leftovers": figures.leftover_bytes,
            "checkpoints": figures.checkpoint_bytes,
            "archive": figures.archive_bytes,
            "trash": figures.trash_bytes,
            "other": figures.other_bytes,
        },
        outlook=Outlook(removals=0, bytes=figures.reclaimable_bytes),
        trash_days=0,
        read_only=False,
        troubles=0,
    )


def _home(machine: Machine, home: AgentHome, status: HomeStatus) -> HomeOverview:
    inventory = status.inventory
    left = sum(each.bytes for each in inventory.items if each.kind == LEFTOVER)
    sums = {
        "sessions": sum(each.bytes for each in inventory.items) - left,
        "leftovers": left,
        "checkpoints": inventory.checkpoint_bytes,
        "archive": inventory.archive_bytes,
        "trash": sum(each.bytes for each in inventory.trash) + inventory.loose_trash_bytes,
    }
    total = inventory.total_bytes
    sums["other"] = max(0, total - sum(sums.values()))
    sessions = [item for item in inventory.items if item.kind == SESSION]
    return HomeOverview(
        home=home,
        version=status.version,
        sessions=status.store.sessions if status.store else len(sessions),
        in_use=sum(each.in_use for each in sessions),
        bytes=total,
        parts=sums,
        outlook=status.outlook,
        trash_days=machine.place(home).settings.trash_days,
        read_only=inventory.read_only,
        troubles=sum(not each.usual for each in status.problems) + len(status.unfinished),
    )


def _projects(machine: Machine, status: MachineStatus) -> Sequence[Share]:
    sums: dict[str, list[int]] = {}
    for home, seen in status.seen:
        try:
            store = machine.open(home).session_store
            folders = {} if store is None else store.folders()
        except HoldfastError:  # there are figures, but the sessions cannot be read right now
            continue
        for item in seen.inventory.items:
            if item.kind != LEFTOVER:
                session = item.id if item.kind == SESSION else item.session
                found = sums.setdefault(folders.get(session, ""), [0, 0])
                found[0] += item.kind == SESSION
                found[1] += item.bytes
    shares = [Share(name=name, count=count, bytes=size) for name, (count, size) in sums.items()]
    return sorted(shares, key=lambda each: (not each.name, -each.bytes))[:_MOST_PROJECTS]


def _alive(machine: Machine, status: MachineStatus) -> Sequence[tuple[FoundSession, str]]:
    """The sessions in use, the last active first, and why each counts as in use."""
    why = {
        (home.path, item.id): item.alive or ""
        for home, seen in status.seen
        for item in seen.inventory.items
        if item.kind == SESSION and item.in_use
    }
    if not why:
        return ()
    wanted = SessionFilter(ids=tuple({session for _, session in why}))
    page = machine.list_sessions(wanted, limit=_MOST_ALIVE, openings=True)
    return [
        (each, why[each.home.path, each.session.id])
        for each in page.found
        if (each.home.path, each.session.id) in why
    ]


def _operations(machine: Machine) -> Sequence[tuple[AgentHome, Operation]]:
    found: list[tuple[AgentHome, Operation]] = []
    for home in machine.homes:
        try:
            log = machine.open(home).log.list(limit=_MOST_OPERATIONS)
        except HoldfastError:  # reported among the homes that could not be read
            continue
        found += [(home, each) for each in log]
    found.sort(key=lambda each: -each[1].started_at)
    return found[:_MOST_OPERATIONS]

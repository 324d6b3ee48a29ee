"""The status of a home: what is in it, what it costs, and what its policy would free."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.config.settings import Settings
from holdfast.errors import HoldfastError
from holdfast.model.checkpoint import Project
from holdfast.model.figures import Growth
from holdfast.model.guard import Nearness
from holdfast.model.item import LEFTOVER, SESSION, Inventory, Item, Problem, SessionFile
from holdfast.model.json_value import fields_to_json
from holdfast.model.plan import Outlook
from holdfast.model.session import Session, SessionFilter
from holdfast.model.usage import CostTotals, Share, StoreStats
from holdfast.model.vault import SOON, Threat, VaultFigures
from holdfast.policy.budget_check import nearness
from holdfast.policy.budgets import GuardOptions
from holdfast.policy.growth import growth
from holdfast.policy.prices import Prices, costs
from holdfast.policy.remedy import Freeable
from holdfast.policy.rules import DAY, HOUR
from holdfast.policy.session_limits import SessionLimits
from holdfast.ports.home import Home
from holdfast.ports.runs import Progress
from holdfast.ports.sessions import SessionStore
from holdfast.services.events import near_limit_sessions
from holdfast.services.figures import count_sessions, figures_of, too_large, what_policy_would
from holdfast.value import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCount:
    """`bytes` is everything in the checkpoint folder, `legacy_bytes` the archives of older layouts
    in it. `last_touch` is when any project was last used. `problems` are what could not be
    read."""

    count: int
    projects: int
    bytes: int
    legacy_bytes: int = 0
    last_touch: float | None = None
    problems: tuple[Problem, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self, without=("problems",))


def count_checkpoints(home: Home, inventory: Inventory) -> CheckpointCount:
    """Count without reading a checkpoint. A damaged store must not hide the sessions."""
    projects: Sequence[Project] = ()
    problems: tuple[Problem, ...] = ()
    try:
        # Without a checkpoint folder the modules of the store need not be loaded.
        store = home.checkpoint_store() if inventory.checkpoint_bytes else None
        projects = () if store is None else store.projects()
    except HoldfastError as error:
        problems = (Problem(path=str(home.root / "checkpoints"), reason=error.message),)
    return CheckpointCount(
        count=sum(project.checkpoints for project in projects),
        projects=len(projects),
        bytes=inventory.checkpoint_bytes,
        legacy_bytes=inventory.legacy_bytes,
        last_touch=max((project.last_touch for project in projects), default=None),
        problems=problems,
    )


_MOST = 10
#: How many open sessions are compared with their budgets, starting with the last active.
_MOST_OPEN = 1_000

AGES = (
    ("< 1 h", HOUR),
    ("< 6 h", 6 * HOUR),
    ("< 1 d", DAY),
    ("< 7 d", 7 * DAY),
    ("< 30 d", 30 * DAY),
    ("< 90 d", 90 * DAY),
    ("< 1 y", 365 * DAY),
    ("older", float("inf")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeScreen:
    """What the screens about one home have in common."""

    kind: str
    inventory: Inventory
    by_kind: tuple[Share, ...]
    store: StoreStats | None = None
    costs: CostTotals
    checkpoints: CheckpointCount

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self.inventory.problems, *self.checkpoints.problems)

    def to_json(self) -> dict[str, Any]:
        usage = {"usage": self.costs.usage_json()}
        return {
            "home": self.inventory.home,
            "kind": self.kind,
            "other_bytes": self.inventory.other_bytes,
            "checkpoints": self.checkpoints.to_json(),
            "archive": self.inventory.archive_json(),
            "trash": {
                "count": len(self.inventory.trash),
                "bytes": sum(item.bytes for item in self.inventory.trash),
            },
            "by_kind": [share.to_json() for share in self.by_kind],
            "sessions": self.store.to_json() | usage if self.store else None,
            "problems": [
                {"path": problem.path, "reason": problem.reason} for problem in self.problems
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeStatus(HomeScreen):
    """One home on the status screen. `outlook` is None when its policy is empty."""

    version: str | None = None
    by_age: tuple[Share, ...]
    by_source: tuple[Share, ...]
    outlook: Outlook | None
    unfinished: tuple[str, ...]
    near_limit: tuple[Session, ...] = ()
    nearness: Nearness = field(default_factory=Nearness)
    large_files: tuple[SessionFile, ...] = ()
    growth: Growth = field(default_factory=Growth)
    vault: VaultFigures | None = None
    log_fits: bool = True
    threat: Threat | None = None

    @property
    def freeable(self) -> Freeable:
        """The bytes that could be freed. In a read-only home leftovers do not count."""
        by_kind = {share.name: share.bytes for share in self.by_kind}
        return Freeable(
            policy=self.outlook.bytes if self.outlook else 0,
            trash=self.inventory.trash_bytes,
            leftovers=0 if self.inventory.read_only else by_kind.get(LEFTOVER, 0),
            sessions=by_kind.get(SESSION, 0),
        )

    def to_json(self) -> dict[str, Any]:
        return HomeScreen.to_json(self) | {
            "version": self.version,
            "total_bytes": self.inventory.total_bytes,
            "checkpoint_bytes": self.inventory.checkpoint_bytes,
            "log_bytes": self.inventory.log_bytes,
            "reserve_bytes": self.inventory.reserve_bytes,
            "by_age": [share.to_json() for share in self.by_age],
            "by_source": [share.to_json() for share in self.by_source],
            "near_limit": [session.to_json() for session in self.near_limit],
            "near": [near.to_json() for near in self.nearness.near],
            "large_files": [each.to_json() for each in self.large_files],
            "unknown_cost": self.nearness.unknown_cost,
            "policy_would_remove": self.outlook.removals if self.outlook else 0,
            "policy_would_free": self.outlook.frees if self.outlook else 0,
            "policy_would_free_in_database": self.outlook.in_rows if self.outlook else 0,
            "unfinished_operations": list(self.unfinished),
            "growth": self.growth.to_json(),
            "vault": None if self.vault is None else self.vault.to_json(),
            "deleted_soon": 0 if self.threat is None else self.threat.sessions,
        }


def status(
    home: Home, settings: Settings, *, now: float, progress: Progress | None = None
) -> HomeStatus:
    limits, prices = settings.session_options().limits, settings.prices()
    inventory = home.scan(now, progress)
    home.note_figures(inventory)
    store = home.session_store()
    would = what_policy_would(settings.policy(), inventory, now)
    shares = Shares(inventory.items, now)
    near_limit = near_limit_sessions(store, limits)
    statistics = None if store is None else store.statistics(now=now, ages=AGES)
    seen = figures_of(
        home,
        inventory,
        now=now,
        sessions=count_sessions(inventory) if statistics is None else statistics.sessions,
        reclaimable=would.frees if would else 0,
    )
    held = None if home.vault is None else home.vault.figures()
    return HomeStatus(
        kind=home.kind,
        version=home.version,
        inventory=inventory,
        by_kind=shares.by_kind(),
        by_age=shares.by_age(),
        by_source=shares.by_source(),
        outlook=would,
        unfinished=tuple(
            operation.id
            for operation in home.log.read().operations
            if operation.finished_at is None
        ),
        store=statistics,
        costs=costs(() if store is None else store.usage_entries(), prices),
        near_limit=near_limit,
        large_files=too_large(inventory.items, limits),
        checkpoints=count_checkpoints(home, inventory),
        growth=growth([*home.figures.read(), seen], now),
        vault=held,
        log_fits=home.log_fits,
        threat=None if held is None or held.enabled else _threat(home, now),
        nearness=_nearness(store, limits, settings.guard_options(), prices, near_limit, now),
    )


def _threat(home: Home, now: float) -> Threat | None:
    """The sessions that the agent will soon delete by itself, and that no vault keeps."""
    sweep = None if home.vault is None else home.vault.sweep()
    if home.vault is None or sweep is None:
        return None
    before = now - (sweep.days - SOON) * DAY
    next_ones = home.vault.unused_since(before)
    return Threat(sweep=sweep, sessions=next_ones) if next_ones else None


def _nearness(
    store: SessionStore | None,
    limits: SessionLimits,
    guard: GuardOptions,
    prices: Prices,
    near_limit: Sequence[Session],
    now: float,
) -> Nearness:
    """Sessions with a budget are checked one by one, because their cost depends on the prices."""
    if store is None:
        return Nearness()
    sessions = {session.id: session for session in near_limit}
    if any(
        True for budgets in (guard.everywhere, *guard.by_source.values()) for _ in budgets.limits()
    ):
        found = store.find(SessionFilter(ended=False), limit=_MOST_OPEN)
        sessions |= {session.id: session for session in found}
    today = store.usage_entries(on=now)
    return nearness(limits, guard, prices, tuple(sessions.values()), today)


class Shares:
    """The totals of items, computed in one pass because there may be very many."""

    def __init__(self, items: Iterable[Item], now: float) -> None:
        bounds = [bound for _, bound in AGES[:-1]]
        sums: dict[tuple[str, str, int], list[int]] = {}
        for item in items:
            key = item.kind, item.source, bisect_right(bounds, now - item.last_active_at)
            found = sums.get(key)
            if found is None:
                sums[key] = [1, item.bytes]
            else:
                found[0] += 1
                found[1] += item.bytes
        self._sums: Mapping[tuple[str, str, int], Sequence[int]] = sums

    def by_kind(self) -> tuple[Share, ...]:
        return self._largest_first({key: key[0] for key in self._sums})

    def by_source(self) -> tuple[Share, ...]:
        return self._largest_first({key: key[1] for key in self._sums})

    def by_age(self) -> tuple[Share, ...]:
        """Every age class, including empty ones: a gap is informative."""
        names = {key: AGES[key[2]][0] for key in self._sums}
        found = {share.name: share for share in self._shares(names)}
        return tuple(found.get(name, Share(name=name, count=0, bytes=0)) for name, _ in AGES)

    def _largest_first(self, names: Mapping[tuple[str, str, int], str]) -> tuple[Share, ...]:
        return tuple(sorted(self._shares(names), key=lambda share: (-share.bytes, share.name)))

    def _shares(self, names: Mapping[tuple[str, str, int], str]) -> list[Share]:
        sums: dict[str, list[int]] = {}
        for key, (count, size) in self._sums.items():
            found = sums.setdefault(names[key], [0, 0])
            found[0] += count
            found[1] += size
        return [Share(name=name, count=count, bytes=size) for name, (count, size) in sums.items()]

"""Which checkpoints stay: inventory, policy and time in, a plan out.

Order of the decisions, each of which can only be overruled by the next:

1. pinned and named checkpoints stay, whatever the rules say, and those that a restore needs;
2. projects that are stale, or whose directory is gone, go whole; in the others the keep rules
   decide, then the bound on their number takes the oldest;
3. trash that has been there long enough goes; single repositories of an older layout go as
   projects do, archives of these only on request;
4. the bound on bytes takes the fewest, oldest on top (`checkpoint_cap`), and never the newest of a
   project that stays.

What a take has hidden beyond the bound on their number goes to the trash like the others that the
bound takes. Space is given back last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from holdfast.model.checkpoint import Project, ProjectState
from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.item import Item
from holdfast.model.plan import Action, Plan, PlanItem, Shortfall
from holdfast.model.units import format_count, format_duration
from holdfast.policy.checkpoint_cap import NEWEST, cap_bytes
from holdfast.policy.checkpoint_draft import Draft
from holdfast.policy.checkpoint_rules import CheckpointPolicy
from holdfast.policy.decision import PINNED, Decision, plan_item, spare_living
from holdfast.policy.draft import WORTH_RECLAIMING
from holdfast.policy.keep import kept_by_rules

#: So many unused bytes are given back where the store is over its cap.
_WORTH_OVER_CAP = 16 * 1024

NAMED = "named"
NEEDED = "undoing the latest rollback needs it"


def plan_checkpoints(
    policy: CheckpointPolicy, inventory: CheckpointInventory, now: float, *, command: str
) -> Plan:
    """Decide about everything in the checkpoint folder."""
    shortfalls: list[Shortfall] = []
    live: list[Decision] = []
    for project, newest_first in _by_project(inventory.checkpoints):
        judging = _Judging(policy, inventory, inventory.projects.get(project), now)
        decided = judging.decide(newest_first)
        shortfalls += judging.bound(decided)
        live += decided
    draft = Draft(
        inventory,
        trash=[_decide_trash(policy, item, now) for item in inventory.trash],
        rotated=[
            Decision(item, Action.REMOVE, _rotated(policy), undoable=policy.use_trash)
            for item in inventory.rotated
        ],
        live=live,
        legacy=[
            _decide_legacy(policy, inventory.older.get(item.id), item, now)
            for item in inventory.legacy
        ],
    )
    if policy.max_bytes is not None:
        shortfalls += cap_bytes(draft, policy.max_bytes)
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=(
            *draft.plan_items(),
            *_given_back(inventory.space, draft, over=_is_over(policy, inventory)),
        ),
        shortfalls=tuple(shortfalls),
    )


def plan_named_checkpoints(
    ids: Collection[str] | None,
    inventory: CheckpointInventory,
    now: float,
    *,
    command: str,
    undoable: bool,
    legacy: bool = False,
) -> Plan:
    """Remove these, or all with what a take has hidden; with `legacy` also what older layouts left.
    No rule is asked: a pin protects from rules and bounds, not from a person who names the
    checkpoint."""
    reason = "cleared on request" if ids is None else "dropped by name"
    live = [
        spare_living(item, {}) or Decision(item, Action.REMOVE, reason, undoable=undoable)
        for item in inventory.checkpoints
        if ids is None or item.id in ids
    ]
    rotated = [
        Decision(item, Action.REMOVE, reason, undoable=undoable) for item in inventory.rotated
    ]
    draft = Draft(
        inventory,
        trash=(),
        rotated=rotated if ids is None else (),
        live=live,
        legacy=[
            Decision(item, Action.REMOVE, reason, undoable=undoable)
            for item in (inventory.legacy if legacy else ())
        ],
    )
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=(*draft.plan_items(), *_given_back(inventory.space, draft)),
    )


@dataclass(frozen=True, slots=True)
class _Judging:
    """The decisions about one project."""

    policy: CheckpointPolicy
    inventory: CheckpointInventory
    project: Project | None
    now: float

    def decide(self, newest_first: list[Item]) -> list[Decision]:
        whole = why_whole(self.policy, self.project, self.now)
        kept = kept_by_rules(self.policy.rules, newest_first, self.now)
        decisions = []
        for place, item in enumerate(newest_first):
            decision = self._hold(item)
            if decision is None and whole is not None:
                decision = Decision(item, Action.REMOVE, whole, undoable=self.policy.use_trash)
            elif decision is None:
                decision = self._hold_for_undo(item) or self._judge(item, kept[place])
            decision.newest = place == 0
            decisions.append(decision)
        return decisions

    def bound(self, decisions: Sequence[Decision]) -> list[Shortfall]:
        """Take the oldest beyond the bound on their number."""
        limit = self.policy.max_count
        kept = [each for each in decisions if each.kept]
        if limit is None or len(kept) <= limit:
            return []
        excess = len(kept) - limit
        reason = f"over the bound of {format_count(limit, 'checkpoint')}"
        for decision in reversed(kept):
            if excess and decision.held is None and not decision.newest:
                decision.remove(reason, undoable=self.policy.use_trash)
                excess -= 1
        if not excess:
            return []
        held = Counter(each.held or NEWEST for each in decisions if each.kept)
        name = decisions[0].item.source if self.project is None else self.project.workdir
        return [
            Shortfall(
                cap=f"max_snapshots of {name}",
                limit=limit,
                remaining=limit + excess,
                held_by=dict(held),
            )
        ]

    def _hold(self, item: Item) -> Decision | None:
        if item.pinned:
            return Decision(item, Action.KEEP, PINNED, held=PINNED)
        name = self.inventory.names.get(item.id)
        if name is not None:
            return Decision(item, Action.KEEP, f"{NAMED}: {name}", held=NAMED)
        return spare_living(item, {})

    def _hold_for_undo(self, item: Item) -> Decision | None:
        """What an undo of the latest rollback needs stays as long as trash does."""
        moment, limit = self.inventory.needed.get(item.id), self.policy.trash_age
        if moment is None or (limit is not None and self.now - moment > limit):
            return None
        return Decision(item, Action.KEEP, NEEDED, held=NEEDED)

    def _judge(self, item: Item, kept: str | None) -> Decision:
        if self.policy.rules.empty:
            return Decision(item, Action.KEEP, "within the bounds")
        if kept is not None:
            return Decision(item, Action.KEEP, kept)
        return Decision(
            item, Action.REMOVE, "not kept by any keep rule", undoable=self.policy.use_trash
        )


def why_whole(policy: CheckpointPolicy, project: Project | None, now: float) -> str | None:
    """Why a whole project goes. A directory that may come back with its disk is no reason, and
    neither, when a disk is known to be away, is that nobody touched it meanwhile."""
    if project is None:
        return None
    if project.state is ProjectState.UNMOUNTED and project.mount:
        return None
    if project.state is ProjectState.MISSING and not policy.keep_orphans:
        return f"its directory is gone: {project.workdir}"
    limit = policy.stale_after
    idle = now - project.last_touch
    if limit is None or idle <= limit:
        return None
    return f"untouched for more than {format_duration(limit)}: for {format_duration(idle)}"


def _by_project(items: Iterable[Item]) -> Iterator[tuple[str, list[Item]]]:
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.source].append(item)
    for project, members in sorted(groups.items()):
        members.sort(key=attrgetter("id"))
        members.sort(key=attrgetter("last_active_at"), reverse=True)
        yield project, members


def _rotated(policy: CheckpointPolicy) -> str:
    if policy.max_count is None:
        return "newer checkpoints took its place"
    return f"over the bound of {format_count(policy.max_count, 'checkpoint')}"


def _decide_trash(policy: CheckpointPolicy, item: Item, now: float) -> Decision:
    age = now - item.last_active_at
    if policy.trash_age is None:
        return Decision(item, Action.KEEP, "in the trash")
    limit = format_duration(policy.trash_age)
    if age > policy.trash_age:
        reason = f"in the trash longer than {limit}: for {format_duration(age)}"
        return Decision(item, Action.REMOVE, reason)
    return Decision(item, Action.KEEP, f"in the trash for less than {limit}")


def _decide_legacy(
    policy: CheckpointPolicy, project: Project | None, item: Item, now: float
) -> Decision:
    """Single repositories go by the rules for projects; an archive only when somebody says so."""
    reason = "asked for with --legacy" if policy.legacy else why_whole(policy, project, now)
    if reason is not None:
        return Decision(item, Action.REMOVE, reason, undoable=policy.use_trash)
    if project is None:
        return Decision(item, Action.KEEP, "archive of an older layout: it waits for you")
    return Decision(item, Action.KEEP, "repository of an older layout")


def _is_over(policy: CheckpointPolicy, inventory: CheckpointInventory) -> bool:
    return policy.max_bytes is not None and inventory.bounded_bytes > policy.max_bytes


def _given_back(space: Sequence[Item], draft: Draft, *, over: bool = False) -> Iterator[PlanItem]:
    """Worth it when something goes for good, or enough lies about that nobody holds. In a store
    `over` its cap, a little is enough."""
    unused = sum(item.bytes for item in space)
    if draft.frees or unused >= (_WORTH_OVER_CAP if over else WORTH_RECLAIMING):
        for item in space:
            yield plan_item(item, Action.RECLAIM, "objects that no checkpoint holds")

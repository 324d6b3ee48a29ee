"""The planner: turns inventory, policy and time into a plan. The same input gives the same plan.

Decisions about items of every kind are made in one order. Each can be overruled only by a later
one:

1. what is pinned, alive, named or needed for an undo stays, whatever the rules say;
2. groups that go as a whole go: projects that are stale, or whose directory is gone;
3. the rules of the group decide about the rest;
4. delegates that only their parent needed go with it; those that cannot exist without it are
   not judged on their own at all;
5. trash that has been there long enough goes;
6. caps take the fewest, oldest items in addition, trash first, and never the newest of a group.

The files of a stored session are not judged: they follow it. Only `max_age`, a group that goes as a
whole or the removal of a parent can empty a group: a keep rule always keeps the newest, and caps
spare it. What a take has hidden because of `max_snapshots` goes to the trash like everything else
that this limit takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from holdfast.errors import EmptyPolicyError, UsageError
from holdfast.model.arguments import instance
from holdfast.model.checkpoint import Project, ProjectState
from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.item import LEFTOVER, SESSION, Inventory, Item
from holdfast.model.plan import Action, Outlook, Plan, Shortfall
from holdfast.model.text import format_count, format_duration
from holdfast.policy.caps import (
    KEEP_BYTES,
    MAX_BYTES,
    MAX_COUNT,
    Shared,
    Sum,
    cap_bytes,
    cap_count,
    unreached,
)
from holdfast.policy.checkpoint_bytes import SharedBytes
from holdfast.policy.decision import Decision, kept_because
from holdfast.policy.delegates import Delegates
from holdfast.policy.draft import (
    FILES_STAY,
    Draft,
    FreeSpace,
    checkpoint_space,
    files_in_use,
    owned_files,
)
from holdfast.policy.keep_rules import (
    NO_RULE,
    PINNED,
    Group,
    apart,
    by_group,
    decide,
    decide_trash,
    hold,
    hold_parents,
    judged_trash,
    kept_with_parents,
    spare_living,
)
from holdfast.policy.rules import Caps, CheckpointPolicy, Files, Policy, Rules

_NEWEST_CHECKPOINT = "newest of its project"
NAMED = "named"
NEEDED = "needed to undo the latest restore"

_EMPTY_HINT = (
    "Say what to remove, for example --older-than 90d, or set retention_days in the configuration."
)


def plan(
    policy: Policy,
    inventory: Inventory,
    now: float,
    *,
    command: str,
    files: Files = Files.WITH,
    leaving: Action = Action.REMOVE,
) -> Plan:
    """Decide about every scanned item. Raises `EmptyPolicyError` for a policy without a rule.

    With `leaving=Action.ARCHIVE`, the sessions that the rules would remove go to the archive
    instead; files without a session stay, and caps are not applied.
    """
    draft, shortfalls = _drafted(policy, inventory, now, files, leaving)
    return draft.plan(inventory.home, now, command=command, shortfalls=shortfalls)


def outlook(policy: Policy, inventory: Inventory, now: float) -> Outlook:
    """What such a plan would remove, for callers that need only the sum."""
    draft, _ = _drafted(policy, inventory, now, Files.WITH, Action.REMOVE)
    return draft.outlook()


def plan_upkeep(
    policy: Policy, inventory: Inventory, now: float, *, command: str, why: str
) -> Plan:
    """Only empty old trash and reclaim space. Everything else stays, with the reason `why` unless
    something else holds it."""
    owned = owned_files(inventory.items)
    everything = Group(holds=partial(hold, policy, in_use=files_in_use(owned)), stays=why)
    draft = Draft(
        [
            decision
            for _, _, members in by_group(item for item in inventory.items if not item.owned)
            for decision in decide(everything, members, now, use_trash=policy.use_trash)
        ],
        trash=judged_trash(policy, inventory.trash, now),
        owned=owned,
        is_pinned=policy.pins_item,
        space=FreeSpace(items=inventory.space),
    )
    return draft.plan(inventory.home, now, command=command)


def _drafted(
    policy: Policy, inventory: Inventory, now: float, files: Files, leaving: Action
) -> tuple[Draft, Sequence[Shortfall]]:
    """All decisions, and the caps that cannot be reached."""
    instance(policy, Policy, "A policy")
    instance(inventory, Inventory, "An inventory")
    _refuse_the_meaningless(policy, files, leaving)
    owned = owned_files(inventory.items)
    group_of = _groups(policy, files_in_use(owned), _why_orphans_stay(files, leaving))
    decisions: list[Decision] = []
    alone, followers = apart(item for item in inventory.items if not item.owned)
    for kind, source, members in by_group(alone):
        decisions += decide(group_of(kind, source), members, now, use_trash=policy.use_trash)
    decisions += kept_with_parents(followers, partial(hold, policy, in_use=files_in_use(owned)))
    hold_parents(decisions)
    draft = Draft(
        decisions,
        trash=judged_trash(policy, inventory.trash, now),
        owned=owned,
        is_pinned=policy.pins_item,
        files=files,
        leaving=leaving,
        space=FreeSpace(items=inventory.space),
    )
    delegates = Delegates(decisions, policy.trivial_max)
    delegates.follow(each for each in decisions if not each.kept)
    if leaving is not Action.REMOVE:
        return draft, ()
    return draft, _apply_caps(policy, draft, delegates, inventory.overhead)


def _refuse_the_meaningless(policy: Policy, files: Files, leaving: Action) -> None:
    if leaving not in (Action.REMOVE, Action.ARCHIVE):
        raise UsageError(
            f"{leaving.value!r} is not a way to remove sessions.", hint="Use 'remove' or 'archive'."
        )
    if leaving is Action.ARCHIVE and files is not Files.WITH:
        raise UsageError(
            "A session is archived with its files.",
            hint="Leave out --files-only and --no-files, or prune instead of archiving.",
        )
    if leaving is Action.ARCHIVE and not policy.has_rules:
        raise EmptyPolicyError(
            "No rule says what to archive: neither an age nor a keep rule is set.", hint=_EMPTY_HINT
        )
    if policy.empty:
        raise EmptyPolicyError(
            "The policy is empty: no age, no keep rule and no cap is set.", hint=_EMPTY_HINT
        )


def _why_orphans_stay(files: Files, leaving: Action) -> str | None:
    if leaving is Action.ARCHIVE:
        return "only sessions are archived"
    return FILES_STAY if files is Files.NONE else None


def _groups(
    policy: Policy, in_use: Mapping[str, str], orphans_stay: str | None
) -> Callable[[str, str], Group]:
    """Return how the items of a kind and source are judged."""
    holds = partial(hold, policy, in_use=in_use)
    # A policy of caps alone, such as a budget, has a rule for no source.
    unruled = NO_RULE if policy.has_rules else "within the limits"

    def group_of(kind: str, source: str) -> Group:
        rules: Rules | None = policy.rules_for(source)
        stays = None if kind == SESSION else orphans_stay
        if kind == LEFTOVER:
            rules = policy.leftover_rules(source)
        if rules is None:
            stays = stays or "no retention is set for these leftovers"
        return Group(holds=holds, stays=stays, rules=rules or Rules(), unruled=unruled)

    return group_of


def _apply_caps(
    policy: Policy, draft: Draft, delegates: Delegates, overhead: Mapping[str, int]
) -> Sequence[Shortfall]:
    """Caps of single sources first: what they take may already satisfy the cap on everything."""
    bounds: list[tuple[str | None, Caps]] = [
        (source, limits.caps) for source, limits in sorted(policy.by_source.items())
    ]
    shortfalls: list[Shortfall] = []
    for source, caps in [*bounds, (None, policy.everywhere.caps)]:
        if not caps.empty:
            scope = _Scope(source, draft, delegates, overhead)
            shortfalls += scope.apply(
                caps, use_trash=policy.use_trash, bytes_use_trash=policy.caps_use_trash
            )
    return shortfalls


class _Scope:
    """What one set of caps applies to: everything, or one source. Leftovers have their own
    retention, and caps neither count nor take them."""

    def __init__(
        self,
        source: str | None,
        draft: Draft,
        delegates: Delegates,
        overhead: Mapping[str, int],
    ) -> None:
        self._source = source
        self._draft = draft
        self._delegates = delegates
        self._overhead = overhead
        self._members = [each for each in draft.decisions if self._covers(each)]

    def apply(self, caps: Caps, *, use_trash: bool, bytes_use_trash: bool) -> list[Shortfall]:
        label = "" if self._source is None else f" of {self._source}"
        shortfalls: list[Shortfall] = []
        if caps.max_count is not None:
            shortfalls += cap_count(
                f"{MAX_COUNT}{label}",
                caps.max_count,
                self._members,
                reason=f"over the cap of {format_count(caps.max_count, 'item')}",
                take=partial(self._take, use_trash=use_trash),
            )
        if caps.keep_bytes is not None:
            kept = self._weighing(use_trash=True)
            cap_bytes(f"{KEEP_BYTES}{label}", caps.keep_bytes, kept)
            shortfalls += unreached(f"{KEEP_BYTES}{label}", caps.keep_bytes, kept)
        if caps.max_bytes is not None:
            weighing = self._weighing(use_trash=bytes_use_trash)
            shortfalls += cap_bytes(f"{MAX_BYTES}{label}", caps.max_bytes, weighing)
        return shortfalls

    def _weighing(self, *, use_trash: bool) -> Sum:
        return Sum(
            self._members,
            [each for each in self._draft.trash if self._is_of_source(each)],
            self._remains(),
            covers=self._covers,
            delegates=self._delegates,
            use_trash=use_trash,
        )

    def _is_of_source(self, decision: Decision) -> bool:
        return self._source is None or decision.item.source == self._source

    def _covers(self, decision: Decision) -> bool:
        if decision.item.kind == LEFTOVER:
            return False
        return self._is_of_source(decision) and self._draft.counts(decision)

    def _take(self, decision: Decision, reason: str, *, use_trash: bool) -> int:
        decision.remove(reason, undoable=use_trash)
        return 1 + sum(map(self._covers, self._delegates.follow((decision,))))

    def _remains(self) -> Mapping[str, int]:
        remains: Counter[str] = Counter()
        for (origin, why), much in self._draft.remains.items():
            remains[why] += much if self._source in (None, origin) else 0
        return remains if self._source is not None else remains + Counter(self._overhead)


# --- Checkpoints ----------------------------------------------------------------------------------


def plan_checkpoints(
    policy: CheckpointPolicy, inventory: CheckpointInventory, now: float, *, command: str
) -> Plan:
    """Decide about everything in the checkpoint folder."""
    judged = partial(decide, now=now, use_trash=policy.use_trash)
    shortfalls: list[Shortfall] = []
    live: list[Decision] = []
    for _, source, members in by_group(inventory.checkpoints):
        project = inventory.projects.get(source)
        newest_first = judged(_checkpoint_group(policy, inventory, project, now), members)
        name = source if project is None else project.workdir
        shortfalls += _bound_project(policy, name, newest_first, inventory.ways_back)
        live += newest_first
    # What a take has hidden because of `max_snapshots` is only waiting to be moved to the trash.
    bound = policy.max_count
    why = "replaced by newer checkpoints" if bound is None else _over_the_bound(bound)
    rotated = [each for item in inventory.rotated for each in judged(Group(goes=why), [item])]
    legacy = [
        each
        for item in inventory.legacy
        for each in judged(_legacy_group(policy, inventory.older.get(item.id), now), [item])
    ]
    trash = [decide_trash(item, now, policy.trash_age, pinned=False) for item in inventory.trash]
    shared = SharedBytes(inventory, trash=trash, rotated=rotated, live=live, legacy=legacy)
    over = policy.max_bytes is not None and inventory.bounded_bytes > policy.max_bytes
    if policy.max_bytes is not None:
        use_trash = policy.caps_use_trash
        weighing = Shared(shared, trash, (*rotated, *live), use_trash=use_trash)
        shortfalls += cap_bytes(f"{MAX_BYTES} of checkpoints", policy.max_bytes, weighing)
    draft = Draft(
        (*rotated, *live, *legacy),
        trash=trash,
        shared=shared,
        space=checkpoint_space(inventory, over=over),
    )
    return draft.plan(inventory.home, now, command=command, shortfalls=shortfalls)


def why_whole(policy: CheckpointPolicy, project: Project | None, now: float) -> str | None:
    """Why a project goes as a whole. A missing directory is not a reason if it may come back with
    its disk. While the disk is known to be absent, idleness is not a reason either."""
    if project is None:
        return None
    if project.state in (ProjectState.UNMOUNTED, ProjectState.UNKNOWN) and project.mount:
        return None
    if project.state is ProjectState.MISSING and not policy.keep_orphans:
        return f"its directory is gone: {project.workdir}"
    limit = policy.stale_after
    idle = now - project.last_touch
    if limit is None or idle <= limit:
        return None
    return (
        f"untouched for more than {format_duration(limit)}: last used {format_duration(idle)} ago"
    )


def _checkpoint_group(
    policy: CheckpointPolicy, inventory: CheckpointInventory, project: Project | None, now: float
) -> Group:
    def holds(item: Item) -> Decision | None:
        if item.pinned:
            return kept_because(item, PINNED)
        name = inventory.names.get(item.id)
        if name is not None:
            return Decision(item, Action.KEEP, f"{NAMED}: {name}", held=NAMED)
        return spare_living(item, {})

    def spares(item: Item) -> Decision | None:
        """What an undo of the latest rollback needs stays as long as trash does."""
        moment, limit = inventory.needed.get(item.id), policy.trash_age
        if moment is None or (limit is not None and now - moment > limit):
            return None
        return kept_because(item, NEEDED)

    return Group(
        holds=holds,
        goes=why_whole(policy, project, now),
        spares=spares,
        rules=policy.rules,
        unruled="within the limits",
        newest=_NEWEST_CHECKPOINT,
    )


def _legacy_group(policy: CheckpointPolicy, project: Project | None, now: float) -> Group:
    """A single repository is judged by the rules for projects; an archive goes only if the user
    asks."""
    goes = "left by an older layout" if policy.legacy else why_whole(policy, project, now)
    archive = "archive of an older layout: it stays until you clear it"
    return Group(goes=goes, stays=archive if project is None else "repository of an older layout")


def _bound_project(
    policy: CheckpointPolicy,
    name: str,
    newest_first: Sequence[Decision],
    ways_back: Collection[str],
) -> list[Shortfall]:
    """Remove the oldest checkpoints of a project beyond the limit on their number. The ones to go
    back to before its last run count, but others go in their place."""
    if policy.max_count is None:
        return []
    others = [each for each in newest_first if each.item.id not in ways_back]
    spared = sum(each.kept for each in newest_first if each.item.id in ways_back)
    limit = policy.max_count
    if spared:  # the newest stays as well, or is itself one of these
        limit = max(int(newest_first[0] in others), limit - spared)

    def take(decision: Decision, reason: str) -> int:
        decision.remove(reason, undoable=policy.use_trash)
        return 1

    return cap_count(
        f"max_snapshots of {name}",
        limit,
        others,
        reason=_over_the_bound(policy.max_count),
        take=take,
        order=reversed,
    )


def _over_the_bound(limit: int) -> str:
    return f"over the limit of {format_count(limit, 'checkpoint')}"

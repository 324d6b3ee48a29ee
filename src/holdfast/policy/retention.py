"""The planner: inventory, policy and time in, a plan out. The same in gives the same out.

Order of the decisions, each of which can only be overruled by the next:

1. pinned and living items stay, whatever the rules say;
2. the rules of the item's source decide about the rest, group by group;
3. delegates that only their parent needed go with it;
4. trash that has been there long enough goes;
5. caps take the fewest, oldest items on top, trash first, and never a group's newest.

The files of a stored session are not judged: they follow it. Only `max_age`, or the end of a
parent, can empty a group: a keep rule always keeps the newest, and caps spare it.

A reason reads "rule" or "rule: detail", so that reasons can be counted by rule.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter

from holdfast.errors import EmptyPolicyError, UsageError
from holdfast.model.given import instance
from holdfast.model.inventory import Inventory
from holdfast.model.item import SESSION, Item
from holdfast.model.plan import Action, Outlook, Plan, Shortfall
from holdfast.model.units import format_duration
from holdfast.policy.caps import Scope, cap_bytes, cap_count
from holdfast.policy.decision import PINNED, REASONS, Decision, hold
from holdfast.policy.draft import FILES_STAY, Draft, files_in_use, owned_files
from holdfast.policy.keep import kept_by_rules
from holdfast.policy.lineage import Delegates
from holdfast.policy.rules import Caps, Files, Policy, Rules

_EMPTY_HINT = (
    "Say what may go, for example --older-than 90d, or set retention_days in the configuration."
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

    With `leaving=Action.ARCHIVE`, sessions go to the archive that would have gone by the rules;
    files without a session stay, and caps say nothing.
    """
    draft, trash, shortfalls = _drafted(policy, inventory, now, files, leaving)
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=draft.plan_items(trash, inventory.space),
        shortfalls=tuple(shortfalls),
    )


def plan_upkeep(
    policy: Policy, inventory: Inventory, now: float, *, command: str, why: str
) -> Plan:
    """Only empty trash whose time is over, and give space back. Everything else stays, and says
    `why` unless something else holds it."""
    owned = owned_files(inventory.items)
    items = sorted(
        (item for item in inventory.items if not item.owned),
        key=lambda item: (item.group, -item.last_active_at, item.id),
    )
    decisions = list(_decide_stay(policy, items, why, files_in_use(owned)))
    draft = Draft(
        decisions, owned, is_pinned=policy.pins_item, files=Files.WITH, leaving=Action.REMOVE
    )
    trash = [_decide_trash(policy, item, now) for item in inventory.trash]
    return Plan(
        home=inventory.home,
        command=command,
        made_at=now,
        items=draft.plan_items(trash, inventory.space),
    )


def outlook(policy: Policy, inventory: Inventory, now: float) -> Outlook:
    """What such a plan would remove, without the plan: for those who only want the sum."""
    draft, trash, _ = _drafted(policy, inventory, now, Files.WITH, Action.REMOVE)
    return draft.outlook(trash)


def _drafted(
    policy: Policy, inventory: Inventory, now: float, files: Files, leaving: Action
) -> tuple[Draft, list[Decision], Iterable[Shortfall]]:
    """All decisions: those of items, those of trash, and the caps that cannot be reached."""
    instance(policy, Policy, "A policy")
    instance(inventory, Inventory, "An inventory")
    _refuse_the_meaningless(policy, files, leaving)
    owned = owned_files(inventory.items)
    in_use = files_in_use(owned)
    orphans_stay = _why_orphans_stay(files, leaving)
    decisions = _decide_items(policy, inventory.items, in_use, now, orphans_stay=orphans_stay)
    pinned = policy.pins_item
    draft = Draft(decisions, owned, is_pinned=pinned, files=files, leaving=leaving)
    delegates = Delegates(decisions, policy.trivial_max)
    delegates.follow(each for each in decisions if not each.kept)
    trash = [_decide_trash(policy, item, now) for item in inventory.trash]
    capped = leaving is Action.REMOVE
    shortfalls = _apply_caps(policy, draft, delegates, trash, inventory.overhead) if capped else ()
    return draft, trash, shortfalls


def plan_all(
    items: Iterable[Item],
    home: str,
    now: float,
    *,
    command: str,
    reason: str,
    undoable: bool = False,
) -> Plan:
    """A plan that removes just these items, because somebody named them."""
    return Plan(
        home=home,
        command=command,
        made_at=now,
        items=tuple(
            Decision(item, Action.REMOVE, reason, undoable=undoable).as_plan_item()
            for item in items
        ),
    )


def _refuse_the_meaningless(policy: Policy, files: Files, leaving: Action) -> None:
    if leaving not in (Action.REMOVE, Action.ARCHIVE):
        raise UsageError(f"Sessions do not leave by {leaving.value!r}: remove or archive them.")
    if leaving is Action.ARCHIVE and files is not Files.WITH:
        raise UsageError(
            "A session is archived with its files.",
            hint="Leave out --files-only and --no-files, or prune instead of archiving.",
        )
    if leaving is Action.ARCHIVE and not policy.has_rules:
        raise EmptyPolicyError(
            "Nothing says what to archive: no age and no keep rule is set.", hint=_EMPTY_HINT
        )
    if policy.empty:
        raise EmptyPolicyError(
            "The policy is empty: no age, no keep rule and no cap is set.", hint=_EMPTY_HINT
        )


def _why_orphans_stay(files: Files, leaving: Action) -> str | None:
    if leaving is Action.ARCHIVE:
        return "only sessions are archived"
    return FILES_STAY if files is Files.NONE else None


def _decide_items(
    policy: Policy,
    items: Iterable[Item],
    in_use: Mapping[str, str],
    now: float,
    *,
    orphans_stay: str | None,
) -> list[Decision]:
    groups: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in items:
        if not item.owned:
            groups[item.group].append(item)
    decisions: list[Decision] = []
    for (kind, source), members in sorted(groups.items()):
        members.sort(key=attrgetter("id"))  # the first of equals counts as the newest
        members.sort(key=attrgetter("last_active_at"), reverse=True)
        if kind != SESSION and orphans_stay is not None:
            decided = _decide_stay(policy, members, orphans_stay, {})
        else:
            decided = _decide_group(policy, policy.rules_for(source), members, in_use, now)
        decisions += decided
    return decisions


def _decide_stay(
    policy: Policy, items: Iterable[Item], why: str, in_use: Mapping[str, str]
) -> Iterator[Decision]:
    for item in items:
        yield hold(policy, item, in_use) or Decision(item, Action.KEEP, why, held=why)


def _decide_group(
    policy: Policy, rules: Rules, newest_first: list[Item], in_use: Mapping[str, str], now: float
) -> Iterator[Decision]:
    kept = kept_by_rules(rules, newest_first, now)
    lawless = rules.empty
    for place, item in enumerate(newest_first):
        # Pinned and living items take their places in the keep rules like any other: they are
        # among "the last five" too.
        decision = hold(policy, item, in_use)
        if decision is None and lawless:
            decision = Decision(item, Action.KEEP, "no rule for this source")
        elif decision is None:
            decision = _judge(rules, item, kept[place], now, use_trash=policy.use_trash)
        decision.newest = place == 0
        yield decision


def _judge(rules: Rules, item: Item, kept: str | None, now: float, *, use_trash: bool) -> Decision:
    if kept is not None:
        return Decision(item, Action.KEEP, kept)
    if rules.max_age is None:
        return Decision(item, Action.REMOVE, "not kept by any keep rule", undoable=use_trash)
    age = now - item.last_active_at
    if age <= rules.max_age:
        return Decision(item, Action.KEEP, _active_within(rules.max_age))
    reason = _older_than(rules.max_age, format_duration(age))
    return Decision(item, Action.REMOVE, reason, undoable=use_trash)


@lru_cache(REASONS)
def _active_within(limit: float) -> str:
    return f"active within {format_duration(limit)}"


@lru_cache(REASONS)
def _older_than(limit: float, ago: str) -> str:
    return f"older than {format_duration(limit)}: last active {ago} ago"


def _decide_trash(policy: Policy, item: Item, now: float) -> Decision:
    if policy.pins_item(item):
        return Decision(item, Action.KEEP, PINNED, held=PINNED)
    age = now - item.last_active_at
    if policy.trash_age is None:
        return Decision(item, Action.KEEP, "in the trash")
    limit = format_duration(policy.trash_age)
    if age > policy.trash_age:
        reason = f"in the trash longer than {limit}: for {format_duration(age)}"
        return Decision(item, Action.REMOVE, reason, undoable=False)
    return Decision(item, Action.KEEP, f"in the trash for less than {limit}")


def _apply_caps(
    policy: Policy,
    draft: Draft,
    delegates: Delegates,
    trash: list[Decision],
    overhead: Mapping[str, int],
) -> Iterable[Shortfall]:
    """Caps of single sources first: what they take may already satisfy the cap on everything."""
    shortfalls: list[Shortfall] = []
    bounds: list[tuple[str | None, Caps]] = [
        (source, limits.caps) for source, limits in sorted(policy.by_source.items())
    ]
    for source, caps in [*bounds, (None, policy.everywhere.caps)]:
        if caps.empty:
            continue
        scope = _scope(source, draft, delegates, trash)
        if source is None:
            scope = replace(scope, remains=Counter(scope.remains) + Counter(overhead))
        if caps.max_count is not None:
            shortfalls += cap_count(scope, caps.max_count, use_trash=policy.use_trash)
        if caps.max_bytes is not None:
            shortfalls += cap_bytes(scope, caps.max_bytes)
    return shortfalls


def _scope(
    source: str | None, draft: Draft, delegates: Delegates, trash: Iterable[Decision]
) -> Scope:
    def is_of_source(decision: Decision) -> bool:
        return source is None or decision.item.source == source

    def covers(decision: Decision) -> bool:
        return is_of_source(decision) and draft.counts(decision)

    remains: Counter[str] = Counter()
    for (origin, why), much in draft.remains.items():
        remains[why] += much if source in (None, origin) else 0
    return Scope(
        label="" if source is None else f" of {source}",
        covers=covers,
        members=[each for each in draft.decisions if covers(each)],
        trash=[each for each in trash if is_of_source(each)],
        remains=remains,
        delegates=delegates,
    )

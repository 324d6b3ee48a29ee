"""What must hold of every plan, whatever the inventory and the policy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import EmptyPolicyError
from holdfast.model.item import TRASH, Inventory, Item
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.policy import planner
from holdfast.policy.rules import Caps, Limits, Policy, Rules
from tests.builders import NOW, a_policy, an_inventory, limits
from tests.property.keep_model import kept_by_each_rule
from tests.property.strategies import (
    CALENDAR,
    KEEP_RULES,
    KINDS,
    MOMENTS,
    RULES,
    SET_RULES,
    SOURCES,
    TIES,
    UNPROTECTED,
    inventories,
    items,
    policies,
    several,
)

NO_CAPS = RULES.map(lambda rules: Limits(rules=rules))
RULES_ONLY_BY_SOURCE = st.dictionaries(st.sampled_from(SOURCES), NO_CAPS, max_size=2)
#: A cap that nothing reaches: it makes any policy a policy, and takes nothing.
NEVER_REACHED = 2**62
#: How the reasons of those begin that a rule keeps, by the name of the rule.
KEEP_WORDS: dict[str, str | tuple[str, ...]] = {
    "active within": "active within",
    "last": ("among the last", "the last one"),
    "within": "within",
    "hourly": "newest of its hour",
    "daily": "newest of its day",
    "weekly": "newest of its week",
    "monthly": "newest of its month",
    "yearly": "newest of its year",
}


def plan(policy: Policy, inventory: Inventory) -> Plan:
    return planner.plan(policy, inventory, NOW, command="test")


def key(item: Item | PlanItem) -> tuple[str, str]:
    return item.kind, item.id


def keys(items: Iterable[Item | PlanItem]) -> set[tuple[str, str]]:
    return {key(item) for item in items}


def stays_on_disk(made: Plan) -> Iterator[PlanItem]:
    """Kept, in the trash or not, or about to move to the trash."""
    yield from made.kept
    yield from (item for item in made.removals if item.undoable)


# --- Every plan -----------------------------------------------------------------------------------


@given(inventories(), policies())
def test_every_scanned_item_is_kept_or_removed_once(inventory: Inventory, policy: Policy) -> None:
    made = plan(policy, inventory)
    decided = Counter(map(key, made.kept)) + Counter(map(key, made.removals))
    assert decided == Counter(map(key, inventory.everything))


@given(inventories(), policies())
def test_a_decision_carries_what_was_judged(inventory: Inventory, policy: Policy) -> None:
    seen = {key(item): item for item in inventory.everything}
    for decided in plan(policy, inventory).items:
        item = seen[key(decided)]
        for field in ("source", "bytes", "last_active_at", "version"):
            assert getattr(decided, field) == getattr(item, field)


@given(inventories(), policies())
def test_every_decision_has_a_reason(inventory: Inventory, policy: Policy) -> None:
    for item in plan(policy, inventory).items:
        assert item.reason.strip()
        assert item.rule.strip()


@given(inventories(), policies())
def test_the_same_in_gives_the_same_out(inventory: Inventory, policy: Policy) -> None:
    assert plan(policy, inventory) == plan(policy, inventory)


@given(st.data(), inventories(last_active_at=TIES), policies())
def test_the_order_of_the_scan_does_not_matter(
    data: st.DataObject, inventory: Inventory, policy: Policy
) -> None:
    shuffled = replace(
        inventory,
        items=tuple(data.draw(st.permutations(inventory.items))),
        trash=tuple(data.draw(st.permutations(inventory.trash))),
    )
    one, other = plan(policy, inventory), plan(policy, shuffled)
    assert set(one.items) == set(other.items)
    assert one.shortfalls == other.shortfalls


@given(inventories(), policies())
def test_pinned_and_living_items_stay(inventory: Inventory, policy: Policy) -> None:
    removed = keys(plan(policy, inventory).removals)
    protected = [
        item for item in inventory.everything if policy.pins_item(item) or item.alive is not None
    ]
    assert removed.isdisjoint(keys(protected))


@given(inventories(), policies())
def test_only_age_empties_a_group(inventory: Inventory, policy: Policy) -> None:
    kept = {(item.kind, item.source) for item in plan(policy, inventory).kept}
    emptied = [item for item in inventory.items if item.group not in kept]
    for item in emptied:
        rules = policy.rules_for(item.source)
        assert rules == Rules(max_age=rules.max_age), "a keep rule keeps the newest at least"
        assert rules.max_age is not None
        assert NOW - item.last_active_at > rules.max_age


@given(inventories(), policies(use_trash=st.just(False)))
def test_without_the_trash_no_removal_can_be_undone(inventory: Inventory, policy: Policy) -> None:
    assert not any(item.undoable for item in plan(policy, inventory).items)


@given(inventories(), policies())
def test_only_removals_of_what_is_no_trash_can_be_undone(
    inventory: Inventory, policy: Policy
) -> None:
    made = plan(policy, inventory)
    assert not any(item.undoable for item in made.kept)
    assert not any(item.undoable for item in made.removals if item.kind == TRASH)


@given(
    inventories(),
    policies(
        everywhere=st.just(Limits()),
        by_source=st.dictionaries(st.sampled_from(SOURCES), st.just(Limits())),
        empty=True,
    ),
)
def test_an_empty_policy_is_refused(inventory: Inventory, policy: Policy) -> None:
    with pytest.raises(EmptyPolicyError) as refused:
        plan(policy, inventory)
    assert refused.value.hint


@given(inventories(), policies())
def test_a_plan_survives_json(inventory: Inventory, policy: Policy) -> None:
    made = plan(policy, inventory)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


# --- Keep rules -----------------------------------------------------------------------------------


@given(several(items(**UNPROTECTED, last_active_at=CALENDAR | MOMENTS)), SET_RULES)
def test_keep_rules_keep_what_the_model_keeps(scanned: list[Item], rules: Rules) -> None:
    made = plan(Policy(everywhere=Limits(rules=rules)), an_inventory(*scanned))
    expected = {rule: set[tuple[str, str]]() for rule in KEEP_WORDS}
    for kind in KINDS:
        for source in SOURCES:
            group = [item for item in scanned if item.group == (kind, source)]
            for rule, kept in kept_by_each_rule(rules, group, NOW).items():
                expected[rule] |= keys(kept)
    if rules.max_age is not None:
        young = [item for item in scanned if NOW - item.last_active_at <= rules.max_age]
        expected["active within"] |= keys(young)
    assert keys(made.kept) == set().union(*expected.values())
    for item in made.kept:
        named = next(rule for rule, words in KEEP_WORDS.items() if item.reason.startswith(words))
        assert key(item) in expected[named], f"{item.reason!r} names a rule that does not keep it"


@dataclass(frozen=True)
class MoreKept:
    """Rules, and the same rules with one keep rule turned on or up."""

    before: Rules
    after: Rules


@st.composite
def one_more_keep_rule(draw: st.DrawFn) -> MoreKept:
    before = draw(SET_RULES)
    name = draw(st.sampled_from(sorted(KEEP_RULES)))
    value = draw(KEEP_RULES[name])
    changed: dict[str, Any] = {name: (getattr(before, name) or 0) + value}
    return MoreKept(before=before, after=replace(before, **changed))


@given(inventories(), one_more_keep_rule(), policies(by_source=RULES_ONLY_BY_SOURCE))
def test_one_more_keep_rule_removes_nothing_more(
    inventory: Inventory, rules: MoreKept, policy: Policy
) -> None:
    """Without caps: over a cap, an item that is kept now may cost an older one its place."""
    before, after = (
        plan(replace(policy, everywhere=Limits(rules=each)), inventory)
        for each in (rules.before, rules.after)
    )
    assert keys(after.removals) <= keys(before.removals)


@given(inventories(), one_more_keep_rule(), st.integers(0, 8))
def test_one_more_keep_rule_under_a_count_cap_removes_no_more_items(
    inventory: Inventory, rules: MoreKept, limit: int
) -> None:
    before, after = (
        plan(Policy(everywhere=Limits(rules=each, caps=Caps(max_count=limit))), inventory)
        for each in (rules.before, rules.after)
    )
    assert len(after.removals) <= len(before.removals)


# --- Caps -----------------------------------------------------------------------------------------


def usage_of_caps(policy: Policy, made: Plan) -> Iterator[tuple[str, int, int]]:
    """The name of every cap that is set, its limit, and what the plan leaves under it."""
    scopes = {"": policy.everywhere} | {
        f" of {source}": own for source, own in policy.by_source.items()
    }
    for label, scope in scopes.items():
        source = label.removeprefix(" of ")
        if scope.caps.max_count is not None:
            kept = [each for each in made.kept if each.kind != TRASH]
            count = sum(source in ("", each.source) for each in kept)
            yield f"max_count{label}", scope.caps.max_count, count
        if scope.caps.max_bytes is not None:
            staying = [each for each in stays_on_disk(made) if source in ("", each.source)]
            total = sum(each.bytes for each in staying)
            yield f"max_total_size{label}", scope.caps.max_bytes, total


@given(inventories(), policies())
def test_caps_hold_or_the_plan_says_what_is_in_the_way(
    inventory: Inventory, policy: Policy
) -> None:
    made = plan(policy, inventory)
    over = {
        name: (limit, used) for name, limit, used in usage_of_caps(policy, made) if used > limit
    }
    said = {each.cap: (each.limit, each.remaining) for each in made.shortfalls}
    assert said == over
    assert len(made.shortfalls) == len(said)
    for shortfall in made.shortfalls:
        assert sum(shortfall.held_by.values()) == shortfall.remaining


def protected(policy: Policy, inventory: Inventory) -> set[tuple[str, str]]:
    """What no cap may take: pinned, living, and each group's newest."""
    newest: dict[tuple[str, str], Item] = {}
    for item in sorted(inventory.items, key=lambda each: (-each.last_active_at, each.id)):
        newest.setdefault(item.group, item)
    held = [item for item in inventory.everything if policy.pins_item(item) or item.alive]
    return keys([*held, *newest.values()])


def oldest_first(items: Iterable[PlanItem]) -> list[PlanItem]:
    return sorted(items, key=lambda each: (each.last_active_at, each.id, each.kind))


@given(
    inventories(),
    policies(everywhere=NO_CAPS, by_source=RULES_ONLY_BY_SOURCE, empty=True),
    st.integers(0, 8),
)
def test_a_count_cap_takes_the_oldest_and_no_more_than_it_must(
    inventory: Inventory, policy: Policy, limit: int
) -> None:
    free, capped = (plan(with_caps(policy, max_count=n), inventory) for n in (NEVER_REACHED, limit))
    held = protected(policy, inventory)
    may_go = [each for each in free.kept if each.kind != TRASH and key(each) not in held]
    gone = keys(capped.removals) - keys(free.removals)
    taken = oldest_first(each for each in capped.removals if key(each) in gone)
    left = sum(each.kind != TRASH for each in capped.kept)
    assert list(map(key, taken)) == list(map(key, oldest_first(may_go)[: len(taken)]))
    if taken:
        assert left + 1 > limit, "the youngest that was taken could have stayed"
    assert all(each.undoable == policy.use_trash for each in taken)
    assert nothing_else_was_decided(free, capped, taken)


@given(
    inventories(),
    policies(everywhere=NO_CAPS, by_source=RULES_ONLY_BY_SOURCE, empty=True),
    st.integers(0, 40).map(lambda tens: 10 * tens) | st.integers(0, 900),
)
def test_a_byte_cap_takes_trash_then_what_goes_there_then_the_oldest_and_no_more_than_it_must(
    inventory: Inventory, policy: Policy, limit: int
) -> None:
    """Oldest first may take a small item before a large one that alone would have been enough;
    what it may not do is go on after the cap is met, so the last one taken was needed."""
    free, capped = (plan(with_caps(policy, max_bytes=n), inventory) for n in (NEVER_REACHED, limit))
    held = protected(policy, inventory)
    may_go = [each for each in free.kept if key(each) not in held]
    order = [
        *oldest_first(each for each in may_go if each.kind == TRASH),
        *oldest_first(each for each in free.removals if each.undoable),
        *oldest_first(each for each in may_go if each.kind != TRASH),
    ]
    order = [each for each in order if each.bytes > 0]
    staying = keys(stays_on_disk(capped))
    gone = keys(stays_on_disk(free)) - staying
    left = sum(each.bytes for each in stays_on_disk(capped))
    assert gone == keys(order[: len(gone)])
    if gone:
        assert left + order[len(gone) - 1].bytes > limit, "the last one taken could have stayed"
    taken = [each for each in capped.items if key(each) in gone]
    assert not any(each.undoable for each in taken), "moving it to the trash would free nothing"
    assert nothing_else_was_decided(free, capped, taken)


def nothing_else_was_decided(free: Plan, capped: Plan, taken: Iterable[PlanItem]) -> bool:
    """Apart from what the cap took. A cap that cannot be met gives another reason for staying."""

    def decided(items: Iterable[PlanItem]) -> set[PlanItem]:
        return {replace(each, reason="") if each.action is Action.KEEP else each for each in items}

    return decided(set(capped.items) - set(taken)) <= decided(free.items)


def with_caps(policy: Policy, **caps: int) -> Policy:
    return replace(policy, everywhere=replace(policy.everywhere, caps=Caps(**caps)))


@given(inventories(), st.sampled_from(SOURCES), st.integers(0, 8), st.integers(0, 600))
def test_the_caps_of_a_source_leave_other_sources_alone(
    inventory: Inventory, source: str, max_count: int, max_bytes: int
) -> None:
    policy = a_policy(by_source={source: limits(max_count=max_count, max_bytes=max_bytes)})
    assert {item.source for item in plan(policy, inventory).removals} <= {source}

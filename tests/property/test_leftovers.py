"""Leftovers are items like any other, with a retention of their own and nothing else."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.model.item import LEFTOVER, Inventory, Item
from holdfast.model.plan import PlanItem
from holdfast.policy.cap_use import cap_uses
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Files, Limits, Policy, Rules
from tests.builders import NOW
from tests.property import strategies

#: A leftover of source "cli" must not be taken for a session of that source.
SOURCES = ("debug_logs", "caches", "cli")
LEFTOVERS = strategies.several(
    strategies.items(kind=st.just(LEFTOVER), source=st.sampled_from(SOURCES))
)
RETENTION = st.dictionaries(st.sampled_from(SOURCES), strategies.SET_RULES, max_size=2)


def planned(
    policy: Policy, inventory: Inventory, files: Files = Files.WITH
) -> tuple[PlanItem, ...]:
    return plan(policy, inventory, NOW, command="prune", files=files).items


def with_leftovers(inventory: Inventory, leftovers: list[Item]) -> Inventory:
    return replace(inventory, items=(*inventory.items, *leftovers))


@given(strategies.session_policies(), strategies.stored_inventories(), LEFTOVERS, RETENTION)
def test_they_change_nothing_about_other_items(
    policy: Policy, inventory: Inventory, leftovers: list[Item], retention: dict[str, Rules]
) -> None:
    policy = replace(policy, leftovers=retention)
    both = plan(policy, with_leftovers(inventory, leftovers), NOW, command="prune")
    alone = plan(policy, inventory, NOW, command="prune")
    assert tuple(item for item in both.items if item.kind != LEFTOVER) == alone.items
    assert both.shortfalls == alone.shortfalls
    assert cap_uses(policy, with_leftovers(inventory, leftovers)) == cap_uses(policy, inventory)


@given(strategies.policies(), LEFTOVERS)
def test_without_a_retention_they_stay(policy: Policy, leftovers: list[Item]) -> None:
    inventory = with_leftovers(Inventory(home="/h", items=()), leftovers)
    assert not [item for item in planned(policy, inventory) if item.action != "keep"]


@given(strategies.SET_RULES, LEFTOVERS, st.booleans())
def test_their_own_rules_decide_as_those_of_a_source_do(
    rules: Rules, leftovers: list[Item], use_trash: bool
) -> None:
    mine = [replace(item, source="caches") for item in leftovers]
    inventory = Inventory(home="/h", items=tuple(mine))
    found = planned(Policy(leftovers={"caches": rules}, use_trash=use_trash), inventory)
    others = replace(inventory, items=tuple(replace(item, kind="transcript") for item in mine))
    by_source = {"caches": Limits(rules=rules)}
    expected = planned(Policy(by_source=by_source, use_trash=use_trash), others)
    assert found == tuple(replace(item, kind=LEFTOVER) for item in expected)


@given(LEFTOVERS)
def test_a_run_that_spares_files_spares_them(leftovers: list[Item]) -> None:
    assume(leftovers)
    policy = Policy(leftovers=dict.fromkeys(SOURCES, Rules(max_age=0.0)))
    inventory = with_leftovers(Inventory(home="/h", items=()), leftovers)
    assert not [each for each in planned(policy, inventory, files=Files.NONE) if each.undoable]


def test_the_rules_of_a_run_do_not_replace_their_retention() -> None:
    old = Item(
        kind=LEFTOVER,
        id="debug/1.log",
        source="debug_logs",
        bytes=9,
        last_active_at=NOW - 20 * DAY,
        version="v1",
    )
    inventory = Inventory(home="/h", items=(old,))
    policy = Policy(leftovers={"debug_logs": Rules(max_age=30 * DAY)})
    [item] = planned(policy.with_own(Rules(max_age=DAY)), inventory)
    assert item.reason == "active within 30 d"
    [item] = planned(Policy().with_own(Rules(max_age=DAY)), inventory)
    assert item.reason == "no retention is set for these leftovers"

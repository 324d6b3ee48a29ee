"""What must hold of every plan for stored sessions: with their files, lineages and ends."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.errors import EmptyPolicyError
from holdfast.model.item import SESSION, SPACE, TRASH, Inventory, Item
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.policy import planner
from holdfast.policy.lifecycle import LeaseCount, session_life
from holdfast.policy.plan_by_name import plan_endings, plan_named
from holdfast.policy.rules import DAY, Files, GcRules, Limits, Policy
from holdfast.policy.trivial_sessions import plan_gc
from tests.builders import NOW
from tests.property import session_plan_model as model
from tests.property.strategies import (
    CALENDAR,
    CAPS,
    GC_RULES,
    SESSION_IDS,
    SOURCES,
    TIES,
    families,
    session_policies,
    stored_inventories,
)

MODES = st.sampled_from(Files)
CAPPED = CAPS.map(lambda caps: Limits(caps=caps))
LEFT = (Action.REMOVE, Action.ARCHIVE)


def plan(policy: Policy, inventory: Inventory, files: Files = Files.WITH) -> Plan:
    return planner.plan(policy, inventory, NOW, command="test", files=files)


def capped() -> st.SearchStrategy[Policy]:
    """Nothing but caps: whoever goes along with its parent counts for them."""
    return session_policies(
        everywhere=CAPPED,
        by_source=st.dictionaries(st.sampled_from(SOURCES), CAPPED, max_size=2),
        pins=st.just(()),
        trivial_max=st.integers(1, 3),
    )


def archive(policy: Policy, inventory: Inventory) -> Plan:
    return planner.plan(policy, inventory, NOW, command="test", leaving=Action.ARCHIVE)


def collect(rules: GcRules, policy: Policy, inventory: Inventory) -> Plan:
    return plan_gc(rules, policy, inventory, NOW, command="test")


def decided(made: Plan) -> dict[model.Key, tuple[Action, bool, str]]:
    return {
        (item.kind, item.id): (item.action, item.undoable, item.goes_with) for item in made.items
    }


def stored(inventory: Inventory) -> dict[str, Item]:
    return {item.id: item for item in inventory.items if item.kind == SESSION}


def file_in_use(inventory: Inventory, name: str) -> bool:
    mine = (item for item in inventory.items if item.owned and item.session == name)
    return any(item.alive is not None for item in mine)


def in_use(inventory: Inventory, name: str) -> bool:
    return stored(inventory)[name].alive is not None or file_in_use(inventory, name)


def sessions_of(made: Plan) -> dict[str, PlanItem]:
    return {item.id: item for item in made.items if item.kind == SESSION}


# --- Against the model ----------------------------------------------------------------------------


@given(
    stored_inventories() | stored_inventories(last_active_at=CALENDAR), session_policies(), MODES
)
def test_a_plan_is_that_of_the_model(inventory: Inventory, policy: Policy, files: Files) -> None:
    made = plan(policy, inventory, files)
    expected = model.prune(policy, inventory, NOW, files=files)
    assert decided(made) == model.decisions(expected)
    assert {each.cap: (each.limit, each.remaining) for each in made.shortfalls} == expected.short
    for shortfall in made.shortfalls:
        assert sum(shortfall.held_by.values()) == shortfall.remaining


@given(
    stored_inventories() | families(),
    session_policies(trivial_max=st.integers(0, 3)) | capped(),
)
def test_an_outlook_is_the_sum_of_the_plan(inventory: Inventory, policy: Policy) -> None:
    made = plan(policy, inventory)
    seen = planner.outlook(policy, inventory, NOW)
    assert (seen.removals, seen.bytes) == (len(made.removals), made.bytes)
    if not seen.in_rows:
        assert seen.later == sum(each.bytes for each in made.removals if each.undoable)


@settings(max_examples=100)
@given(families(), session_policies(trivial_max=st.integers(0, 3)) | capped(), MODES)
def test_families_go_as_the_model_says(inventory: Inventory, policy: Policy, files: Files) -> None:
    made = plan(policy, inventory, files)
    expected = model.prune(policy, inventory, NOW, files=files)
    assert decided(made) == model.decisions(expected)
    assert {each.cap: (each.limit, each.remaining) for each in made.shortfalls} == expected.short


@given(stored_inventories(), session_policies().filter(lambda policy: policy.has_rules))
def test_archiving_is_that_of_the_model(inventory: Inventory, policy: Policy) -> None:
    made = archive(policy, inventory)
    assert decided(made) == model.decisions(model.prune(policy, inventory, NOW, archiving=True))
    assert made.shortfalls == ()


@given(stored_inventories(), GC_RULES, session_policies())
def test_gc_is_that_of_the_model(inventory: Inventory, rules: GcRules, policy: Policy) -> None:
    assume(not rules.empty)
    # Only sessions, their files and the space are any business of gc.
    items = tuple(item for item in inventory.items if item.owned or item.kind == SESSION)
    expected = model.gc(rules, policy, replace(inventory, items=items, trash=()), NOW)
    assert decided(collect(rules, policy, inventory)) == model.decisions(expected)


@given(stored_inventories(), st.sets(st.sampled_from(SESSION_IDS)), st.sampled_from(LEFT))
def test_who_is_named_goes_unless_it_lives(
    inventory: Inventory, ids: set[str], action: Action
) -> None:
    made = plan_named(
        ids, inventory, NOW, command="x", reason="asked", undoable=True, action=action
    )
    named = {name: item for name, item in stored(inventory).items() if name in ids}
    assert sessions_of(made).keys() == named.keys()
    for name, item in sessions_of(made).items():
        left = named[name].abandoned is not None and not file_in_use(inventory, name)
        deleted = left and action is Action.REMOVE
        assert item.without_end is deleted
        assert item.action is (action if deleted or not in_use(inventory, name) else Action.KEEP)
    for item in made.items:
        if item.kind not in (SESSION, SPACE):
            goes = sessions_of(made)[item.session].action is action
            assert item.action is (Action.REMOVE if goes else Action.KEEP)
            assert item.undoable is (goes and action is Action.REMOVE)


# --- Whatever the model says ----------------------------------------------------------------------


@given(stored_inventories(), session_policies(), MODES)
def test_everything_selected_is_in_the_plan_once(
    inventory: Inventory, policy: Policy, files: Files
) -> None:
    made = plan(policy, inventory, files)
    there = stored(inventory)
    expected = [
        (item.kind, item.id)
        for item in (*inventory.items, *inventory.trash)
        if not item.owned or item.session in there
    ]
    assert Counter((i.kind, i.id) for i in made.items if i.kind != SPACE) == Counter(expected)
    assert Counter(made.kept) + Counter(made.steps) == Counter(made.items)


@given(stored_inventories(), session_policies(), MODES)
def test_the_living_and_the_pinned_never_go(
    inventory: Inventory, policy: Policy, files: Files
) -> None:
    gone = {(item.kind, item.id) for item in plan(policy, inventory, files).removals}
    for item in inventory.items:
        if item.alive is not None or policy.pins_item(item):
            assert (item.kind, item.id) not in gone
        if item.owned and item.alive is not None:
            assert (SESSION, item.session) not in gone, "somebody works with its file"


@given(stored_inventories(), session_policies())
def test_a_file_goes_only_with_its_session(inventory: Inventory, policy: Policy) -> None:
    made = plan(policy, inventory)
    owned = {item.id for item in inventory.items if item.owned}
    for item in made.items:
        if item.id in owned and item.action is not Action.KEEP:
            assert item.goes_with == item.session
            session = sessions_of(made)[item.session]
            assert (session.action, session.undoable) == (item.action, item.undoable)


@given(stored_inventories(), session_policies(), GC_RULES)
def test_no_plan_that_removes_touches_a_session_without_an_end(
    inventory: Inventory, policy: Policy, rules: GcRules
) -> None:
    """Not by age, gc, cap, archive or lineage, and whatever is known of its process; and none of
    these plans ends one."""
    plans = [plan(policy, inventory, files) for files in Files]
    if policy.has_rules:
        plans.append(archive(policy, inventory))
    if not rules.empty:
        plans.append(collect(rules, policy, inventory))
    is_open = {name for name, item in stored(inventory).items() if item.alive is not None}
    for made in plans:
        assert not made.ends
        assert not any(item.without_end for item in made.items)
        assert not {item.session for item in made.removals if item.kind != TRASH} & {
            name for name in is_open if name in sessions_of(made)
        }


@given(stored_inventories())
def test_a_session_is_ended_only_when_nobody_uses_it(inventory: Inventory) -> None:
    made = plan_endings(inventory, NOW, command="test")
    assert not made.removals
    assert all(item.kind == SESSION for item in made.items)
    for item in made.items:
        left = stored(inventory)[item.id].abandoned is not None
        ended = left and not file_in_use(inventory, item.id)
        assert (item.action, item.undoable) == (
            (Action.END, True) if ended else (Action.KEEP, False)
        )


@given(
    ended=st.booleans(),
    idle=st.sampled_from([-DAY, 0.0, DAY, 400 * DAY]),
    living=st.integers(0, 2),
    held=st.integers(0, 2),
    dead=st.integers(0, 2),
)
def test_whatever_its_leases_an_open_session_lives(
    *, ended: bool, idle: float, living: int, held: int, dead: int
) -> None:
    held = min(held, living)
    leases = LeaseCount(all=living + dead, living=living, held=held)
    life = session_life(ended=ended, idle=idle, leases=leases, abandoned_after=DAY)
    assert (life.alive is not None) == (not ended or held > 0)
    assert (life.abandoned is not None) == (not ended and dead > 0 and living == 0 and idle >= DAY)


@given(stored_inventories(), session_policies(), MODES, GC_RULES)
def test_substantial_children_outlive_their_parents(
    inventory: Inventory, policy: Policy, files: Files, rules: GcRules
) -> None:
    """Lineage takes nobody who is substantial, nor who has a title if that is asked for."""
    plans = [(policy.trivial_max, False, plan(policy, inventory, files))]
    if not rules.empty:
        collected = collect(rules, policy, inventory)
        plans.append((rules.trivial_max, rules.keep_titled, collected))
    for trivial_max, keep_titled, made in plans:
        for name, item in sessions_of(made).items():
            if item.action in LEFT and item.rule == "delegate of a session that is removed":
                session = stored(inventory)[name]
                assert session.delegate
                assert not (keep_titled and session.titled)
                assert session.messages is not None
                assert session.messages <= trivial_max
                assert sessions_of(made)[session.parent].action in LEFT


@given(stored_inventories(), session_policies(), GC_RULES)
def test_gc_takes_no_more_than_a_person_would_call_trivial(
    inventory: Inventory, policy: Policy, rules: GcRules
) -> None:
    assume(not rules.empty)
    for item in collect(rules, policy, inventory).removals:
        if item.kind == SESSION:
            messages = stored(inventory)[item.id].messages
            assert messages is not None
            assert messages <= rules.trivial_max
            assert not (rules.keep_titled and stored(inventory)[item.id].titled)


@given(stored_inventories(), session_policies(), MODES)
def test_trash_goes_first_then_sessions_before_their_files_and_space_last(
    inventory: Inventory, policy: Policy, files: Files
) -> None:
    made = plan(policy, inventory, files)
    rank = {"trash": 0, SESSION: 1, "file": 2, "orphan": 3, SPACE: 4}
    owned = {item.id for item in inventory.items if item.owned}

    def place(item: PlanItem) -> int:
        file = "file" if item.id in owned else "orphan"
        return rank.get(item.kind, rank[file])

    assert [place(item) for item in made.items] == sorted(map(place, made.items))


@given(st.data(), stored_inventories(last_active_at=TIES), session_policies(), MODES)
def test_the_order_of_the_scan_does_not_matter(
    data: st.DataObject, inventory: Inventory, policy: Policy, files: Files
) -> None:
    shuffled = replace(inventory, items=tuple(data.draw(st.permutations(inventory.items))))
    one, other = plan(policy, inventory, files), plan(policy, shuffled, files)
    assert one == plan(policy, inventory, files)
    assert set(one.items) == set(other.items)
    assert one.shortfalls == other.shortfalls


@given(stored_inventories(), session_policies(), MODES)
def test_a_plan_has_reasons_and_survives_json(
    inventory: Inventory, policy: Policy, files: Files
) -> None:
    made = plan(policy, inventory, files)
    assert all(item.rule.strip() for item in made.items)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


@given(stored_inventories(), GC_RULES, session_policies())
def test_gc_without_a_rule_is_refused(inventory: Inventory, rules: GcRules, policy: Policy) -> None:
    off = replace(rules, empty_after=0.0, trivial_after=0.0)
    with pytest.raises(EmptyPolicyError, match="empty and for trivial sessions are both off"):
        collect(off, policy, inventory)

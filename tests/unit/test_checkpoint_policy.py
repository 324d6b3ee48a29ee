"""Which checkpoints go: by project, rules, number and bytes, and never more than need be."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.model.checkpoint import Project, ProjectState
from holdfast.model.checkpoint_inventory import (
    CheckpointInventory,
    Weights,
    index_root,
    root_of,
    rotated_root,
    trash_root,
)
from holdfast.model.item import CHECKPOINT, CHECKPOINT_SPACE, LEGACY, SPACE, TRASH, Item
from holdfast.model.plan import Action, Plan
from holdfast.policy.plan_by_name import plan_named_checkpoints
from holdfast.policy.planner import plan_checkpoints
from holdfast.policy.rules import CheckpointPolicy, Rules
from tests.builders import NOW

DAY = 86_400.0
#: What the store takes beside objects.
BESIDE = 10


def checkpoint(name: str, *, age: float = 0.0, project: str = "p", **fields: Any) -> Item:
    item = Item(
        kind=CHECKPOINT,
        id=name,
        source=project,
        bytes=0,
        last_active_at=NOW - age,
        version=name,
    )
    return replace(item, **fields)


def trash(number: int, *, age: float = 0.0) -> Item:
    return checkpoint(f"7/{number}/x", age=age, kind=TRASH)


def store(
    *checkpoints: Item,
    holds: Mapping[str, Mapping[str, int]] | None = None,
    states: Mapping[str, ProjectState] | None = None,
    mount: str = "",
    touched: float = 0.0,
    garbage: int = 0,
    **fields: Any,
) -> CheckpointInventory:
    """An inventory; `holds` says of each root which objects it holds, and their sizes."""
    names = {item.source for item in checkpoints}
    projects = {
        name: Project(
            id=name,
            workdir=f"/work/{name}",
            state=(states or {}).get(name, ProjectState.LIVE),
            checkpoints=sum(item.source == name for item in checkpoints),
            last_touch=NOW - touched,
            mount=mount,
        )
        for name in names
    }
    held = holds if holds is not None else {item.id: {item.id: 1} for item in checkpoints}
    weights = weighed(held)
    legacy: Sequence[Item] = fields.get("legacy", ())
    space = Item(
        kind=SPACE, id=CHECKPOINT_SPACE, bytes=garbage, last_active_at=NOW, version="space"
    )
    return CheckpointInventory(
        home="/home/of/agent",
        projects=projects,
        checkpoints=checkpoints,
        space=(space,),
        total_bytes=weights.held + BESIDE + garbage + sum(item.bytes for item in legacy),
        garbage=garbage,
        weights=weights,
        **fields,
    )


def weighed(holds: Mapping[str, Mapping[str, int]]) -> Weights:
    """Each root is a tree of its objects."""
    sizes: dict[str, int] = {
        name: size for objects in holds.values() for name, size in objects.items()
    }
    numbers = {name: number for number, name in enumerate(sizes)}
    trees = [[numbers[name] for name in objects] for objects in holds.values()]
    return Weights(
        [*sizes.values(), *(0 for _ in trees)],
        [*(() for _ in sizes), *trees],
        {root: len(sizes) + place for place, root in enumerate(holds)},
    )


def planned(policy: CheckpointPolicy, inventory: CheckpointInventory) -> Plan:
    return plan_checkpoints(policy, inventory, NOW, command="checkpoints prune")


def gone(plan: Plan) -> dict[str, str]:
    return {item.id: item.reason for item in plan.removals}


def kept(plan: Plan) -> dict[str, str]:
    return {item.id: item.reason for item in plan.kept}


# --- Projects -------------------------------------------------------------------------------------


def test_a_project_that_nobody_touched_goes_whole() -> None:
    old = store(checkpoint("a", age=9 * DAY), checkpoint("b", age=8 * DAY), touched=8 * DAY)
    plan = planned(CheckpointPolicy(stale_after=7 * DAY), old)
    assert gone(plan) == dict.fromkeys(["a", "b"], "untouched for more than 7 d: last used 8 d ago")
    assert all(item.undoable for item in plan.removals)


def test_a_project_is_as_old_as_its_last_touch() -> None:
    used = store(checkpoint("a", age=9 * DAY), touched=DAY)
    assert not gone(planned(CheckpointPolicy(stale_after=7 * DAY), used))


@pytest.mark.parametrize("keep_orphans", [False, True])
def test_a_project_whose_directory_is_gone(keep_orphans: bool) -> None:
    missing = store(checkpoint("a"), states={"p": ProjectState.MISSING})
    plan = planned(CheckpointPolicy(keep_orphans=keep_orphans), missing)
    assert gone(plan) == ({} if keep_orphans else {"a": "its directory is gone: /work/p"})


def test_a_disk_that_is_not_mounted_is_no_reason() -> None:
    away = store(
        checkpoint("a", age=99 * DAY),
        touched=99 * DAY,
        states={"p": ProjectState.UNMOUNTED},
        mount="/media/disk",
    )
    assert not gone(planned(CheckpointPolicy(stale_after=DAY), away))


def test_what_may_be_on_some_disk_goes_by_age_alone() -> None:
    states = {"p": ProjectState.UNMOUNTED}
    fresh = store(checkpoint("a"), states=states)
    assert not gone(planned(CheckpointPolicy(stale_after=7 * DAY), fresh))
    old = store(checkpoint("a", age=8 * DAY), touched=8 * DAY, states=states)
    assert [*gone(planned(CheckpointPolicy(stale_after=7 * DAY), old))] == ["a"]


def test_what_somebody_keeps_stays_when_its_project_goes() -> None:
    missing = store(
        checkpoint("a", pinned=True),
        checkpoint("b"),
        checkpoint("c"),
        checkpoint("d", alive="a restore was cut short"),
        states={"p": ProjectState.MISSING},
        names={"b": "before the move"},
    )
    plan = planned(CheckpointPolicy(), missing)
    assert kept(plan) == {
        "a": "pinned",
        "b": "named: before the move",
        "d": "in use: a restore was cut short",
    }
    assert [*gone(plan)] == ["c"]


# --- Rules and numbers ----------------------------------------------------------------------------


def test_without_a_rule_all_stay() -> None:
    plan = planned(CheckpointPolicy(), store(checkpoint("a"), checkpoint("b", age=99 * DAY)))
    assert kept(plan) == dict.fromkeys(["a", "b"], "within the limits")


def test_keep_rules_count_inside_a_project() -> None:
    items = [checkpoint(f"{p}{n}", age=n * DAY, project=p) for p in "pq" for n in range(4)]
    plan = planned(CheckpointPolicy(rules=Rules(keep_last=2)), store(*items))
    assert [*gone(plan)] == ["p2", "p3", "q2", "q3"]
    assert set(gone(plan).values()) == {"not kept by any keep rule"}


def test_the_oldest_go_beyond_the_bound_on_their_number() -> None:
    items = [checkpoint(f"{p}{n}", age=n, project=p) for p in "pq" for n in range(5)]
    plan = planned(CheckpointPolicy(max_count=3), store(*items))
    reason = "over the limit of 3 checkpoints"
    assert gone(plan) == dict.fromkeys(["p3", "p4", "q3", "q4"], reason)
    assert not plan.shortfalls


def test_those_that_must_stay_take_their_places() -> None:
    items = [checkpoint(f"p{n}", age=n, pinned=n == 4) for n in range(5)]
    plan = planned(CheckpointPolicy(max_count=3), store(*items, names={"p3": "x"}))
    assert [*gone(plan)] == ["p1", "p2"]


@pytest.mark.parametrize(
    ("limit", "way_back", "goes"),
    [(3, "p4", ["p2", "p3"]), (1, "p4", ["p1", "p2", "p3"]), (1, "p0", ["p1", "p2", "p3", "p4"])],
)
def test_the_way_back_from_a_run_takes_its_place(
    limit: int, way_back: str, goes: list[str]
) -> None:
    """A worker may plan between a take and the end of it, when there is one too many."""
    items = [checkpoint(f"p{n}", age=n) for n in range(5)]
    plan = planned(
        CheckpointPolicy(max_count=limit), store(*items, ways_back=frozenset({way_back}))
    )
    assert [*gone(plan)] == goes
    assert not plan.shortfalls


def test_a_number_that_cannot_be_reached_says_why() -> None:
    items = [checkpoint(f"p{n}", age=n, pinned=n > 0) for n in range(3)]
    (short,) = planned(CheckpointPolicy(max_count=1), store(*items)).shortfalls
    assert (short.cap, short.limit, short.remaining) == ("max_snapshots of /work/p", 1, 3)
    assert short.held_by == {"newest of its project": 1, "pinned": 2}


def test_what_undo_of_a_rollback_needs_stays_as_long_as_trash() -> None:
    items = [checkpoint(f"p{n}", age=n) for n in range(3)]
    policy = CheckpointPolicy(max_count=1, trash_age=7 * DAY)
    recent = store(*items, needed={"p2": NOW - DAY})
    assert kept(planned(policy, recent))["p2"] == "needed to undo the latest restore"
    assert [*gone(planned(policy, store(*items, needed={"p2": NOW - 8 * DAY})))] == ["p1", "p2"]


def test_what_a_take_hid_goes_to_the_trash_like_what_the_bound_takes() -> None:
    hidden = store(
        checkpoint("a"),
        rotated=(checkpoint("b"),),
        holds={root_of("a"): {"x": 5}, rotated_root("b"): {"x": 5, "y": 7}},
    )
    for use_trash in (True, False):
        plan = planned(CheckpointPolicy(max_count=1, use_trash=use_trash), hidden)
        (item,) = plan.removals
        assert (item.id, item.bytes, item.undoable) == ("b", 7, use_trash)
        assert item.reason == "over the limit of 1 checkpoint"
        assert (plan.items[-1].action is Action.RECLAIM) is not use_trash


# --- Trash and archives ---------------------------------------------------------------------------


def test_old_trash_goes_and_young_trash_stays() -> None:
    full = store(
        trash=(trash(0, age=8 * DAY), trash(1, age=DAY)),
        holds={trash_root("7/0/x"): {"x": 5}, trash_root("7/1/x"): {"y": 6}},
    )
    plan = planned(CheckpointPolicy(trash_age=7 * DAY), full)
    assert [*gone(plan)] == ["7/0/x"]
    assert plan.bytes == 5


def older(item: Item, state: ProjectState = ProjectState.LIVE) -> dict[str, Project]:
    return {
        item.id: Project(
            id=item.id,
            workdir=f"/work/{item.id}",
            state=state,
            checkpoints=0,
            last_touch=item.last_active_at,
        )
    }


@given(
    age=st.floats(min_value=0, max_value=9_999),
    size=st.integers(min_value=0, max_value=10**9),
    limit=st.none() | st.integers(min_value=0, max_value=10**9),
    days=st.none() | st.floats(min_value=0, max_value=100),
    keep_orphans=st.booleans(),
)
def test_archives_of_older_repositories_wait_for_the_user(
    age: float, size: int, limit: int | None, days: float | None, keep_orphans: bool
) -> None:
    """Neither age nor cap takes one, and none costs a checkpoint its place."""
    archive = checkpoint("legacy-1", age=age * DAY, kind=LEGACY, bytes=size, project="")
    policy = CheckpointPolicy(
        stale_after=None if days is None else days * DAY,
        max_bytes=limit,
        keep_orphans=keep_orphans,
    )
    items = [checkpoint(f"p{number}", age=number) for number in range(3)]
    with_archive = planned(policy, store(*items, legacy=(archive,)))
    without = planned(policy, store(*items))
    assert gone(with_archive) == gone(without)
    if limit is not None and size > limit:
        (short,) = with_archive.shortfalls
        assert sum(short.held_by.values()) == short.remaining
        assert any("older layout" in why for why in short.held_by)
    asked = planned(replace(policy, legacy=True), store(*items, legacy=(archive,)))
    assert gone(asked)["legacy-1"] == "left by an older layout"


def test_single_older_repositories_go_as_projects_do_orphans_first() -> None:
    live = checkpoint("a" * 16, age=9 * DAY, kind=LEGACY, bytes=50, project="")
    policy = CheckpointPolicy(stale_after=7 * DAY)
    for state, flags, reason in (
        (ProjectState.LIVE, {}, "untouched for more than 7 d: last used 9 d ago"),
        (ProjectState.MISSING, {}, f"its directory is gone: /work/{'a' * 16}"),
        (
            ProjectState.MISSING,
            {"keep_orphans": True},
            "untouched for more than 7 d: last used 9 d ago",
        ),
        (ProjectState.MISSING, {"keep_orphans": True, "stale_after": None}, None),
        (ProjectState.LIVE, {"stale_after": None, "max_bytes": 1}, None),
    ):
        plan = planned(replace(policy, **flags), store(legacy=(live,), older=older(live, state)))
        assert gone(plan).get(live.id) == reason


def test_upkeep_alone_takes_only_what_has_gone_already() -> None:
    policy = CheckpointPolicy(
        rules=Rules(keep_last=1), stale_after=1, max_count=1, max_bytes=0
    ).upkeep_only()
    full = store(
        checkpoint("a", age=99 * DAY),
        checkpoint("b", age=98 * DAY),
        touched=98 * DAY,
        states={"p": ProjectState.MISSING},
        trash=(trash(0, age=8 * DAY),),
        holds={"a": {"a": 1}, "b": {"b": 1}, trash_root("7/0/x"): {"x": 5}},
    )
    assert [*gone(planned(policy, full))] == ["7/0/x"]


# --- Bytes ----------------------------------------------------------------------------------------


def test_shared_bytes_are_free_only_when_the_last_holder_goes() -> None:
    items = [checkpoint(f"p{n}", age=n) for n in range(4)]
    shared = store(
        *items,
        holds={
            "p0": {"base": 100},
            "p1": {"base": 100, "x": 50, "one": 1},
            "p2": {"base": 100, "x": 50, "two": 2},
            "p3": {"base": 100, "three": 3},
        },
    )
    plan = planned(CheckpointPolicy(max_bytes=100 + BESIDE), shared)
    assert {item.id: item.bytes for item in plan.removals} == {"p1": 1, "p2": 52, "p3": 3}
    # The oldest alone is not enough, and is not taken in vain.
    plan = planned(CheckpointPolicy(max_bytes=103 + BESIDE), shared)
    assert [*gone(plan)] == ["p1", "p2"]


def test_the_newest_of_each_project_stays_and_the_plan_says_so() -> None:
    items = [checkpoint(f"{p}{n}", age=n, project=p) for p in "pq" for n in range(2)]
    plan = planned(CheckpointPolicy(max_bytes=1), store(*items))
    assert [*gone(plan)] == ["p1", "q1"]
    assert not any(item.undoable for item in plan.removals)
    (short,) = plan.shortfalls
    assert (short.cap, short.limit, short.remaining) == (
        "max_total_size of checkpoints",
        1,
        2 + BESIDE,
    )
    assert short.held_by == {"newest of its project": 2, "files of the store itself": BESIDE}


def test_trash_is_the_first_to_go_then_what_was_meant_for_it() -> None:
    full = store(
        checkpoint("p0"),
        checkpoint("p1", age=5),
        checkpoint("p2", age=9),
        trash=(trash(0, age=2),),
        holds={
            "p0": {"a": 10},
            "p1": {"b": 10},
            "p2": {"c": 10},
            trash_root("7/0/x"): {"d": 10},
        },
    )
    order = ["7/0/x", "p2", "p1"]
    for count in range(4):
        limit = BESIDE + 40 - 10 * count
        plan = planned(CheckpointPolicy(max_bytes=limit, max_count=2), full)
        final = [item.id for item in plan.removals if not item.undoable]
        assert sorted(final) == sorted(order[:count]), limit
        assert not plan.shortfalls


def test_what_nobody_holds_is_given_back_and_costs_no_checkpoint() -> None:
    full = store(checkpoint("p0"), checkpoint("p1", age=1), garbage=5_000_000)
    plan = planned(CheckpointPolicy(max_bytes=2 + BESIDE), full)
    assert not plan.removals
    assert [item.action for item in plan.steps] == [Action.RECLAIM]


def test_the_cap_does_not_count_on_what_packing_may_give() -> None:
    """What comparing objects gains is a guess until it was done."""
    full = store(checkpoint("p0"), checkpoint("p1", age=1), checkpoint("p2", age=2))
    hopeful = replace(full, space=(replace(full.space[0], bytes=100),))
    policy = CheckpointPolicy(max_bytes=2 + BESIDE)
    assert gone(planned(policy, hopeful)) == gone(planned(policy, full))
    assert [*gone(planned(policy, full))] == ["p2"]


def test_the_private_index_goes_with_the_last_checkpoint_of_its_project() -> None:
    full = store(
        checkpoint("p0", age=3),
        checkpoint("q0", project="q"),
        states={"p": ProjectState.MISSING},
        holds={
            "p0": {"a": 1},
            "q0": {"b": 1},
            index_root("p"): {"a": 1, "staged": 40},
            index_root("q"): {"b": 1},
        },
    )
    plan = planned(CheckpointPolicy(use_trash=False), full)
    assert {item.id: item.bytes for item in plan.removals} == {"p0": 41}


def test_a_person_who_names_them_is_asked_for_no_pin() -> None:
    full = store(
        checkpoint("a", pinned=True),
        checkpoint("b", alive="a restore was cut short"),
        checkpoint("c"),
        rotated=(checkpoint("d"),),
    )
    plan = plan_named_checkpoints(["a"], full, NOW, command="x", undoable=True)
    assert gone(plan) == {"a": "deleted by id"}
    plan = plan_named_checkpoints(None, full, NOW, command="x", undoable=True)
    assert [*gone(plan)] == ["d", "a", "c"]


@pytest.mark.parametrize(
    "fields", [{"stale_after": -1.0}, {"max_count": -1}, {"rules": Rules(max_age=1.0)}]
)
def test_a_policy_without_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CheckpointPolicy(**fields)


# --- Against a model ------------------------------------------------------------------------------

OBJECTS = [f"o{number}" for number in range(8)]


@st.composite
def stores(draw: st.DrawFn) -> CheckpointInventory:
    sizes = {name: draw(st.integers(0, 9)) for name in OBJECTS}
    count = draw(st.integers(1, 6))
    items = [
        checkpoint(
            f"c{number}",
            age=float(draw(st.integers(0, 9))),
            project=draw(st.sampled_from("pq")),
            pinned=draw(st.integers(0, 5)) == 0,
        )
        for number in range(count)
    ]
    holds = {
        item.id: {name: sizes[name] for name in draw(st.sets(st.sampled_from(OBJECTS)))}
        for item in items
    }
    trashed = [trash(number, age=float(number)) for number in range(draw(st.integers(0, 2)))]
    for item in trashed:
        names = draw(st.sets(st.sampled_from(OBJECTS)))
        holds[trash_root(item.id)] = {name: sizes[name] for name in names}
    return store(*items, holds=holds, trash=tuple(trashed))


def weigh(inventory: CheckpointInventory, without: Iterable[str]) -> int:
    what_if = inventory.weights.what_if()
    for root in without:
        what_if.drop(root)
    return what_if.held + BESIDE


@given(inventory=stores(), limit=st.integers(BESIDE, BESIDE + 80))
def test_no_more_goes_than_need_be(inventory: CheckpointInventory, limit: int) -> None:
    plan = planned(CheckpointPolicy(max_bytes=limit), inventory)
    live = {item.id for item in inventory.checkpoints}
    roots = {
        item.id: root_of(item.id) if item.id in live else trash_root(item.id)
        for item in plan.removals
    }
    after = weigh(inventory, roots.values())
    assert plan.bytes == weigh(inventory, ()) - after
    if plan.shortfalls:
        (short,) = plan.shortfalls
        assert short.remaining == after == sum(short.held_by.values())
        may_go = set(_may_go(inventory))
        assert after == weigh(inventory, may_go)
    else:
        assert after <= limit
        for spared in roots.values():
            assert weigh(inventory, set(roots.values()) - {spared}) > limit
    newest = _newest(inventory)
    assert not newest & roots.keys()


@given(inventory=stores(), limit=st.integers(BESIDE, BESIDE + 80))
def test_a_cap_is_reached_whenever_it_can_be(inventory: CheckpointInventory, limit: int) -> None:
    plan = planned(CheckpointPolicy(max_bytes=limit), inventory)
    may_go = sorted(_may_go(inventory))
    reachable = any(
        weigh(inventory, chosen) <= limit
        for count in range(len(may_go) + 1)
        for chosen in itertools.combinations(may_go, count)
    )
    assert reachable == (not plan.shortfalls)


def _newest(inventory: CheckpointInventory) -> set[str]:
    newest: dict[str, Item] = {}
    for item in sorted(inventory.checkpoints, key=lambda each: (-each.last_active_at, each.id)):
        newest.setdefault(item.source, item)
    return {item.id for item in newest.values()}


def _may_go(inventory: CheckpointInventory) -> Iterable[str]:
    newest = _newest(inventory)
    for item in inventory.checkpoints:
        if item.id not in newest and not item.pinned:
            yield root_of(item.id)
    for item in inventory.trash:
        yield trash_root(item.id)


@given(inventory=stores(), drops=st.lists(st.integers(0, 9)))
def test_what_was_dropped_and_put_back_weighs_the_same(
    inventory: CheckpointInventory, drops: list[int]
) -> None:
    weights = inventory.weights
    what_if = weights.what_if()
    roots = sorted(weights.roots)
    chosen = [roots[number % len(roots)] for number in drops]
    freed = sum(what_if.drop(root) for root in chosen)
    assert what_if.held == weights.held - freed
    assert sum(what_if.put_back(root) for root in chosen) == freed
    assert what_if.held == weights.held

"""Stored sessions in a plan: their files, their delegates, their ends, and the words for it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import EmptyPolicyError, UsageError
from holdfast.model.item import REQUEST_DUMP, Item
from holdfast.model.plan import Action, Plan, PlanItem, Shortfall
from holdfast.policy import planner
from holdfast.policy.plan_by_name import plan_endings, plan_named
from holdfast.policy.rules import DAY, Files, Policy
from holdfast.value import replace
from tests.builders import (
    NOW,
    a_file_of,
    a_policy,
    a_session_item,
    a_space_item,
    a_trash_item,
    an_inventory,
    an_item,
    limits,
)

OLD = 120 * DAY
AGE = a_policy(max_age=90 * DAY)
TOO_OLD = "older than 90 d: last active 120 d ago"
GONE = "its process is gone, idle for 3 d"


def plan(policy: Policy, *items: Item, space: tuple[Item, ...] = (), **options: Any) -> Plan:
    inventory = an_inventory(*items, space=space)
    return planner.plan(policy, inventory, NOW, command="test", **options)


def decided(made: Plan) -> dict[str, tuple[str, str]]:
    return {item.id: (item.action.value, item.reason) for item in made.items}


def by_id(made: Plan, name: str) -> PlanItem:
    return next(item for item in made.items if item.id == name)


# --- Files follow their session -------------------------------------------------------------------


def test_a_session_goes_with_its_files_however_young_they_are() -> None:
    made = plan(AGE, a_file_of("s1", "f"), a_session_item("s1", age=OLD))
    assert decided(made) == {"s1": ("remove", TOO_OLD), "f": ("remove", "removed with its session")}
    assert by_id(made, "f").goes_with == "s1"
    assert by_id(made, "f").undoable
    assert not by_id(plan(a_policy(max_age=DAY, use_trash=False), *old_pair()), "f").undoable


def old_pair() -> list[Item]:
    return [a_session_item("s1", age=OLD), a_file_of("s1", "f", age=OLD)]


def test_a_session_keeps_its_files_however_old_they_are() -> None:
    made = plan(AGE, a_session_item("s1"), a_file_of("s1", "f", age=OLD))
    assert decided(made)["f"] == ("keep", "its session is kept")
    assert by_id(made, "f").goes_with == ""


def test_the_files_of_a_session_in_use_say_so() -> None:
    living = a_session_item("s1", age=OLD, alive="it has not ended")
    made = plan(AGE, living, a_file_of("s1", "f", age=OLD))
    assert decided(made) == {
        "s1": ("keep", "in use: it has not ended"),
        "f": ("keep", "in use: by its session"),
    }


def test_files_of_sessions_that_were_not_selected_are_no_part_of_the_plan() -> None:
    made = plan(AGE, a_session_item("s1"), a_file_of("s2", "f", age=OLD))
    assert decided(made).keys() == {"s1"}


def test_an_open_file_keeps_the_whole_session() -> None:
    made = plan(
        AGE,
        *old_pair(),
        a_file_of("s1", "z", alive="open in another process"),
        a_file_of("s1", "y", alive="open in another process"),
    )
    assert decided(made) == {
        "s1": ("keep", "in use: its file y: open in another process"),
        "f": ("keep", "in use: by its session"),
        "y": ("keep", "in use: open in another process"),
        "z": ("keep", "in use: open in another process"),
    }


def test_a_pinned_file_outlives_its_session() -> None:
    made = plan(a_policy(max_age=DAY, pins=("f",)), *old_pair(), a_file_of("s1", "g"))
    assert {name: action for name, (action, _) in decided(made).items()} == {
        "s1": "remove",
        "f": "keep",
        "g": "remove",
    }
    assert decided(made)["f"][1] == "pinned"


def test_files_without_a_row_are_judged_by_their_own_age() -> None:
    made = plan(AGE, a_session_item("s1"), an_item("orphan", session="s9", age=OLD))
    assert decided(made)["orphan"] == ("remove", TOO_OLD)


def test_files_only() -> None:
    made = plan(
        AGE,
        *old_pair(),
        a_session_item("young"),
        a_file_of("young", "kept", age=OLD),
        an_item("orphan", age=OLD),
        files=Files.ONLY,
    )
    assert decided(made) == {
        "s1": ("keep", "its row stays as history"),
        "f": ("remove", TOO_OLD),
        "young": ("keep", "active within 90 d"),
        "kept": ("keep", "its session is kept"),
        "orphan": ("remove", TOO_OLD),
    }
    assert by_id(made, "f").goes_with == ""


def test_no_files() -> None:
    made = plan(AGE, *old_pair(), an_item("orphan", age=OLD), files=Files.NONE)
    assert decided(made) == {
        "s1": ("remove", TOO_OLD),
        "f": ("keep", "files stay"),
        "orphan": ("keep", "files stay"),
    }


# --- Caps -----------------------------------------------------------------------------------------


def test_a_session_and_its_files_are_one_for_a_cap() -> None:
    units = [
        item
        for name, age in (("new", 0.0), ("middle", DAY), ("old", 2 * DAY))
        for item in (a_session_item(name, age=age), a_file_of(name))
    ]
    assert {item.session for item in plan(a_policy(max_count=2), *units).removals} == {"old"}
    made = plan(a_policy(max_bytes=450), *units)
    assert {item.id for item in made.removals} == {"old", "sessions/old.json"}
    assert decided(made)["old"] == ("remove", "over the cap of 450 B")
    assert not any(item.undoable for item in made.removals)


def test_caps_count_the_delegates_that_go_along() -> None:
    parent = a_session_item("parent", age=9 * DAY)
    children = [
        a_session_item(name, source="subagent", messages=1, parent="parent", delegate=True)
        for name in ("c1", "c2")
    ]
    others = [a_session_item("middle", age=DAY), a_session_item("new")]
    made = plan(a_policy(max_count=2), parent, *children, *others)
    assert {item.id for item in made.removals} == {"parent", "c1", "c2"}
    assert made.shortfalls == ()


def test_the_cap_of_a_source_does_not_count_delegates_of_another() -> None:
    made = plan(
        a_policy(by_source={"cli": limits(max_count=1)}),
        a_session_item("parent", age=9 * DAY),
        a_delegate("child", parent="parent"),
        a_session_item("middle", age=DAY),
        a_session_item("new"),
    )
    assert {item.id for item in made.removals} == {"parent", "child", "middle"}


def test_what_stays_of_sessions_that_go_counts_for_the_byte_cap() -> None:
    for files, holder in ((Files.NONE, "files stay"), (Files.ONLY, "its row stays as history")):
        made = plan(a_policy(max_age=DAY, max_bytes=50), *old_pair(), files=files)
        assert len(made.removals) == 1
        assert made.shortfalls == (
            Shortfall(cap="max_total_size", limit=50, remaining=100, held_by={holder: 100}),
        )


def test_with_files_only_a_count_cap_counts_sessions_that_have_files() -> None:
    items = [
        a_session_item("new"),
        a_session_item("bare", age=DAY),
        a_session_item("s1", age=2 * DAY),
        a_file_of("s1", "f"),
    ]
    made = plan(a_policy(max_count=1), *items, files=Files.ONLY)
    assert made.removals == ()
    assert made.shortfalls == ()
    assert [i.id for i in plan(a_policy(max_count=0), *items, files=Files.ONLY).removals] == ["f"]


def test_the_cap_of_a_source_counts_files_by_the_source_of_their_session() -> None:
    made = plan(
        a_policy(by_source={"cron": limits(max_bytes=150)}),
        a_session_item("new", source="cron", bytes=0),
        a_session_item("s1", source="cron", age=DAY),
        a_file_of("s1", "f", source="unknown"),
    )
    assert {item.id for item in made.removals} == {"s1", "f"}


# --- Delegates ------------------------------------------------------------------------------------


def a_delegate(name: str, **fields: Any) -> Item:
    given = {"source": "subagent", "messages": 5, "parent": "s1", "delegate": True}
    return a_session_item(name, **given | fields)


def test_a_trivial_delegate_goes_with_its_parent_and_takes_its_own_along() -> None:
    made = plan(
        a_policy(max_age=90 * DAY, keep_last=5, by_source={"cli": limits(max_age=DAY)}),
        a_session_item("s1", age=OLD),
        a_delegate("child"),
        a_delegate("grandchild", parent="child"),
        a_file_of("grandchild", "f"),
    )
    assert decided(made) | {"s1": ("", "")} == {
        "s1": ("", ""),
        "child": ("remove", "delegate of a session that is removed: s1"),
        "grandchild": ("remove", "delegate of a session that is removed: child"),
        "f": ("remove", "removed with its session"),
    }


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"messages": 6}, id="substantial"),
        pytest.param({"messages": None}, id="not counted"),
        pytest.param({"pinned": True}, id="pinned"),
        pytest.param({"alive": "a process holds it"}, id="alive"),
        pytest.param({"abandoned": GONE}, id="abandoned"),
        pytest.param({"delegate": False}, id="a branch"),
        pytest.param({"parent": "s2"}, id="of another session"),
    ],
)
def test_who_outlives_its_parent(fields: dict[str, Any]) -> None:
    made = plan(AGE, a_session_item("s1", age=OLD), a_delegate("child", **fields))
    assert [item.id for item in made.removals] == ["s1"]


def test_what_is_trivial_can_be_set() -> None:
    items = a_session_item("s1", age=OLD), a_delegate("child", messages=5)
    assert len(plan(a_policy(max_age=DAY, trivial_max=4), *items).removals) == 1
    with pytest.raises(UsageError, match="trivial_max cannot be -1"):
        a_policy(trivial_max=-1)


def test_the_delegates_of_a_session_that_stays_are_judged_like_any_other() -> None:
    made = plan(AGE, a_session_item("s1"), a_delegate("young"), a_delegate("old", age=OLD))
    assert [item.id for item in made.removals] == ["old"]


# --- Abandoned sessions ---------------------------------------------------------------------------


@pytest.mark.parametrize("files", Files)
@pytest.mark.parametrize("fields", [{}, {"age": OLD}, {"age": OLD, "bytes": 10**9}])
def test_a_session_without_an_end_stays_whatever_became_of_its_process(
    fields: dict[str, Any], files: Files
) -> None:
    policy = a_policy(max_age=90 * DAY, max_count=0, max_bytes=0)
    session = a_session_item("s1", abandoned=GONE, **fields)
    made = plan(policy, session, a_file_of("s1", "f"), files=files)
    assert decided(made)["s1"] == ("keep", "in use: it has not ended")
    assert decided(made)["f"][0] == "keep"
    assert not made.steps


def test_who_names_it_can_delete_a_session_that_was_abandoned_and_not_archive_it() -> None:
    session = a_session_item("s1", abandoned=GONE)
    asked: dict[str, Any] = {"command": "x", "reason": "asked", "undoable": True}
    [deleted] = plan_named(["s1"], an_inventory(session), NOW, **asked).items
    assert (deleted.action, deleted.without_end) == (Action.REMOVE, True)
    [kept] = plan_named(["s1"], an_inventory(session), NOW, action=Action.ARCHIVE, **asked).items
    assert (kept.action, kept.without_end) == (Action.KEEP, False)
    alive = a_file_of("s1", "f", alive="open in another process")
    made = plan_named(["s1"], an_inventory(session, alive), NOW, **asked)
    assert not made.removals


@pytest.mark.parametrize("pinned", [False, True])
def test_maintenance_ends_it_and_says_why(*, pinned: bool) -> None:
    session = a_session_item("s1", abandoned=GONE, pinned=pinned)
    made = plan_endings(an_inventory(session), NOW, command="maintain")
    assert decided(made) == {"s1": ("end", f"abandoned: {GONE}")}
    assert by_id(made, "s1").undoable


def test_a_session_whose_file_is_open_is_not_ended() -> None:
    items = a_session_item("s1", abandoned=GONE), a_file_of("s1", "f", alive="open elsewhere")
    made = plan_endings(an_inventory(*items), NOW, command="maintain")
    assert decided(made) == {"s1": ("keep", "in use: its file f: open elsewhere")}


# --- Space, and the order of a run ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "age", "given_back"),
    [
        pytest.param(1, OLD, True, id="a session leaves"),
        pytest.param(1024 * 1024, 0.0, True, id="there is much"),
        pytest.param(1024 * 1024 - 1, 0.0, False, id="not worth it"),
    ],
)
def test_space_is_given_back(size: int, age: float, *, given_back: bool) -> None:
    made = plan(AGE, a_session_item("s1", age=age), space=(a_space_item("db", bytes=size),))
    assert ("db" in decided(made)) is given_back
    if given_back:
        assert decided(made)["db"] == ("reclaim", "free pages and write-ahead log")
        assert not by_id(made, "db").undoable


def test_files_that_leave_make_no_room_in_the_store() -> None:
    made = plan(AGE, *old_pair(), space=(a_space_item("db"),), files=Files.ONLY)
    assert "db" not in decided(made)


def test_rules_and_caps_do_not_see_space() -> None:
    made = plan(a_policy(max_bytes=150), a_session_item(), space=(a_space_item(bytes=1_000),))
    assert made.shortfalls == ()


def test_the_order_of_a_run() -> None:
    inventory = an_inventory(
        an_item("orphan", age=OLD),
        a_file_of("s1", "t"),
        a_file_of("s1", "d", kind=REQUEST_DUMP),
        a_file_of("s2", "t2"),
        a_session_item("open", source="a", abandoned=GONE),
        a_session_item("s1", source="b", age=OLD),
        a_session_item("s2", source="c", age=OLD),
        trash=[a_trash_item("op/0", age=OLD)],
        space=[a_space_item("db")],
    )
    policy = a_policy(max_age=90 * DAY, trash_age=DAY)
    made = planner.plan(policy, inventory, NOW, command="test")
    order = ["op/0", "s1", "s2", "d", "t", "t2", "orphan", "db"]
    assert [item.id for item in made.steps] == order


# --- Archiving ------------------------------------------------------------------------------------


def test_archiving_what_the_rules_would_remove() -> None:
    made = plan(
        a_policy(max_age=90 * DAY, max_count=0, max_bytes=0, use_trash=False),
        *old_pair(),
        a_session_item("young"),
        an_item("orphan", age=OLD),
        leaving=Action.ARCHIVE,
    )
    assert decided(made) == {
        "s1": ("archive", TOO_OLD),
        "young": ("keep", "active within 90 d"),
        "f": ("remove", "archived with its session"),
        "orphan": ("keep", "only sessions are archived"),
    }
    assert by_id(made, "s1").undoable
    assert not by_id(made, "f").undoable
    assert by_id(made, "f").goes_with == "s1"
    assert made.shortfalls == ()


def test_archiving_gives_space_back() -> None:
    made = plan(AGE, *old_pair(), space=(a_space_item("db"),), leaving=Action.ARCHIVE)
    assert made.items[-1].id == "db"


def test_archiving_needs_a_rule_and_takes_whole_sessions() -> None:
    with pytest.raises(EmptyPolicyError, match="neither an age nor a keep rule"):
        plan(a_policy(max_count=1), leaving=Action.ARCHIVE)
    with pytest.raises(UsageError, match="archived with its files"):
        plan(AGE, files=Files.ONLY, leaving=Action.ARCHIVE)
    with pytest.raises(UsageError, match="'end' is not a way to remove"):
        plan(AGE, leaving=Action.END)


# --- Named sessions -------------------------------------------------------------------------------


def named(*ids: str, items: list[Item], **options: Any) -> Plan:
    inventory = an_inventory(*items, trash=[a_trash_item()], space=[a_space_item("db")])
    given: dict[str, Any] = {"command": "delete", "reason": "deleted by id", "undoable": True}
    return plan_named(ids, inventory, NOW, **given | options)


def test_a_named_session_goes_pinned_or_not_and_nothing_else_does() -> None:
    items = [
        a_session_item("s1", pinned=True),
        a_file_of("s1", "f", pinned=True),
        a_session_item("s2"),
        a_file_of("s2", "g"),
        an_item("orphan"),
        a_delegate("child"),
    ]
    made = named("s1", "unknown", items=items)
    assert decided(made) == {
        "s1": ("remove", "deleted by id"),
        "f": ("remove", "removed with its session"),
        "db": ("reclaim", "free pages and write-ahead log"),
    }
    assert [item.undoable for item in made.items] == [True, True, False]
    assert not any(item.undoable for item in named("s1", items=items, undoable=False).items)


def test_a_named_session_in_use_stays() -> None:
    items = [
        a_session_item("s1", alive="a process holds it"),
        a_session_item("s2"),
        a_file_of("s2", "f", alive="open in another process"),
    ]
    assert decided(named("s1", "s2", items=items)) == {
        "s1": ("keep", "in use: a process holds it"),
        "s2": ("keep", "in use: its file f: open in another process"),
        "f": ("keep", "in use: open in another process"),
    }


def test_named_sessions_can_be_archived() -> None:
    made = named("s1", items=old_pair(), action=Action.ARCHIVE, reason="archived on request")
    assert decided(made) == {
        "s1": ("archive", "archived on request"),
        "f": ("remove", "archived with its session"),
        "db": ("reclaim", "free pages and write-ahead log"),
    }
    assert [item.undoable for item in made.items] == [True, False, False]


def test_a_cap_that_uses_the_trash_leaves_what_is_in_it_alone() -> None:
    """What goes there frees nothing yet, so the trash neither counts nor goes."""
    policy = replace(a_policy(max_bytes=150), caps_use_trash=True)
    inventory = an_inventory(
        a_session_item("old", age=OLD, bytes=100),
        a_session_item("new", age=DAY, bytes=100),
        trash=[a_trash_item("op1/0", age=DAY, bytes=100)],
    )
    made = planner.plan(policy, inventory, NOW, command="test")
    going = [item for item in made.items if item.action is Action.REMOVE]
    assert [(item.id, item.undoable) for item in going] == [("old", True)]
    [short] = made.shortfalls
    assert short.remaining == 300
    assert short.held_by["the trash: its space is freed when it is emptied"] == 200

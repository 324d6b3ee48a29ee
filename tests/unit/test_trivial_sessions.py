"""gc: empty and trivial sessions, edge by edge, with the words a person reads."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import EmptyPolicyError, UsageError
from holdfast.model.item import Item
from holdfast.model.plan import Plan
from holdfast.policy.rules import DAY, GcRules
from holdfast.policy.trivial_sessions import plan_gc
from tests.builders import (
    NOW,
    a_file_of,
    a_policy,
    a_session_item,
    a_space_item,
    a_trash_item,
    an_inventory,
    an_item,
)

HOUR = 3_600.0


def collect(*items: Item, rules: GcRules | None = None, **policy: Any) -> Plan:
    inventory = an_inventory(*items)
    return plan_gc(rules or GcRules(), a_policy(**policy), inventory, NOW, command="test")


def decided(made: Plan) -> dict[str, tuple[str, str]]:
    return {item.id: (item.action.value, item.reason) for item in made.items}


@pytest.mark.parametrize(
    ("messages", "age", "expected"),
    [
        pytest.param(0, DAY, ("keep", "younger than 24 h: empty"), id="empty, at the limit"),
        pytest.param(0, DAY + 1, ("remove", "empty: last active 24 h ago"), id="empty, over it"),
        pytest.param(1, 7 * DAY, ("keep", "younger than 7 d: trivial"), id="trivial, at the limit"),
        pytest.param(
            1, 7 * DAY + 1, ("remove", "trivial: 1 message, last active 7 d ago"), id="one message"
        ),
        pytest.param(
            5, 30 * DAY, ("remove", "trivial: 5 messages, last active 30 d ago"), id="the most"
        ),
        pytest.param(6, 999 * DAY, ("keep", "substantial: 6 messages"), id="one more"),
        pytest.param(
            None,
            999 * DAY,
            ("keep", "unreadable: none of its messages can be read"),
            id="not counted",
        ),
        pytest.param(0, -DAY, ("keep", "younger than 24 h: empty"), id="in the future"),
    ],
)
def test_who_goes(messages: int | None, age: float, expected: tuple[str, str]) -> None:
    made = collect(a_session_item("s1", messages=messages, age=age))
    assert decided(made) == {"s1": expected}
    assert made.items[0].undoable is (expected[0] == "remove")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"titled": True}, ("remove", "empty: last active 99 d ago"), id="titled"),
        pytest.param({"pinned": True}, ("keep", "pinned"), id="pinned"),
        pytest.param(
            {"alive": "it has not ended"}, ("keep", "in use: it has not ended"), id="open"
        ),
        pytest.param(
            {"abandoned": "its process is gone"},
            ("keep", "in use: it has not ended"),
            id="abandoned",
        ),
    ],
)
def test_who_stays(fields: dict[str, Any], expected: tuple[str, str]) -> None:
    assert decided(collect(a_session_item("s1", messages=0, age=99 * DAY, **fields))) == {
        "s1": expected
    }


def test_a_title_protects_when_that_is_asked_for() -> None:
    rules = GcRules(keep_titled=True)
    made = collect(
        a_session_item("untitled", messages=3, age=99 * DAY),
        a_session_item("titled", messages=3, age=99 * DAY, titled=True),
        a_session_item(
            "helper", messages=1, titled=True, parent="untitled", delegate=True, age=99 * DAY
        ),
        rules=rules,
    )
    assert [item.id for item in made.removals] == ["untitled"]
    assert decided(made)["titled"] == decided(made)["helper"] == ("keep", "titled")


def test_pins_of_the_policy_hold_and_the_trash_is_its_choice() -> None:
    items = [a_session_item(name, messages=0, age=9 * DAY) for name in ("s1", "s2")]
    made = collect(*items, pins=("s1",), use_trash=False)
    assert decided(made)["s1"] == ("keep", "pinned")
    assert [(item.id, item.undoable) for item in made.removals] == [("s2", False)]


def test_the_rules_of_the_policy_are_not_asked() -> None:
    made = collect(a_session_item("s1", age=999 * DAY), max_age=DAY, max_count=0, max_bytes=0)
    assert made.removals == ()
    assert made.shortfalls == ()


def test_files_go_with_their_session_and_others_are_no_part_of_it() -> None:
    inventory = an_inventory(
        a_session_item("s1", messages=0, age=9 * DAY),
        a_file_of("s1", "f"),
        an_item("orphan", age=999 * DAY),
        trash=[a_trash_item(age=999 * DAY)],
        space=[a_space_item("db")],
    )
    made = plan_gc(GcRules(), a_policy(trash_age=DAY), inventory, NOW, command="sessions gc")
    assert [(item.id, item.goes_with) for item in made.steps] == [
        ("s1", ""),
        ("f", "s1"),
        ("db", ""),
    ]
    assert len(made.items) == 3
    assert (made.home, made.command, made.made_at) == (inventory.home, "sessions gc", NOW)


def test_an_open_file_keeps_an_empty_session() -> None:
    empty = a_session_item("s1", messages=0, age=9 * DAY)
    assert collect(empty, a_file_of("s1", alive="open in another process")).removals == ()


def test_a_substantial_child_survives_its_trivial_parent() -> None:
    made = collect(
        a_session_item("parent", messages=2, age=30 * DAY),
        a_session_item("branch", parent="parent", messages=3, age=DAY),
        a_session_item("worker", parent="parent", messages=6, delegate=True, age=30 * DAY),
        a_session_item("helper", parent="parent", messages=5, delegate=True, age=DAY),
    )
    assert decided(made) == {
        "parent": ("remove", "trivial: 2 messages, last active 30 d ago"),
        "branch": ("keep", "younger than 7 d: trivial"),
        "worker": ("keep", "substantial: 6 messages"),
        "helper": ("remove", "delegate of a session that is removed: parent"),
    }


def test_each_number_can_be_set() -> None:
    rules = GcRules(empty_after=HOUR, trivial_after=2 * HOUR, trivial_max=1)
    made = collect(
        a_session_item("empty", messages=0, age=HOUR + 1),
        a_session_item("trivial", messages=1, age=2 * HOUR + 1),
        a_session_item("substantial", messages=2, age=99 * DAY),
        rules=rules,
    )
    assert {item.id for item in made.removals} == {"empty", "trivial"}


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        pytest.param(GcRules(empty_after=0), ["trivial"], id="no empty ones"),
        pytest.param(GcRules(trivial_after=0), ["empty"], id="no trivial ones"),
        pytest.param(GcRules(trivial_max=0), ["empty"], id="nothing is trivial"),
    ],
)
def test_0_turns_a_rule_off(rules: GcRules, gone: list[str]) -> None:
    items = [
        a_session_item(name, messages=n, age=99 * DAY)
        for n, name in enumerate(["empty", "trivial"])
    ]
    assert [item.id for item in collect(*items, rules=rules).removals] == gone


def test_a_rule_that_is_off_says_so() -> None:
    empty = a_session_item("s1", messages=0, age=99 * DAY)
    made = collect(empty, rules=GcRules(empty_after=0))
    assert decided(made) == {"s1": ("keep", "no rule for empty sessions")}


@pytest.mark.parametrize(
    "rules",
    [GcRules(empty_after=0, trivial_after=0), GcRules(empty_after=0, trivial_max=0)],
    ids=["both times", "nothing is trivial"],
)
def test_gc_without_a_rule_is_refused(rules: GcRules) -> None:
    with pytest.raises(
        EmptyPolicyError, match="empty and for trivial sessions are both off"
    ) as refused:
        collect(rules=rules)
    assert "empty_hours=24" in (refused.value.hint or "")


@pytest.mark.parametrize("name", ["empty_after", "trivial_after", "trivial_max"])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_numbers_below_0_are_refused(name: str, value: float) -> None:
    fields: dict[str, Any] = {name: value}
    with pytest.raises(UsageError, match=f"{name} cannot be"):
        GcRules(**fields)

"""Delegates that cannot be without their session go and stay with it, whatever the rules say."""

from __future__ import annotations

import math

import pytest

from holdfast.model.item import SESSION, Inventory, Item
from holdfast.model.plan import Action, Plan
from holdfast.policy.plan_by_name import plan_named
from holdfast.policy.planner import plan
from holdfast.policy.rules import Caps, GcRules, Limits, Policy, Rules
from holdfast.policy.trivial_sessions import plan_gc

NOW = 2_000_000_000.0
DAY = 86_400.0


def session(name: str, days: float, *, parent: str = "", **facts: object) -> Item:
    said: dict[str, object] = {
        "kind": SESSION,
        "id": name,
        "source": "cli",
        "session": name,
        "bytes": 100,
        "last_active_at": NOW - days * DAY,
        "version": "v1",
        "messages": 50,
        "parent": parent,
        "delegate": bool(parent),
        "follows": bool(parent),
    }
    return Item(**(said | facts))  # type: ignore[arg-type] # a table of facts


def policy(rules: Rules | None = None, caps: Caps | None = None) -> Policy:
    return Policy(everywhere=Limits(rules=rules or Rules(), caps=caps or Caps()))


def gone(made: Plan) -> set[str]:
    return {item.id for item in made.items if item.action is not Action.KEEP}


def pruned(items: list[Item], how: Policy) -> Plan:
    return plan(how, Inventory(home="/h", items=tuple(items)), NOW, command="prune")


def test_keep_last_counts_sessions_and_takes_their_delegates_along() -> None:
    """The newest two are sessions, not the four delegates that worked for the newest of them."""
    items = [
        session("new", 1),
        *(session(f"new-{n}", 1, parent="new") for n in range(4)),
        session("middle", 5),
        session("old", 9),
        session("old-0", 1, parent="old"),
    ]
    assert gone(pruned(items, policy(Rules(keep_last=2)))) == {"old", "old-0"}


def test_an_old_delegate_of_a_young_session_stays() -> None:
    items = [session("young", 1), session("worker", 200, parent="young")]
    assert gone(pruned(items, policy(Rules(max_age=90 * DAY)))) == set()


def test_a_delegate_goes_with_its_session_whatever_its_size() -> None:
    items = [
        session("old", 200),
        session("worker", 1, parent="old", messages=5_000),
        session("its-worker", 1, parent="worker", messages=None),
    ]
    assert gone(pruned(items, policy(Rules(max_age=90 * DAY)))) == {"old", "worker", "its-worker"}


@pytest.mark.parametrize("why", [{"alive": "process 7 has it open"}, {"pinned": True}])
def test_a_session_stays_as_long_as_a_delegate_must(why: dict[str, object]) -> None:
    items = [
        session("old", 200),
        session("worker", 200, parent="old"),
        session("its-worker", 200, parent="worker", **why),
        session("other", 200),
    ]
    made = pruned(items, policy(Rules(max_age=90 * DAY)))
    assert gone(made) == {"other"}
    [kept] = [item for item in made.items if item.id == "old"]
    assert "one of its delegates stays" in kept.reason


def test_caps_take_families_and_no_delegate_alone() -> None:
    items = [
        session("newest", 1),
        session("old", 20),
        session("worker", 300, parent="newest"),
        session("old-worker", 19, parent="old"),
    ]
    made = pruned(items, policy(caps=Caps(max_bytes=250)))
    assert gone(made) == {"old", "old-worker"}


def test_a_delegate_without_its_session_in_the_plan_stays() -> None:
    """A filter picked the delegate alone."""
    items = [session("worker", 200, parent="elsewhere"), session("old", 200)]
    assert gone(pruned(items, policy(Rules(max_age=90 * DAY)))) == {"old"}


def test_gc_leaves_a_short_delegate_of_a_long_session_and_a_short_session_of_a_long_one() -> None:
    items = [
        session("long", 30),
        session("worker", 30, parent="long", messages=1),
        session("short", 30, messages=1),
        session("its-worker", 30, parent="short", messages=80),
    ]
    made = plan_gc(GcRules(), Policy(), Inventory(home="/h", items=tuple(items)), NOW, command="gc")
    assert gone(made) == set()
    [short] = [item for item in made.items if item.id == "short"]
    assert short.reason == "one of its delegates stays: substantial: 80 messages"


def test_gc_takes_a_short_session_with_its_short_delegates() -> None:
    items = (
        session("short", 30, messages=1),
        session("its-worker", 30, parent="short", messages=2),
    )
    made = plan_gc(GcRules(), Policy(), Inventory(home="/h", items=items), NOW, command="gc")
    assert gone(made) == {"short", "its-worker"}


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"messages": 80}, "substantial: 80 messages"),
        ({"messages": None}, "unreadable: none of its messages can be read"),
        (
            {"messages": 1, "unread": "9 lines of it cannot be read"},
            "partly unreadable: 9 lines of it cannot be read",
        ),
        ({"messages": 1, "pinned": True}, "pinned"),
        ({"messages": 1, "alive": "used 1 h ago"}, "in use: used 1 h ago"),
    ],
)
def test_gc_leaves_a_short_session_with_more_inside(facts: dict[str, object], why: str) -> None:
    inner = session("inner", 30, parent="short", **facts)
    items = (session("short", 30, messages=1, inside=(inner,)),)
    made = plan_gc(GcRules(), Policy(), Inventory(home="/h", items=items), NOW, command="gc")
    assert [(item.id, item.action, item.reason) for item in made.items] == [
        ("short", Action.KEEP, f"one of its delegates stays: {why}")
    ]


def test_a_session_stays_while_something_inside_it_is_pinned() -> None:
    inner = session("inner", 300, parent="old", pinned=True)
    by_pattern = session("inner-2", 300, parent="old-2")
    items = [
        session("newest", 1),
        session("old", 300, inside=(inner,)),
        session("old-2", 300, inside=(by_pattern,)),
        session("old-3", 300),
    ]
    rules = Limits(rules=Rules(max_age=90 * DAY), caps=Caps(max_count=1, max_bytes=100))
    made = pruned(items, Policy(everywhere=rules, pins=("inner-*",)))
    assert gone(made) == {"old-3"}
    reasons = {item.id: item.reason for item in made.items}
    assert reasons["old"] == reasons["old-2"] == "one of its delegates stays: pinned"


def named(ids: list[str], *items: Item) -> Plan:
    return plan_named(
        ids,
        Inventory(home="/h", items=items),
        NOW,
        command="delete",
        reason="deleted by name",
        undoable=False,
        delegates_up_to=math.inf,
    )


def test_a_pinned_delegate_that_nobody_named_stays_when_its_session_is_named() -> None:
    inside = session("named", 30, inside=(session("inner", 30, parent="named", pinned=True),))
    assert gone(named(["named"], inside)) == set()
    assert gone(named(["named", "inner"], inside)) == {"named"}

    follows = (
        session("named", 30),
        session("worker", 30, parent="named"),
        session("its-worker", 30, parent="worker", pinned=True),
    )
    assert gone(named(["named"], *follows)) == set()
    assert gone(named(["named", "its-worker"], *follows)) == {"named", "worker", "its-worker"}

    own = session("named", 30), session("child", 30, parent="named", pinned=True, follows=False)
    assert gone(named(["named"], *own)) == {"named"}


def test_a_pin_does_not_protect_a_session_that_is_named() -> None:
    assert gone(named(["named"], session("named", 30, pinned=True))) == {"named"}


def test_a_named_session_stays_while_its_delegate_works() -> None:
    items = (session("named", 30), session("worker", 30, parent="named", alive="used 1 h ago"))
    made = plan_named(
        ["named"],
        Inventory(home="/h", items=items),
        NOW,
        command="delete",
        reason="deleted by name",
        undoable=True,
        delegates_up_to=math.inf,
    )
    assert gone(made) == set()

"""Single rules, edge by edge, with the words a person reads."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import EmptyPolicyError
from holdfast.model.item import REQUEST_DUMP, TRANSCRIPT, TRASH, Inventory, Item
from holdfast.model.plan import Action, Plan, PlanItem, Shortfall
from holdfast.policy import planner
from holdfast.policy.plan_by_name import plan_all
from holdfast.policy.rules import DAY, Limits, Policy
from tests.builders import NOW, a_policy, a_trash_item, an_inventory, an_item, limits, moment

HOUR = 3_600.0


def plan(policy: Policy, *items: Item, trash: tuple[Item, ...] = ()) -> Plan:
    return planner.plan(policy, an_inventory(*items, trash=trash), NOW, command="test")


def decided(made: Plan) -> dict[str, tuple[str, str]]:
    """Action and reason by id: what most tests are about."""
    return {item.id: (item.action.value, item.reason) for item in made.items}


def by_id(made: Plan, name: str) -> PlanItem:
    return next(item for item in made.items if item.id == name)


def at(*moments: str) -> list[Item]:
    """One item for each moment, which is also its id."""
    return [an_item(text, last_active_at=moment(text)) for text in moments]


def aged(**ages: float) -> list[Item]:
    return [an_item(name, age=age) for name, age in ages.items()]


# --- Age ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        pytest.param(0.0, ("keep", "active within 90 d"), id="now"),
        pytest.param(90 * DAY, ("keep", "active within 90 d"), id="exactly the limit"),
        pytest.param(
            90 * DAY + 1, ("remove", "older than 90 d: last active 90 d ago"), id="a second more"
        ),
        pytest.param(
            120.5 * DAY, ("remove", "older than 90 d: last active 120 d ago"), id="well over"
        ),
        pytest.param(-DAY, ("keep", "active within 90 d"), id="in the future"),
    ],
)
def test_max_age(age: float, expected: tuple[str, str]) -> None:
    made = plan(a_policy(max_age=90 * DAY), an_item("a", age=age))
    assert decided(made) == {"a": expected}


def test_age_may_empty_a_group() -> None:
    made = plan(a_policy(max_age=DAY), *aged(a=2 * DAY, b=3 * DAY))
    assert made.kept == ()


def test_what_age_removes_goes_to_the_trash() -> None:
    assert by_id(plan(a_policy(max_age=DAY), an_item("a", age=2 * DAY)), "a").undoable
    final = plan(a_policy(max_age=DAY, use_trash=False), an_item("a", age=2 * DAY))
    assert not by_id(final, "a").undoable


# --- Keep rules -----------------------------------------------------------------------------------


NOT_KEPT = ("remove", "not kept by any keep rule")


def test_keep_last() -> None:
    made = plan(a_policy(keep_last=2), *aged(old=3 * DAY, new=DAY, middle=2 * DAY))
    assert decided(made) == {
        "new": ("keep", "among the last 2: number 1"),
        "middle": ("keep", "among the last 2: number 2"),
        "old": NOT_KEPT,
    }


def test_keep_last_counts_in_each_kind_and_source() -> None:
    made = plan(
        a_policy(keep_last=1),
        an_item("t", kind=TRANSCRIPT),
        an_item("t old", kind=TRANSCRIPT, age=DAY),
        an_item("d", kind=REQUEST_DUMP, age=2 * DAY),
        an_item("cron", source="cron", age=3 * DAY),
    )
    assert [item.id for item in made.removals] == ["t old"]


def test_of_equals_the_first_by_id_counts_as_newest() -> None:
    assert decided(plan(a_policy(keep_last=1), *aged(b=DAY, a=DAY))) == {
        "a": ("keep", "the last one"),
        "b": NOT_KEPT,
    }


def test_pinned_and_living_items_take_places_among_the_last() -> None:
    made = plan(
        a_policy(keep_last=2),
        an_item("pinned", age=HOUR, pinned=True),
        an_item("living", age=2 * HOUR, alive="touched 3 min ago"),
        an_item("dead", age=3 * HOUR),
    )
    assert decided(made) == {
        "pinned": ("keep", "pinned"),
        "living": ("keep", "in use: touched 3 min ago"),
        "dead": NOT_KEPT,
    }


def test_keep_within_counts_from_the_newest_not_from_now() -> None:
    drawer = 365 * DAY
    made = plan(
        a_policy(keep_within=7 * DAY),
        *aged(newest=drawer, edge=drawer + 7 * DAY, beyond=drawer + 7 * DAY + 1),
    )
    assert decided(made) == {
        "newest": ("keep", "within 7 d of the newest"),
        "edge": ("keep", "within 7 d of the newest"),
        "beyond": NOT_KEPT,
    }


@pytest.mark.parametrize(
    ("rule", "moments", "expected"),
    [
        pytest.param(
            {"keep_hourly": 2},
            ("2026-03-25T11:59:59", "2026-03-25T11:00", "2026-03-25T10:59:59", "2026-03-25T09:30"),
            {
                "2026-03-25T11:59:59": "newest of its hour: 2026-03-25 11 h, 1 of 2",
                "2026-03-25T10:59:59": "newest of its hour: 2026-03-25 10 h, 2 of 2",
            },
            id="hourly",
        ),
        pytest.param(
            {"keep_daily": 2},
            ("2026-03-25T00:00:01", "2026-03-25T00:00", "2026-03-24T23:59:59", "2026-03-20"),
            {
                "2026-03-25T00:00:01": "newest of its day: 2026-03-25, 1 of 2",
                "2026-03-24T23:59:59": "newest of its day: 2026-03-24, 2 of 2",
            },
            id="daily, over midnight in UTC",
        ),
        pytest.param(
            {"keep_daily": 2},
            ("2026-03-25", "2026-01-07T12:00", "2026-01-07T11:00", "2026-01-06"),
            {
                "2026-03-25": "newest of its day: 2026-03-25, 1 of 2",
                "2026-01-07T12:00": "newest of its day: 2026-01-07, 2 of 2",
            },
            id="daily, days without an item do not count",
        ),
        pytest.param(
            {"keep_weekly": 2},
            ("2025-01-01", "2024-12-30", "2024-12-29T23:59:59", "2024-12-22"),
            {
                "2025-01-01": "newest of its week: 2025-W01, 1 of 2",
                "2024-12-29T23:59:59": "newest of its week: 2024-W52, 2 of 2",
            },
            id="weekly, week 1 begins in the old year",
        ),
        pytest.param(
            {"keep_weekly": 2},
            ("2027-01-04", "2027-01-03", "2026-12-31"),
            {
                "2027-01-04": "newest of its week: 2027-W01, 1 of 2",
                "2027-01-03": "newest of its week: 2026-W53, 2 of 2",
            },
            id="weekly, week 53 ends in the new year",
        ),
        pytest.param(
            {"keep_monthly": 2},
            ("2026-03-01", "2026-02-28T23:59:59", "2026-02-01", "2025-03-31"),
            {
                "2026-03-01": "newest of its month: 2026-03, 1 of 2",
                "2026-02-28T23:59:59": "newest of its month: 2026-02, 2 of 2",
            },
            id="monthly",
        ),
        pytest.param(
            {"keep_yearly": 3},
            ("2026-01-01", "2025-12-31T23:59:59", "2025-01-01"),
            {
                "2026-01-01": "newest of its year: 2026, 1 of 3",
                "2025-12-31T23:59:59": "newest of its year: 2025, 2 of 3",
            },
            id="yearly, fewer years than asked for",
        ),
    ],
)
def test_calendar_rules_keep_the_newest_of_each_bucket(
    rule: dict[str, Any], moments: tuple[str, ...], expected: dict[str, str]
) -> None:
    made = plan(a_policy(**rule), *at(*moments))
    assert {item.id: item.reason for item in made.kept} == expected
    assert {item.reason for item in made.removals} == {"not kept by any keep rule"}


@pytest.mark.parametrize("absurd", [-(2.0**63), moment("0001-01-01") - 1, 2.0**63])
def test_a_time_outside_the_calendar_has_a_bucket_too(absurd: float) -> None:
    made = plan(a_policy(keep_daily=2), an_item("absurd", last_active_at=absurd), an_item("a"))
    assert by_id(made, "absurd").reason.startswith("newest of its day: outside the calendar, ")


def test_the_first_rule_that_keeps_an_item_is_named() -> None:
    policy = a_policy(keep_last=1, keep_within=DAY, keep_daily=3, max_age=90 * DAY)
    ages = {"last": 0.0, "within": DAY, "daily": 2 * DAY, "young": 2 * DAY + HOUR, "old": 99 * DAY}
    made = plan(policy, *aged(**ages))
    assert {item.id: item.rule for item in made.items} == {
        "last": "the last one",
        "within": "within 24 h of the newest",
        "daily": "newest of its day",
        "young": "active within 90 d",
        "old": "older than 90 d",
    }


# --- Pins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pin", "pinned"),
    [
        pytest.param("s1", True, id="its session"),
        pytest.param("sessions/s1.json", True, id="its id"),
        pytest.param("s?", True, id="a pattern for the session"),
        pytest.param("*/s[0-9].json", True, id="a pattern for the id"),
        pytest.param("S1", False, id="another case"),
        pytest.param("s", False, id="a prefix"),
        pytest.param("s1.json", False, id="a part of the id"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_pins(pin: str, *, pinned: bool) -> None:
    item = an_item("sessions/s1.json", session="s1", age=2 * DAY)
    made = plan(a_policy(max_age=DAY, pins=("other", pin)), item)
    assert bool(made.kept) is pinned
    assert (made.items[0].reason == "pinned") is pinned


# --- Sources --------------------------------------------------------------------------------------


def test_a_source_with_limits_of_its_own_is_judged_by_them_alone() -> None:
    policy = a_policy(
        max_age=90 * DAY,
        keep_last=1,
        by_source={"cron": limits(max_age=7 * DAY), "telegram": limits(keep_last=1)},
    )
    made = plan(
        policy,
        *aged(cli=30 * DAY),
        an_item("cron", source="cron", age=30 * DAY),
        an_item("telegram", source="telegram", age=300 * DAY),
    )
    assert decided(made) == {
        "cli": ("keep", "the last one"),
        "cron": ("remove", "older than 7 d: last active 30 d ago"),
        "telegram": ("keep", "the last one"),
    }


def test_a_policy_of_caps_alone_says_nothing_of_rules() -> None:
    made = plan(a_policy(max_bytes=10**9), *aged(cli=99 * DAY))
    assert decided(made)["cli"] == ("keep", "within the limits")


def test_a_source_without_rules_keeps_everything() -> None:
    policy = a_policy(max_age=DAY, by_source={"cron": Limits()})
    made = plan(policy, an_item("cron", source="cron", age=99 * DAY), *aged(cli=99 * DAY))
    assert decided(made)["cron"] == ("keep", "no rule for this source")
    assert decided(made)["cli"][0] == "remove"


def test_the_cap_of_a_source_counts_that_source_alone() -> None:
    made = plan(
        a_policy(by_source={"cron": limits(max_count=1)}),
        an_item("c1", source="cron", age=DAY),
        an_item("c2", source="cron"),
        *aged(old=9 * DAY, older=10 * DAY),
    )
    assert [item.id for item in made.removals] == ["c1"]


def test_what_the_cap_of_a_source_takes_counts_for_the_cap_on_all() -> None:
    made = plan(
        a_policy(max_count=3, by_source={"cron": limits(max_count=1)}),
        an_item("c1", source="cron", age=DAY),
        an_item("c2", source="cron"),
        *aged(old=9 * DAY, new=0),
    )
    assert decided(made)["c1"] == ("remove", "over the cap of 1 item")
    assert [item.id for item in made.removals] == ["c1"]


# --- Trash ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trash_age", "age", "expected"),
    [
        pytest.param(7 * DAY, 7 * DAY, ("keep", "in the trash for less than 7 d"), id="the limit"),
        pytest.param(
            7 * DAY,
            8 * DAY,
            ("remove", "in the trash longer than 7 d: for 8 d"),
            id="over the limit",
        ),
        pytest.param(None, 999 * DAY, ("keep", "in the trash"), id="no limit"),
    ],
)
def test_trash_age(trash_age: float | None, age: float, expected: tuple[str, str]) -> None:
    made = plan(a_policy(max_age=DAY, trash_age=trash_age), trash=(a_trash_item("op/0", age=age),))
    assert decided(made) == {"op/0": expected}
    assert not made.items[0].undoable


def test_rules_do_not_judge_trash() -> None:
    made = plan(a_policy(keep_last=1), trash=(a_trash_item("op/0"), a_trash_item("op/1", age=DAY)))
    assert made.removals == ()


def test_pinned_trash_stays() -> None:
    policy = a_policy(max_bytes=0, trash_age=DAY, pins=("op/0",))
    made = plan(policy, trash=(a_trash_item("op/0", age=9 * DAY),))
    assert decided(made) == {"op/0": ("keep", "pinned")}


# --- The cap on the count -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "gone"),
    [
        pytest.param(4, [], id="above"),
        pytest.param(3, [], id="exactly"),
        pytest.param(2, ["oldest"], id="one over"),
        pytest.param(1, ["middle", "oldest"], id="two over"),
    ],
)
def test_a_count_cap_takes_the_oldest(limit: int, gone: list[str]) -> None:
    made = plan(a_policy(max_count=limit), *aged(newest=0, middle=DAY, oldest=2 * DAY))
    assert sorted(item.id for item in made.removals) == gone
    assert made.shortfalls == ()


def test_a_count_cap_says_so_and_uses_the_trash() -> None:
    items = [an_item(f"{n:04}", age=n) for n in range(1_001)]
    made = plan(a_policy(max_count=1_000), *items)
    assert decided(made)["1000"] == ("remove", "over the cap of 1,000 items")
    assert by_id(made, "1000").undoable


def test_trash_is_not_counted() -> None:
    made = plan(a_policy(max_count=1), an_item("a"), trash=(a_trash_item(), a_trash_item("op/1")))
    assert made.removals == ()
    assert made.shortfalls == ()


def test_a_count_cap_that_cannot_be_reached_says_what_holds_it() -> None:
    made = plan(
        a_policy(max_count=1),
        an_item("newest"),
        an_item("pinned", age=DAY, pinned=True),
        an_item("living", age=2 * DAY, alive="it is open"),
        an_item("goes", age=3 * DAY),
    )
    assert [item.id for item in made.removals] == ["goes"]
    assert made.shortfalls == (
        Shortfall(
            cap="max_count",
            limit=1,
            remaining=3,
            held_by={"newest of its kind and source": 1, "pinned": 1, "in use": 1},
        ),
    )


# --- The cap on bytes -----------------------------------------------------------------------------


#: By the byte cap the trash goes first, then what is bound for it, then the oldest that is kept.
CAPPED_IN_THIS_ORDER = ["op/0", "op/1", "bound 40 d", "bound 31 d", "kept 20 d", "kept 10 d"]


def all_waves() -> Inventory:
    return an_inventory(
        *[an_item(f"kept {days} d", age=days * DAY) for days in (1, 10, 20)],
        *[an_item(f"bound {days} d", age=days * DAY) for days in (31, 40)],
        trash=[a_trash_item("op/1", age=2 * DAY), a_trash_item("op/0", age=3 * DAY)],
    )


@pytest.mark.parametrize("taken", range(7))
def test_the_order_of_the_byte_cap(taken: int) -> None:
    policy = a_policy(max_age=30 * DAY, max_bytes=700 - taken * 100)
    made = planner.plan(policy, all_waves(), NOW, command="test")
    capped = [item for item in made.removals if item.rule.startswith("over the cap")]
    assert {item.id for item in capped} == set(CAPPED_IN_THIS_ORDER[:taken])
    assert not any(item.undoable for item in capped)
    assert made.shortfalls == ()


def test_the_byte_cap_words() -> None:
    made = plan(a_policy(max_bytes=1_500_000), *aged(a=0), an_item("b", age=DAY, bytes=1_500_000))
    assert decided(made)["b"] == ("remove", "over the cap of 1.5 MB")


def test_the_byte_cap_names_the_rule_of_what_was_bound_for_the_trash() -> None:
    """The rule alone would have put it there; the trash counts, so the cap ends it."""
    policy = a_policy(max_age=30 * DAY, max_bytes=100)
    made = plan(policy, an_item("new"), an_item("old", age=40 * DAY))
    why = "over the cap of 100 B, trash included: older than 30 d: last active 40 d ago"
    assert decided(made)["old"] == ("remove", why)
    assert by_id(made, "old").gone_by_cap


def test_the_byte_cap_goes_on_until_what_stays_fits() -> None:
    small, large = an_item("small", age=2 * DAY, bytes=1), an_item("large", age=DAY, bytes=999)
    made = plan(a_policy(max_bytes=500), an_item("new", bytes=10), small, large)
    assert {item.id for item in made.removals} == {"small", "large"}


def test_trash_that_goes_by_age_counts_no_more() -> None:
    policy = a_policy(max_bytes=100, trash_age=DAY)
    made = plan(policy, an_item("a"), trash=(a_trash_item(age=2 * DAY),))
    assert [item.rule for item in made.removals] == ["in the trash longer than 24 h"]


def test_an_item_without_bytes_is_no_help() -> None:
    made = plan(a_policy(max_bytes=50), *aged(a=0), an_item("empty", age=DAY, bytes=0))
    assert made.removals == ()
    assert [shortfall.remaining for shortfall in made.shortfalls] == [100]


def test_the_byte_cap_of_a_source_counts_its_own_trash() -> None:
    made = plan(
        a_policy(by_source={"cron": limits(max_bytes=100)}),
        an_item("cron", source="cron"),
        trash=(a_trash_item("op/0", source="cron"), a_trash_item("op/1", source="cli")),
    )
    assert [item.id for item in made.removals] == ["op/0"]


def test_a_byte_cap_that_cannot_be_reached_says_what_holds_it() -> None:
    made = plan(
        a_policy(max_bytes=50, pins=("op/0",), by_source={"cron": limits(max_bytes=10)}),
        an_item("newest", bytes=100),
        an_item("pinned", bytes=20, age=DAY, pinned=True),
        an_item("living", bytes=3, age=2 * DAY, alive="it is open"),
        an_item("goes", bytes=1_000, age=3 * DAY),
        an_item("cron", bytes=400, source="cron"),
        trash=(a_trash_item("op/0", bytes=5_000), a_trash_item("op/1", bytes=60_000)),
    )
    assert {item.id for item in made.removals} == {"goes", "op/1"}
    newest = "newest of its kind and source"
    assert made.shortfalls == (
        Shortfall(cap="max_total_size of cron", limit=10, remaining=400, held_by={newest: 400}),
        Shortfall(
            cap="max_total_size",
            limit=50,
            remaining=5_523,
            held_by={newest: 500, "pinned": 5_020, "in use": 3},
        ),
    )


# --- The plan as a whole --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(Policy(), id="defaults"),
        pytest.param(a_policy(trash_age=DAY, pins=("a",)), id="trash and pins are no rules"),
        pytest.param(a_policy(by_source={"cron": Limits()}), id="a source without limits"),
    ],
)
def test_an_empty_policy_is_refused(policy: Policy) -> None:
    with pytest.raises(EmptyPolicyError, match="no age, no keep rule and no cap") as refused:
        plan(policy, an_item())
    assert "older_than='90d'" in (refused.value.hint or "")


def test_a_plan_names_its_home_command_and_time() -> None:
    made = planner.plan(a_policy(keep_last=1), an_inventory(), NOW, command="sessions prune")
    assert made == Plan(home="/home/of/agent", command="sessions prune", made_at=NOW, items=())


def test_plan_all_removes_just_these_for_good() -> None:
    items = [a_trash_item("op/0"), a_trash_item("op/1", pinned=True)]
    made = plan_all(items, "/home", NOW, command="trash empty", reason="asked for")
    assert [(item.kind, item.id) for item in made.items] == [(TRASH, "op/0"), (TRASH, "op/1")]
    for item in made.items:
        assert (item.action, item.reason, item.undoable) == (Action.REMOVE, "asked for", False)

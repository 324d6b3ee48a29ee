"""Which sessions and days are near a limit or a budget."""

from __future__ import annotations

from typing import Any

from holdfast.model.guard import Guarded, Near
from holdfast.model.session import Session, Tokens
from holdfast.model.usage import Usage, UsageEntry
from holdfast.policy.budget_check import nearness
from holdfast.policy.budgets import Budgets, GuardOptions
from holdfast.policy.prices import Price, Prices
from holdfast.policy.session_limits import SessionLimits

NO_LIMITS = SessionLimits(max_messages=0, max_bytes=0)
PRICES = Prices(by_model={"m": Price(input=1, output=1)})


def a_session(name: str = "a", **fields: Any) -> Session:
    made = {"id": name, "source": "cli", "model": "m", "started_at": 0.0, "last_active_at": 0.0}
    return Session(**{**made, **fields})


def an_entry(source: str, **fields: Any) -> UsageEntry:
    return UsageEntry(day="2026-03-25", source=source, model="m", usage=Usage(**fields))


def near(
    options: GuardOptions, *sessions: Session, today: tuple[UsageEntry, ...] = ()
) -> list[Any]:
    found = nearness(NO_LIMITS, options, PRICES, sessions, today).near
    return [(each.session, each.source, each.what, each.used, each.limit) for each in found]


def everywhere(**budgets: Any) -> GuardOptions:
    return GuardOptions(everywhere=Budgets(**budgets))


def test_without_budgets_nothing_is_near() -> None:
    big = a_session(tokens=Tokens(input=10**9), cost=1e6, message_count=10**6, bytes=10**9)
    assert near(GuardOptions(), big, today=(an_entry("cli", tokens=Tokens(input=10**9)),)) == []


def test_messages_and_bytes_are_near_from_their_share_on() -> None:
    limits = SessionLimits(max_messages=10, max_bytes=100, warn_share=0.5)
    sessions = [
        a_session("few", message_count=4, bytes=49),
        a_session("many", message_count=5, bytes=0),
        a_session("large", message_count=0, bytes=200),
    ]
    found = nearness(limits, GuardOptions(), PRICES, sessions, ()).near
    assert [(each.session, each.what, each.share) for each in found] == [
        ("large", "bytes", 2.0),
        ("many", "messages", 0.5),
    ]


def test_each_budget_of_a_session_can_be_near() -> None:
    options = everywhere(
        tokens=100,
        tokens_in=100,
        tokens_out=100,
        cost=1.0,
        iterations=10,
        wall_seconds=60.0,
        messages_per_minute=1,
    )
    used = a_session(
        tokens=Tokens(input=85, output=14),
        cost=0.9,
        message_count=50,
        guarded=Guarded(iterations=10, seconds=50.0),
    )
    assert near(options, used) == [
        ("a", "cli", "iterations", 10, 10),
        ("a", "cli", "tokens", 99, 100),
        ("a", "cli", "cost", 0.9, 1.0),
        ("a", "cli", "tokens_in", 85, 100),
        ("a", "cli", "wall_seconds", 50.0, 60.0),
    ]


def test_a_source_with_budgets_of_its_own_is_held_to_those() -> None:
    options = GuardOptions(
        everywhere=Budgets(tokens=100), by_source={"cron": Budgets(tokens=1_000)}
    )
    used = Tokens(input=90)
    sessions = [a_session("a", tokens=used), a_session("b", source="cron", tokens=used)]
    assert near(options, *sessions) == [("a", "cli", "tokens", 90, 100)]


def test_near_begins_at_the_smallest_share_that_warns() -> None:
    used = a_session(tokens=Tokens(input=60))
    assert near(everywhere(tokens=100, warn_shares=(0.9, 0.6)), used)
    assert not near(everywhere(tokens=100, warn_shares=(0.9,)), used)
    assert not near(everywhere(tokens=100, warn_shares=()), used)
    assert near(everywhere(tokens=60, warn_shares=()), used)


def test_a_day_is_that_of_all_and_that_of_a_source() -> None:
    options = GuardOptions(
        everywhere=Budgets(daily_tokens=100, daily_cost=2.0),
        by_source={"cron": Budgets(daily_cost=1.0), "quiet": Budgets(daily_tokens=1)},
    )
    today = (
        an_entry("cli", tokens=Tokens(input=50), cost=0.2),
        an_entry("cron", tokens=Tokens(input=49), cost=0.9),
    )
    assert near(options, today=today) == [
        (None, None, "daily_tokens", 99, 100),
        (None, "cron", "daily_cost", 0.9, 1.0),
    ]


def test_a_cost_that_nobody_knows_is_counted_and_not_taken_for_nothing() -> None:
    options = GuardOptions(everywhere=Budgets(cost=1.0, daily_cost=1.0))
    dark = Tokens(input=10**9)
    sessions = [
        a_session("told", cost=0.99),
        a_session("priced", unpriced=Tokens(input=900_000)),
        a_session("dark", model="other", unpriced=dark),
    ]
    today = (
        UsageEntry(day=None, source="cli", model="other", usage=Usage(tokens=dark, unpriced=dark)),
    )
    found = nearness(NO_LIMITS, options, PRICES, sessions, today)
    assert [(each.session, each.what) for each in found.near] == [
        ("told", "cost"),
        ("priced", "cost"),
    ]
    assert found.unknown_cost == 2


def test_its_document() -> None:
    one = Near(session=None, source="cron", what="daily_cost", used=1.0, limit=2.0)
    assert one.to_json() == {
        "session": None,
        "source": "cron",
        "what": "daily_cost",
        "used": 1.0,
        "limit": 2.0,
        "share": 0.5,
    }

"""What tokens cost: prices by model, what was told, and what nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import UsageError
from holdfast.model.session import Session, Tokens
from holdfast.model.text import cost_digits, format_cost
from holdfast.model.usage import Usage, UsageEntry
from holdfast.policy.prices import Price, Prices, costs, session_cost

MILLION = 1_000_000
PRICES = Prices(
    by_model={
        "m-large": Price(input=3, output=15, cached=0.3),
        "m-*": Price(input=1, output=5),
        "m-small-*": Price(input=0.1, output=0.5),
        "local": Price(input=0, output=0),
        "odd*": Price(input=7, output=7),
    }
)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("m-large", 3),
        ("m-large-2", 1),
        ("m-small-1", 0.1),
        ("m-small", 1),
        ("m-", 1),
        ("m", None),
        ("M-large", None),
        ("other", None),
        ("local", 0),
        ("", None),
        (None, None),
        ("odd*", 7),  # a model may be called anything
    ],
)
def test_the_very_name_counts_first_then_the_longest_beginning(
    model: str | None, expected: float | None
) -> None:
    assert PRICES.cost_of(model, Tokens(input=MILLION)) == expected


def test_a_star_alone_is_for_all_others_and_for_sessions_without_a_model() -> None:
    prices = Prices(by_model={"*": Price(input=2, output=0), "m": Price(input=1, output=0)})
    used = Tokens(input=MILLION)
    assert [prices.cost_of(model, used) for model in ("m", "other", "", None)] == [1, 2, 2, 2]


def test_every_kind_of_token_has_its_price() -> None:
    used = Tokens(input=MILLION, output=2 * MILLION, cached=10 * MILLION)
    assert PRICES.cost_of("m-large", used) == pytest.approx(3 + 30 + 3)
    # Beside the input, and not among it; without a price of their own, they cost as input does.
    assert PRICES.cost_of("m-x", used) == pytest.approx(1 + 10 + 10)


def test_a_price_of_nothing_is_known() -> None:
    assert PRICES.cost_of("local", Tokens(input=MILLION)) == 0.0
    assert Prices().cost_of("local", Tokens(input=MILLION)) is None
    assert Prices().cost_of("local", Tokens()) is None


@pytest.mark.parametrize("wrong", [-1, -0.01, float("nan"), float("inf")])
@pytest.mark.parametrize("which", ["input", "output", "cached"])
def test_a_price_below_nothing_or_beyond_all_is_refused(which: str, wrong: float) -> None:
    fields: dict[str, Any] = {"input": 1, "output": 1, "cached": 1, which: wrong}
    with pytest.raises(UsageError, match="price"):
        Price(**fields)


def a_session(**fields: Any) -> Session:
    made = {"id": "a", "source": "cli", "started_at": 0.0, "last_active_at": 0.0}
    return Session(**{**made, **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 0.0),
        ({"model": "other", "cost": 0.5, "tokens": Tokens(input=9)}, 0.5),
        ({"model": "other", "cost": 0.5, "unpriced": Tokens(output=1)}, None),
        ({"model": "m-1", "cost": 0.5, "unpriced": Tokens(input=MILLION)}, 1.5),
        ({"model": "local", "unpriced": Tokens(input=MILLION)}, 0.0),
        ({"unpriced": Tokens(cached=1)}, None),
    ],
)
def test_what_was_told_counts_as_it_is_and_prices_for_the_rest(
    fields: dict[str, Any], expected: float | None
) -> None:
    session = a_session(**fields)
    assert PRICES.cost_of_session(session) == expected
    assert session_cost(PRICES, session).full == expected
    assert session_cost(PRICES, session).known >= session.cost


def entry(day: str | None, source: str, model: str | None, **fields: Any) -> UsageEntry:
    return UsageEntry(day=day, source=source, model=model, usage=Usage(**fields))


def test_totals_tell_the_known_from_the_unknown() -> None:
    thousand = Tokens(input=1_000)
    totals = costs(
        [
            entry("2026-03-25", "cli", "m-large", tokens=thousand, cost=0.4),
            entry("2026-03-25", "cron", "m-1", tokens=thousand, unpriced=thousand),
            entry("2026-03-24", "cron", "other", tokens=thousand, unpriced=thousand),
            entry(None, "cron", None, tokens=Tokens(output=5), unpriced=Tokens(output=5)),
        ],
        PRICES,
    )
    assert totals.ever.usage.tokens == Tokens(input=3_000, output=5)
    assert totals.ever.known == pytest.approx(0.401)
    assert totals.ever.full is None
    assert totals.ever.unknown == Tokens(input=1_000, output=5)
    full = {share.name: share.cost.full for share in totals.by_day}
    assert full == {"2026-03-25": pytest.approx(0.401), "2026-03-24": None, None: None}
    assert [share.name for share in totals.by_day] == ["2026-03-25", "2026-03-24", None]
    assert [(share.name, share.cost.full) for share in totals.by_source] == [
        ("cli", 0.4),
        ("cron", None),
    ]
    # Of what is not known, what used more comes first.
    assert [share.name for share in totals.by_model] == ["m-large", "m-1", "other", None]
    assert totals.to_json()["full_cost"] is None
    assert totals.to_json()["by_source"][0]["full_cost"] == 0.4


def test_of_many_days_none_is_left_out() -> None:
    days = [f"2026-{month:02}-{day:02}" for month in (1, 2) for day in range(1, 29)]
    totals = costs([entry(day, "cli", "m", tokens=Tokens(input=1)) for day in days], PRICES)
    assert [share.name for share in totals.by_day] == days[::-1]
    assert totals.ever.usage.tokens.input == len(days)


@pytest.mark.parametrize(
    ("cost", "shown"),
    [
        (0, "$0.00"),
        (0.00001, "< $0.0001"),
        (0.0001, "$0.0001"),
        (0.0051, "$0.0051"),
        (0.25, "$0.25"),
        (1, "$1.00"),
        (1234.5, "$1,234.50"),
    ],
)
def test_what_is_not_nothing_never_looks_like_it(cost: float, shown: str) -> None:
    assert format_cost(cost) == shown


def test_costs_below_each_other_have_the_same_number_of_digits() -> None:
    column = [1234.5, 0.25, 0.0, 0.0051]
    digits = cost_digits(column)
    shown = [format_cost(each, digits) for each in column]
    assert shown == ["$1,234.5000", "$0.2500", "$0.0000", "$0.0051"]
    assert cost_digits(column[:-1]) == 2

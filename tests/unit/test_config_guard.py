"""[guard] with its sources, and [prices]: what holds, what does not, and what it amounts to."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest

from holdfast.config.reader import check, load
from holdfast.config.settings import OWN_KEYS, Settings
from holdfast.errors import ConfigError
from holdfast.model.session import Tokens
from holdfast.policy.budgets import Budgets, GuardOptions, Thresholds
from holdfast.policy.prices import Price, Prices


def settings(tmp_path: Path, text: str, **environ: str) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, environ)


def problems(text: str) -> list[str]:
    _, found = check(tomllib.loads(text), text, "config.toml")
    return [str(problem).removeprefix("config.toml:") for problem in found]


def test_keys_of_a_source_are_the_budgets_and_keys_of_a_model_its_prices() -> None:
    assert len(OWN_KEYS["guard"]) == len(dataclasses.fields(Budgets))
    assert [*OWN_KEYS["prices"]] == [field.name for field in dataclasses.fields(Price)]


def test_by_default_no_budget_and_no_price_is_set() -> None:
    usual = load(None, {})
    assert usual.guard_options() == GuardOptions()
    assert not [*usual.guard_options().everywhere.limits()]
    assert usual.prices() == Prices()
    assert usual.prices().cost_of("some-model", Tokens(input=1)) is None


EVERYTHING = """
[guard]
max_tokens = 1
max_tokens_in = 2
max_tokens_out = 3
max_cost = 4.5
max_iterations = 5
max_minutes = 1.5
max_messages_per_minute = 7
daily_tokens = 8
daily_cost = 9
warn_percent = [90, 50]
breaker = [1, 0, 2]
same_call = [0, 0, 4]
same_tool = [5, 6, 7]
idle_minutes = 0.5
"""


def test_every_key_has_its_place_in_the_options(tmp_path: Path) -> None:
    assert settings(tmp_path, EVERYTHING).guard_options() == GuardOptions(
        everywhere=Budgets(
            tokens=1,
            tokens_in=2,
            tokens_out=3,
            cost=4.5,
            iterations=5,
            wall_seconds=90.0,
            messages_per_minute=7,
            daily_tokens=8,
            daily_cost=9,
            warn_shares=(0.5, 0.9),
        ),
        breaker=Thresholds(nudge=1, strong_nudge=0, stop=2),
        same_call=Thresholds(nudge=0, strong_nudge=0, stop=4),
        same_tool=Thresholds(nudge=5, strong_nudge=6, stop=7),
        idle_after=30.0,
    )


def test_a_source_takes_limits_of_a_session_from_guard_and_not_those_of_a_day(
    tmp_path: Path,
) -> None:
    text = "[guard]\nmax_tokens = 10\nmax_cost = 1\ndaily_cost = 5\nwarn_percent = 70\n"
    text += "[guard.source.cron]\nmax_cost = 0\ndaily_tokens = 9\n"
    options = settings(tmp_path, text).guard_options()
    assert options.by_source == {
        "cron": Budgets(tokens=10, cost=0, daily_tokens=9, daily_cost=0, warn_shares=(0.7,))
    }
    assert options.everywhere == Budgets(tokens=10, cost=1, daily_cost=5, warn_shares=(0.7,))


def test_a_source_that_no_session_has_is_no_mistake(tmp_path: Path) -> None:
    options = settings(tmp_path, "[guard.source.not-yet]\nmax_tokens = 1").guard_options()
    assert options.budgets_of("not-yet").tokens == 1
    assert options.budgets_of("cli").tokens == 0


def test_prices_are_by_model(tmp_path: Path) -> None:
    text = '[prices]\n"m-1" = { input = 3, output = 15.5, cached = 0.3 }\n'
    text += "[prices.'m-*']\ninput = 0\noutput = 0\n"
    made = settings(tmp_path, text)
    assert made.prices() == Prices(
        by_model={
            "m-1": Price(input=3, output=15.5, cached=0.3),
            "m-*": Price(input=0, output=0),
        }
    )
    shown = {key: (value, origin) for key, value, origin in made.entries()}
    assert shown["prices.m-1.cached"] == (0.3, "config.toml:2")
    assert shown['prices."m-*".output'] == (0, "config.toml:5")
    assert 'prices."m-*".cached' not in shown


def test_sources_of_guard_and_of_sessions_do_not_mix(tmp_path: Path) -> None:
    text = "[sessions.source.cron]\nkeep_last = 3\n[guard.source.cron]\nmax_tokens = 4\n"
    made = settings(tmp_path, text)
    assert [(own.table, own.name, own.values) for own in made.own] == [
        ("guard", "cron", (("max_tokens", 4),)),
        ("sessions", "cron", (("keep_last", 3),)),
    ]
    shown = {key: value for key, value, _ in made.entries()}
    assert shown["sessions.source.cron.keep_last"] == 3
    assert shown["guard.source.cron.max_tokens"] == 4


def test_the_environment_overrides(tmp_path: Path) -> None:
    made = settings(
        tmp_path,
        EVERYTHING,
        HOLDFAST_GUARD_MAX_COST="0.25",
        HOLDFAST_GUARD_WARN_PERCENT="60, 75",
        HOLDFAST_GUARD_BREAKER="[2, 4, 8]",
    )
    options = made.guard_options()
    assert (options.everywhere.cost, options.everywhere.warn_shares) == (0.25, (0.6, 0.75))
    assert options.breaker == Thresholds(nudge=2, strong_nudge=4, stop=8)
    assert made.origins["guard.max_cost"] == "HOLDFAST_GUARD_MAX_COST"


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"HOLDFAST_GUARD_SAME_CALL: .* three whole numbers"):
        settings(tmp_path, "", HOLDFAST_GUARD_SAME_CALL="3, six")


BAD = {
    "[guard]\nmax_token = 1": ['2: guard.max_token: unknown key; did you mean "max_tokens"?'],
    "[guard]\nmax_tokens = -1": [
        "2: guard.max_tokens: expected a whole number from 0 to 1000000000000, found -1"
    ],
    "[guard]\nmax_tokens = 1.5": [
        "2: guard.max_tokens: expected a whole number from 0 to 1000000000000, found 1.5"
    ],
    "[guard]\nmax_cost = nan": [
        "2: guard.max_cost: expected a number from 0 to 1000000000, found nan"
    ],
    "[guard]\nmax_cost = inf": [
        "2: guard.max_cost: expected a number from 0 to 1000000000, found inf"
    ],
    "[guard]\nmax_messages = 5": ["2: guard.max_messages: unknown key; it belongs in [sessions]"],
    "[sessions]\nmax_tokens = 5": ["2: sessions.max_tokens: unknown key; it belongs in [guard]"],
    "[guard]\nwarn_percent = [50, 100]": [
        (
            "2: guard.warn_percent: expected a whole number from 1 to 99, or a list of them, "
            "found [50, 100]"
        )
    ],
    "[guard]\nwarn_percent = true": [
        (
            "2: guard.warn_percent: expected a whole number from 1 to 99, or a list of them, "
            "found true (a boolean)"
        )
    ],
    "[guard]\nbreaker = 3": [
        "2: guard.breaker: expected three whole numbers from 0 to 1000000, as in [3, 6, 9], found 3"
    ],
    "[guard]\nbreaker = [3, 6]": [
        (
            "2: guard.breaker: expected three whole numbers from 0 to 1000000, as in [3, 6, 9], "
            "found [3, 6]"
        )
    ],
    "[guard]\nbreaker = [9, 6, 3]": [
        "2: guard.breaker: expected increasing numbers, zeros aside, found [9, 6, 3]"
    ],
    "[guard]\nsame_tool = [3, 3, 0]": [
        "2: guard.same_tool: expected increasing numbers, zeros aside, found [3, 3, 0]"
    ],
    "[guard.sources.cron]\nmax_tokens = 1": [
        '1: guard.sources: unknown key; did you mean "source"?'
    ],
    "[guard.source.Cron]\nmax_tokens = 1": [
        (
            "1: guard.source.Cron: a source name is 1 to 64 of a-z 0-9 _ . - and begins with a "
            'letter or a digit; did you mean "cron"?'
        )
    ],
    "[guard.source.cron]\nbreaker = [1, 2, 3]": [
        "2: guard.source.cron.breaker: unknown key; it belongs in [guard]"
    ],
    "[guard.source.cron]\nmax_itterations = 1": [
        '2: guard.source.cron.max_itterations: unknown key; did you mean "max_iterations"?'
    ],
    "[prices]\ninput = 3": ["2: prices.input: expected a table, found 3"],
    "[prices.m]\ninput = 3": [
        '1: prices.m: a price needs "output", the cost of a million of those tokens'
    ],
    "[prices.m]\ninput = -3\noutput = '1'\ncache = 1": [
        "2: prices.m.input: expected a number from 0 to 1000000, found -3",
        (
            '3: prices.m.output: expected a number from 0 to 1000000, found "1" (text); '
            "write it without quotes"
        ),
        '4: prices.m.cache: unknown key; did you mean "cached"?',
    ],
    "[prices]\n'*-mini' = { input = 1, output = 2 }": [
        '2: prices."*-mini": * may only be at the end, for every model that begins that way'
    ],
    "[prices]\n'' = { input = 1, output = 2 }": [
        (
            '2: prices."": a model is 1 to 64 printable characters; * at the end stands for the '
            "rest of the name"
        )
    ],
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_named_with_its_place(text: str) -> None:
    assert problems(text) == BAD[text]

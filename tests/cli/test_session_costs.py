"""What sessions cost, and what is near a budget, as the command says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from holdfast import Message, Tokens
from holdfast.api.sessions import open_sessions
from tests.cli.machine import Machine
from tests.cli.runner import Result

TOLD = "20260101_000000_aaaaaa"
PRICED = "20260102_000000_bbbbbb"
DARK = "20260103_000000_cccccc"
NAMELESS = "20260104_000000_dddddd"
PRICES = '[prices]\n"m-*" = { input = 10, output = 30, cached = 1 }\n'
WHOLE = PRICES + '"*" = { input = 2, output = 2 }\n'


def fill(home: Path) -> None:
    """One that told its cost, one whose model may have a price, one whose model has none, one
    without a model; the first one has ended."""
    answered = Message(role="assistant", content="x", tokens=Tokens(input=900, output=100))
    with open_sessions(home) as sessions:
        for name, source, model in (
            (TOLD, "cli", "m-1"),
            (PRICED, "telegram", "m-2"),
            (DARK, "cron", "x-1"),
            (NAMELESS, "cron", None),
        ):
            sessions.create(source=source, id=name, model=model)
        sessions.append(TOLD, Message(role="assistant", tokens=Tokens(input=5_000), cost=0.25))
        sessions.end(TOLD)
        sessions.append(PRICED, answered, answered, answered)
        sessions.append(DARK, Message(role="assistant", tokens=Tokens(input=8_000, cached=400)))
        sessions.append(NAMELESS, Message(role="user", content="hello", tokens=7))


@pytest.fixture(scope="session")
def costly_once(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(root=tmp_path_factory.mktemp("costly"))
    machine.user.mkdir(mode=0o700)
    fill(machine.home)
    return machine


@pytest.fixture
def costly(costly_once: Machine) -> Machine:
    """For tests that only read. The configuration is that of the test."""
    configure(costly_once, "")
    return costly_once


def configure(machine: Machine, text: str) -> None:
    (machine.home / "config.toml").write_text(text)


def row(result: Result, name: str) -> list[str]:
    [found] = [line.split() for line in result.lines if line.startswith(name)]
    return found


# --- stats --cost -----------------------------------------------------------------------------


def test_what_is_unknown_is_said_and_never_nothing(costly: Machine) -> None:
    shown = costly.ok("sessions", "stats", "--cost")
    assert "16,007 tokens, cost $0.25 + unknown" in shown.words
    assert row(shown, "cli")[-1] == "$0.25"
    assert row(shown, "telegram")[-1] == "unknown"
    assert row(shown, "none named")[-1] == "unknown"
    assert "Cost unknown for 8,400 tokens of model x-1." in shown.words
    assert "Cost unknown for 3,000 tokens of model m-2." in shown.words
    assert "Cost unknown for 7 tokens of sessions without a model." in shown.words
    assert "holdfast config edit" in shown.out
    assert "$0.00 " not in shown.out


def test_prices_are_for_what_came_without_a_cost(costly: Machine) -> None:
    configure(costly, PRICES)
    shown = costly.ok("sessions", "stats", "--cost")
    assert row(shown, "telegram")[-1] == "$0.0360"
    assert row(shown, "cli")[-1] == "$0.2500", "what was told is not replaced"
    assert "$0.0360 of that is computed from the prices" in shown.words
    assert "model m-2." not in shown.words
    configure(costly, WHOLE)
    shown = costly.ok("sessions", "stats", "--cost")
    assert "16,007 tokens, cost $0.30" in shown.words
    assert "unknown" not in shown.out


def test_the_document_of_costs(costly: Machine) -> None:
    configure(costly, PRICES)
    document = costly.json("sessions", "stats", "--cost")
    assert (document["kind"], document["tokens_in"], document["cost"]) == ("holdfast", 15_707, 0.25)
    assert document["known_cost"] == pytest.approx(0.286)
    assert document["full_cost"] is None
    assert (document["unknown_in"], document["unknown_cached"]) == (8_007, 400)
    by_model = {share["model"]: share for share in document["by_model"]}
    assert by_model["m-1"]["full_cost"] == 0.25
    assert by_model["m-2"]["full_cost"] == pytest.approx(0.036)
    assert by_model["x-1"]["full_cost"] is by_model[None]["full_cost"] is None
    assert costly.json("sessions", "stats")["costs"] == {
        key: value for key, value in document.items() if key not in ("home", "kind")
    }


def test_costs_of_nothing(used: Machine) -> None:
    assert "No usage yet" in used.ok("sessions", "stats", "--cost").out
    document = used.json("sessions", "stats", "--cost")
    assert (document["full_cost"], document["by_day"]) == (0.0, [])


# --- list --sort ------------------------------------------------------------------------------


def listed(machine: Machine, *flags: str) -> list[tuple[str, Any]]:
    document = machine.json("sessions", "list", *flags)
    return [(session["id"], session["full_cost"]) for session in document["sessions"]]


def test_sorted_by_cost_with_and_without_prices(costly: Machine) -> None:
    assert listed(costly, "--sort", "cost")[0] == (TOLD, 0.25)
    assert {cost for _, cost in listed(costly, "--sort", "cost")[1:]} == {None}
    configure(
        costly, '[prices]\n"x-1" = { input = 100, output = 1 }\n' + PRICES[len("[prices]\n") :]
    )
    found = listed(costly, "--sort", "cost")
    assert [name for name, _ in found] == [DARK, TOLD, PRICED, NAMELESS]
    assert [cost for _, cost in found] == [pytest.approx(0.84), 0.25, pytest.approx(0.036), None]


def test_the_list_shows_what_it_is_sorted_by(costly: Machine) -> None:
    by_cost = costly.ok("sessions", "list", "--sort", "cost")
    assert by_cost.lines[0].split() == [
        "id",
        "source",
        "active",
        "messages",
        "tokens",
        "cost",
        "state",
        "title",
    ]
    assert row(by_cost, TOLD)[-3:] == ["5,000", "$0.25", "ended"]
    assert row(by_cost, DARK)[-3:] == ["8,000", "unknown", "open"]
    assert "The full cost of 3 of these is unknown" in by_cost.words
    by_tokens = costly.ok("sessions", "list", "--sort", "tokens")
    assert "cost" not in by_tokens.out
    assert [line[: len(DARK)] for line in by_tokens.lines[1:5]] == [DARK, TOLD, PRICED, NAMELESS]
    by_messages = costly.ok("sessions", "list", "--sort", "messages")
    assert by_messages.lines[1].startswith(PRICED)


def test_archived_sessions_are_sorted_by_cost_too(machine: Machine) -> None:
    fill(machine.home)
    configure(machine, PRICES)
    for name in (PRICED, DARK):
        machine.ok("sessions", "end", name)
    machine.ok("sessions", "archive", TOLD, PRICED, DARK, "--yes")
    flags = ("--archived", "--sort", "cost")
    assert listed(machine, *flags) == [(TOLD, 0.25), (PRICED, pytest.approx(0.036)), (DARK, None)]
    shown = machine.ok("sessions", "list", *flags)
    assert row(shown, DARK)[-2:] == ["unknown", "ended"]
    assert "The full cost of 1 of these is unknown" in shown.words


# --- status -----------------------------------------------------------------------------------

BUDGETS = """
[guard]
max_tokens = 3500
daily_tokens = 17000

[guard.source.cron]
max_tokens = 8000
max_cost = 1
daily_cost = 0.02
"""


def near(machine: Machine) -> list[tuple[Any, ...]]:
    [home] = machine.json("status")["homes"]
    keys = ("session", "source", "what", "used", "limit")
    return [tuple(each[key] for key in keys) for each in home["near"]]


def test_status_shows_what_is_near_a_budget(costly: Machine) -> None:
    configure(costly, BUDGETS + WHOLE)
    assert near(costly) == [
        (DARK, "cron", "tokens", 8_000, 8_000),
        (None, None, "daily_tokens", 16_007, 17_000),
        (PRICED, "telegram", "tokens", 3_000, 3_500),
        (None, "cron", "daily_cost", pytest.approx(0.016814), 0.02),
    ]
    shown = costly.ok("status")
    assert row(shown, DARK)[1:5] == ["tokens", "8,000", "8,000", "100"]
    assert "today (UTC), all" in shown.out
    assert "today (UTC), cron" in shown.out
    assert TOLD not in shown.out, "it has ended"


def test_a_budget_of_cost_that_nobody_can_measure_is_said(costly: Machine) -> None:
    configure(costly, BUDGETS)
    [home] = costly.json("status")["homes"]
    assert home["unknown_cost"] == 3  # two sessions, and the day of their source
    assert all(each["what"] != "cost" for each in home["near"])
    shown = costly.ok("status")
    assert "3 cost budgets cannot be enforced" in shown.words
    assert "holdfast sessions stats --cost" in shown.out


def test_status_says_nothing_where_no_budget_is_set(costly: Machine) -> None:
    configure(costly, PRICES)
    [home] = costly.json("status")["homes"]
    assert (home["near"], home["unknown_cost"]) == ([], 0)
    assert "near a limit" not in costly.ok("status").out


def test_a_session_near_its_limit_of_messages(machine: Machine) -> None:
    with open_sessions(machine.home) as sessions:
        sessions.create(source="cli", id=TOLD)
        sessions.append(TOLD, *(Message(role="user", content="x") for _ in range(9)))
    configure(machine, "[sessions]\nmax_messages = 10\n")
    assert near(machine) == [(TOLD, "cli", "messages", 9, 10)]
    [home] = machine.json("status")["homes"]
    assert [session["id"] for session in home["near_limit"]] == [TOLD]
    assert row(machine.ok("status"), TOLD)[1:5] == ["messages", "9", "10", "90"]


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    "command", ["sessions stats --cost", "sessions list --sort cost", "status"]
)
def test_it_fits_the_terminal(costly: Machine, command: str, columns: int) -> None:
    configure(costly, BUDGETS + PRICES)
    result = costly.ok(*command.split(), env={"COLUMNS": str(columns)})
    for line in result.lines:
        assert cell_len(line) <= columns or line.startswith("  holdfast "), line


def test_a_wrong_budget_is_refused_with_its_place(machine: Machine) -> None:
    fill(machine.home)
    configure(machine, "[guard.source.cron]\nmax_tokns = 5\n[prices.m]\ninput = -1\n")
    result = machine.run("sessions", "stats", "--cost")
    assert result.code == 2
    assert (
        'config.toml:2: guard.source.cron.max_tokns: unknown key; did you mean "max_tokens"?'
        in (result.words)
    )
    assert 'prices.m: a price needs "output"' in result.words

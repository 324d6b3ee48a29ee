"""What a screen leads a newcomer to believe: its order, what it hides, what it calls things."""

from __future__ import annotations

import pytest

from holdfast.model.text import format_cost
from tests.cli.agents import settle
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.cli.session_bench import DISK


@pytest.fixture
def several(machine: Machine) -> Inside:
    return Inside(settle(machine))


def test_the_first_screen_is_by_size_as_its_bars_are(several: Inside) -> None:
    document = several.json("status")
    assert isinstance(document, dict)
    found = {each["kind"]: each["total_bytes"] for each in document["homes"]}
    by_size = sorted(found, key=lambda agent: -found[agent])
    rows = [line.split() for line in several.ok("status").lines if "\t" in line]
    shown = [row[0] for row in rows if row[0] in found]
    assert shown == by_size


def test_sessions_are_never_among_the_others(several: Inside) -> None:
    words = ("--home", "hermes", "sessions", "prune", "--older-than", "0s", "--dry-run")
    document = several.json(*words)
    assert isinstance(document, dict)
    items = document["plan"]["items"]
    wanted = sum(each["kind"] == "session" and each["action"] == "remove" for each in items)
    rows = [line.split("\t") for line in several.ok(*words).lines]
    told = [int(row[0]) for row in rows if len(row) > 3 and row[2] == "sessions"]
    assert sum(told) == wanted > 0
    assert any(row[2:3] == ["others"] or row[-1] == "others" for row in rows)


def test_a_tool_call_reads_like_a_command(several: Inside) -> None:
    document = several.json("sessions", "list", "--home", "codex")
    assert isinstance(document, dict)
    for each in document["sessions"]:
        shown = several.ok("--home", "codex", "sessions", "show", each["id"]).out
        if "→ exec_command  " in shown:
            assert '"arguments"' not in shown
            return
    pytest.fail("no session of Codex calls exec_command")


def test_a_long_title_does_not_make_one_match_look_like_two(stored: Machine) -> None:
    inside = Inside(stored)
    inside.ok("sessions", "rename", DISK, "x" * 200)
    shown = inside.run("sessions", "search", "disk", columns=80).lines
    titles = [line for line in shown if "xxx" in line]
    assert titles
    assert all(len(line) <= 80 and not line.startswith("x") for line in titles)
    assert all(line.endswith("…") for line in titles)


def test_a_query_with_operators_is_no_part_of_a_word(stored: Machine) -> None:
    inside = Inside(stored)
    assert "--part" in inside.ok("sessions", "search", "zebra").out
    for query in ("zebra* NOT weekly", "zebra OR okapi", '"zebra okapi"'):
        assert "--part" not in inside.ok("sessions", "search", query).out


def test_a_small_share_does_not_make_the_sum_longer() -> None:
    assert format_cost(61.6741, 2) == "$61.67"
    assert format_cost(0.0004, 2) == "< $0.01"
    assert format_cost(0.0096, 2) == "$0.01"
    assert format_cost(0.0296) == "$0.0296"


def test_homes_with_nothing_share_a_line(several: Inside) -> None:
    for command in ("log", "trash list"):
        what = command.partition(" ")[0]
        assert several.ok(*command.split()).lines == [f"The {what} is empty in all 6 homes."]
    several.ok("sessions", "prune", "--home", "codex", "--older-than", "0s", "--yes")
    for command in ("log", "trash list"):
        shown = several.ok(*command.split())
        assert shown.out.count(str(several.machine.user)) == 1
        assert "is empty in the other 5 homes." in shown.lines[-1]


def test_one_question_for_all_homes(several: Inside) -> None:
    """After every plan and the sum of them. Each home has an operation of its own."""
    words = ("sessions", "prune", "--all-homes", "--older-than", "0s")
    no = several.run(*words, answers="n\n")
    assert no.code == 3
    assert no.err.count("[y/N]") == 1
    assert "Total: the plans remove" in no.out
    assert "`holdfast undo --all-homes`" in no.words
    assert several.ok("log").lines == ["The log is empty in all 6 homes."]
    yes = several.ok(*words, answers="y\n")
    assert yes.err.count("[y/N]") == 1
    assert " homes? [y/N]" in yes.err
    done = yes.out.count("(operation 1)")
    assert done > 2
    assert f"removed in {done} homes." in yes.out
    document = several.json("log")
    assert isinstance(document, dict)
    assert sum(bool(each["operations"]) for each in document["homes"]) == done
    several.ok("undo", "--all-homes", "--yes")

"""What `holdfast sessions` shows on terminals of every kind."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from tests.cli.machine import Machine
from tests.cli.session_bench import CJK, DISK, export, line, take_in

_WILD = "a\nb\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202ec"
_WILD_LINE = json.dumps(
    {
        "id": "20260101_000000_abcdef",
        "source": "cli" + _WILD,
        "title": _WILD,
        "cwd": _WILD,
        "model": _WILD,
        "started_at": 1_700_000_000,
        "ended_at": 1_700_000_001,
        "end_reason": _WILD,
        "messages": [
            {"role": _WILD, "content": f"disk {_WILD}", "tool_name": _WILD},
            {"role": "tool", "content": [{"type": _WILD}], "tool_calls": [{"name": _WILD}]},
            {"role": "user", "content": "tail"},
        ],
    }
)


@pytest.fixture
def wild(machine: Machine) -> Machine:
    assert take_in(machine, _WILD_LINE)["imported"] == 1
    return machine


@pytest.mark.parametrize(
    "command",
    [
        "list",
        "show 2026",
        "search disk",
        "search --part disk",
        "stats",
        "pin 2026",
    ],
)
def test_nothing_that_was_said_steers_the_terminal(wild: Machine, command: str) -> None:
    result = wild.ok("sessions", *command.split())
    for character in "\x1b\x07\r\x9b":
        assert character not in result.out + result.err, result.out


def test_nor_does_what_was_exported_for_reading(wild: Machine) -> None:
    shown = export(wild, "--all", "--format", "markdown")
    assert not {"\x1b", "\x07", "\r"} & set(shown)
    assert shown.startswith("# a b")


def test_a_title_from_the_command_line_does_not_either(wild: Machine) -> None:
    result = wild.ok("sessions", "rename", "2026", _WILD)
    assert "\x1b" not in result.out
    assert len(result.lines) <= 2
    assert wild.json("sessions", "list")["sessions"][0]["title"] == _WILD


def test_names_stay_on_their_line(wild: Machine) -> None:
    take_in(wild, line("20260102_000000_abcdef", title="plain"))
    rows = wild.ok("sessions", "list", env={"COLUMNS": "120"}).lines
    assert sum(row.startswith("2026") for row in rows) == 2
    assert not any(row.startswith("b") for row in rows)


_SCREENS = [
    "list",
    f"show {DISK}",
    f"show {CJK}",
    "search disk",
    "search checkpoints OR 已滿 OR total_size",
    "search zzz",
    "stats",
    f"pin {CJK}",
]

#: There is nothing else in them.
_ASCII = [f"show {DISK}", "search disk", "search zzz"]


@pytest.mark.parametrize("columns", [40, pytest.param(80, marks=pytest.mark.deep)])
@pytest.mark.parametrize("command", _SCREENS)
def test_output_fits_the_terminal(stored_once: Machine, command: str, columns: int) -> None:
    words = ["sessions", *command.split()]
    with stored_once.terminal(*words, columns=columns, env={"PAGER": "cat"}) as terminal:
        result = terminal.end()
    assert result.code == 0
    suggested = "  holdfast "  # a copied line must work, so it is never folded
    for row in result.lines:
        assert cell_len(row) <= columns or row.startswith(suggested), row


@pytest.mark.parametrize("command", _SCREENS)
def test_no_colours_in_80_columns_without_a_terminal(stored_once: Machine, command: str) -> None:
    result = stored_once.ok("sessions", *command.split(), env={"COLUMNS": "80"})
    assert not result.coloured
    assert max(map(cell_len, result.lines)) <= 80


@pytest.mark.parametrize("command", [each for each in _SCREENS if each not in _ASCII])
def test_a_terminal_that_knows_only_ascii(stored_once: Machine, command: str) -> None:
    result = stored_once.ok("sessions", *command.split(), env={"PYTHONIOENCODING": "ascii"})
    assert result.out.isascii()
    assert result.out.strip()


def test_a_long_conversation_is_paged(machine: Machine) -> None:
    take_in(machine, line("20260101_000000_abcdef", *(f"message {n}" for n in range(100))))
    pager = {"PAGER": "sed 's/^message 99$/through the pager/'"}
    with machine.terminal("sessions", "show", "2026", env=pager) as terminal:
        result = terminal.end()
    assert result.code == 0
    assert "through the pager" in result.out
    assert "through the pager" not in machine.ok("sessions", "show", "2026", env=pager).out


def test_nothing_is_lost_where_the_pager_is_missing(machine: Machine) -> None:
    take_in(machine, line("20260101_000000_abcdef", *(f"message {n}" for n in range(100))))
    with machine.terminal("sessions", "show", "2026", env={"PAGER": "no-such-pager"}) as terminal:
        result = terminal.end()
    assert result.code == 0
    assert "message 99" in result.out


def test_a_pager_is_told_to_show_colours_and_may_be_left(machine: Machine) -> None:
    take_in(machine, line("20260101_000000_abcdef", *(f"message {n}" for n in range(5_000))))
    for pager, coloured in (("echo LESS=$LESS; cat", False), ("bat", True)):
        script = machine.root / "bat"
        script.write_text("#!/bin/sh\necho LESS=$LESS; cat\n")
        script.chmod(0o755)
        env = {"PAGER": str(script) if coloured else pager}
        with machine.terminal("sessions", "show", "2026", "--last", "30", env=env) as terminal:
            result = terminal.end()
        assert (result.code, result.coloured) == (0, coloured)
        assert result.lines[0] == "LESS=FRX"
        assert "message 4999" in result.out
    with machine.terminal("sessions", "show", "2026", env={"PAGER": "head -n 1"}) as terminal:
        result = terminal.end()
    assert result.code == 0, "who leaves the pager has seen enough"
    assert result.lines == ["20260101_000000_abcdef"]


def test_json_on_a_terminal_is_plain(stored_once: Machine) -> None:
    with stored_once.terminal("--json", "sessions", "list") as terminal:
        result = terminal.end()
    assert not result.coloured
    assert result.document["total"] == 4

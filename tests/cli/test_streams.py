"""Where output goes, and what happens when it cannot go there: pipes, full disks, terminals."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.cli.streams import be_quiet, prepare, state
from tests.cli.machine import Machine, entries
from tests.cli.runner import COMMAND, PATIENCE

_SCREENS = [
    "status",
    "sessions prune --dry-run --all",
    "log",
    "trash list",
    "undo --dry-run",
    "config show",
]


def _to_stdout(machine: Machine, stdout: int, *args: str) -> tuple[int, str]:
    """Exit code and stderr of a run that writes its output to a descriptor."""
    done = subprocess.run(
        [*COMMAND, *args],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=machine.env(),
        timeout=PATIENCE,
    )
    return done.returncode, done.stderr.decode()


# --- Broken pipes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    ["status", "sessions prune --dry-run --all", "config path", "completion bash", "--json log"],
)
def test_a_reader_that_left_is_no_error(used: Machine, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert _to_stdout(used, writer, *command.split()) == (0, "")
    finally:
        os.close(writer)


def test_help_into_a_pipe_that_closed_is_quiet(machine: Machine) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert _to_stdout(machine, writer, "--help")[1] == ""
    finally:
        os.close(writer)


@pytest.mark.parametrize("where", [(), ("--all-homes",)])
def test_a_reader_that_stops_early(machine: Machine, where: tuple[str, ...]) -> None:
    """More than a pipe holds, of which one byte is read."""
    for number in range(700):
        machine.transcript(days=100 + number / 1000, kb=1)
    process = subprocess.Popen(
        [*COMMAND, "sessions", "prune", "--dry-run", "--all", *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=machine.env(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1) == (b"H" if where else b"T")
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("flags", ["--yes", "--yes --all", "--yes --json"])
def test_what_was_agreed_to_is_done_though_the_reader_left(used: Machine, flags: str) -> None:
    """As in `holdfast sessions prune --yes | head`, its errors in the same pipe or not."""
    expected = len(used.names()) - 5
    for words in (["sessions", "prune", *flags.split()], ["undo"]):
        reader, writer = os.pipe()
        os.close(reader)
        try:
            assert _to_stdout(used, writer, *words) == (0, "")
        finally:
            os.close(writer)
        if words != ["undo"]:
            assert len(used.names()) == expected
    assert len(used.names()) == expected + 5


def test_a_plan_is_saved_though_the_reader_left(used: Machine, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    plan = tmp_path / "plan.json"
    try:
        words = ("sessions", "prune", "--dry-run", "--plan-out", str(plan))
        assert _to_stdout(used, writer, *words) == (0, "")
    finally:
        os.close(writer)
    assert plan.exists()


# --- Output that cannot be written -------------------------------------------------------------

_needs_dev_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no /dev/full"
)


@_needs_dev_full
@pytest.mark.parametrize(
    "command", ["--version", "--help", "status", "--json status", "config path", "--json nonsense"]
)
def test_a_full_disk_behind_stdout(used: Machine, command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        code, err = _to_stdout(used, full.fileno(), *command.split())
    assert code == 1
    assert "error: " in err
    assert "No space left" in err
    assert "Traceback" not in err
    assert "Exception ignored" not in err


@_needs_dev_full
def test_a_full_disk_behind_stdout_removes_nothing(used: Machine) -> None:
    before = entries(used.home)
    with Path("/dev/full").open("wb") as full:
        code, _ = _to_stdout(used, full.fileno(), "sessions", "prune", "--yes")
    assert code == 1
    assert entries(used.home) == before


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(used: Machine, closed: str) -> None:
    """As cron jobs and services may be started. No file of ours may land on such a number."""
    before = entries(used.sessions)
    script = f'"$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, "sessions", "prune", "--yes"],
        check=False,
        capture_output=True,
        env=used.env(),
        timeout=PATIENCE,
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert len(used.names()) == 2
    used.ok("undo")
    after = entries(used.sessions)
    assert {**after, ".": before["."]} == before


# --- Encodings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", _SCREENS)
def test_a_terminal_that_knows_only_ascii(half_once: Machine, command: str) -> None:
    result = half_once.ok(*command.split(), env={"PYTHONIOENCODING": "ascii"})
    assert result.out.isascii()
    assert result.out.strip()


# --- Colours and widths ------------------------------------------------------------------------


@pytest.mark.parametrize("command", _SCREENS)
def test_no_colours_and_whole_lines_in_a_pipe(half_once: Machine, command: str) -> None:
    result = half_once.ok(*command.split())
    assert not result.coloured
    assert "\r" not in result.out
    assert not any(line.endswith((" ", "\t")) for line in result.lines)
    assert "█" not in result.out, "a bar says nothing to a program"


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("command", _SCREENS)
def test_output_fits_the_terminal(half_once: Machine, command: str, columns: int) -> None:
    with half_once.terminal(*command.split(), columns=columns) as terminal:
        result = terminal.end()
    assert result.code == 0
    assert result.lines
    assert max(map(len, result.lines)) <= columns


def test_a_wide_terminal_is_used_up_to_a_point(used: Machine) -> None:
    with used.terminal("status", columns=300) as terminal:
        result = terminal.end()
    assert max(map(len, result.lines)) <= 120


@pytest.mark.parametrize("command", ["status", "nonsense"])
def test_colours_on_a_terminal_unless_unwanted(used: Machine, command: str) -> None:
    for extra, coloured in (
        (dict[str, str](), True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ):
        with used.terminal(*command.split(), env=extra) as terminal:
            result = terminal.end()
        # NO_COLOR asks for no colours; bold and dim may stay.
        colours = {f"\x1b[{code}" for code in ("31", "32", "33", "36", "1;31", "1;32", "1;36")}
        assert any(colour in result.out for colour in colours) is coloured, (extra, result)


def test_json_has_no_colours_on_a_terminal(used: Machine) -> None:
    with used.terminal("--json", "status") as terminal:
        result = terminal.end()
    assert not result.coloured
    assert result.document["homes"]


# --- Stack traces ------------------------------------------------------------------------------


def test_debug_shows_where_an_error_came_from(machine: Machine) -> None:
    quiet = machine.run("--home", "/no/such/home", "log")
    loud = machine.run("--home", "/no/such/home", "log", "--debug")
    assert quiet.code == loud.code == 2
    assert "Traceback" not in quiet.err
    assert "Traceback (most recent call last)" in loud.err
    assert loud.err.endswith(quiet.err)
    assert loud.out == ""


def test_debug_keeps_stdout_clean(machine: Machine) -> None:
    result = machine.run("--json", "--debug", "--home", "/no/such/home", "log")
    assert "Traceback" in result.err
    assert result.document["error"]["kind"] == "not_a_home"


def test_a_second_command_in_the_same_process_knows_nothing_of_the_first() -> None:
    state.outlives_reader = state.change_begun = state.looking = state.will_ask = True
    be_quiet(silent=True)
    prepare()
    assert not any((state.outlives_reader, state.change_begun, state.looking, state.will_ask))
    assert (state.only_reads, state.quiet, state.held) == (True, False, None)

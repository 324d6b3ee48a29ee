"""Commands that remove show the plan and ask; only a yes from a person, or --yes, goes on."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from unittest import mock

import pytest

from tests.cli.inside import Inside
from tests.cli.machine import Machine, entries
from tests.cli.runner import COMMAND, PATIENCE


@pytest.mark.parametrize("command", ["sessions prune", "sessions prune --now", "trash empty"])
def test_without_a_terminal_it_refuses(half: Machine, command: str) -> None:
    before = entries(half.home)
    result = half.run(*command.split(), stdin="y\n")
    assert result.code == 3
    assert "no terminal" in result.err
    assert "--yes" in result.err
    assert "The plan removes" in result.out
    assert entries(half.home) == before


def test_apply_without_a_terminal_refuses(used: Machine) -> None:
    used.ok("sessions", "prune", "--plan-out", "plan.json")
    before = entries(used.home)
    assert used.run("apply", "plan.json", stdin="y\n").code == 3
    assert entries(used.home) == before


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04", "NO\n", "yess\nn\n"])
def test_anything_but_yes_removes_nothing(used: Machine, answer: str) -> None:
    before = entries(used.home)
    with used.terminal("sessions", "prune") as terminal:
        terminal.wait_for("[y/N]")
        terminal.type(answer)
        result = terminal.end()
    assert result.code == 3
    assert "Nothing was removed." in result.err
    assert entries(used.home) == before


@pytest.mark.parametrize("answer", ["y\n", "maybe\nYES\n"])
def test_yes_removes_what_was_shown(used: Machine, answer: str) -> None:
    with used.terminal("sessions", "prune") as terminal:
        terminal.wait_for("Remove 5 items, ")
        terminal.wait_for("[y/N]")
        terminal.type(answer)
        result = terminal.end()
    assert result.code == 0
    assert "5 removed" in result.out
    assert len(used.names()) == 2


def test_what_cannot_be_undone_is_said_before(used: Machine) -> None:
    with used.terminal("sessions", "prune", "--now") as terminal:
        terminal.wait_for("This cannot be undone.\nRemove 5 items, 32.8 kB? [y/N]")
        terminal.type("n\n")
        assert terminal.end().code == 3


def test_nothing_to_remove_asks_nothing(machine: Machine) -> None:
    machine.transcript(days=1)
    with machine.terminal("sessions", "prune") as terminal:
        result = terminal.end()
    assert result.code == 0
    assert "[y/N]" not in result.out


def test_ctrl_c_at_the_prompt(used: Machine) -> None:
    before = entries(used.home)
    with used.terminal("sessions", "prune") as terminal:
        terminal.wait_for("[y/N]")
        terminal.interrupt()
        result = terminal.end()
    assert result.code == 130
    assert result.err.endswith("Interrupted. Nothing was changed.\n")
    assert entries(used.home) == before


def test_an_interrupt_at_a_question_says_that_nothing_was_changed(
    machine: Machine, inside: Inside
) -> None:
    machine.transcript(days=200)
    with mock.patch("tests.cli.inside._Typed.readline", side_effect=KeyboardInterrupt, create=True):
        result = inside.run("sessions", "prune", "--older-than", "90d", answers="")
    assert result.code == 130
    assert result.err.endswith("Interrupted. Nothing was changed.\n")


def test_a_yes_is_enough_although_the_reader_left(machine: Machine, inside: Inside) -> None:
    machine.transcript(days=200)
    with mock.patch("holdfast.cli.removal.agreed") as told:
        inside.ok("sessions", "prune", "--older-than", "90d", answers="y\n")
        told.assert_called_once_with()


@pytest.mark.skipif(sys.platform != "linux", reason="leases, which hold the scan up, are Linux's")
def test_ctrl_c_while_it_looks(half: Machine) -> None:
    """A lease on the log makes the scan wait where we want it; press Ctrl-C to stop there."""
    journal = os.open(half.home / "operations" / "1.jsonl", os.O_RDONLY)
    try:
        fcntl.fcntl(journal, 10, signal.SIGURG)  # F_SETSIG: a signal that is ignored by default
        fcntl.fcntl(journal, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        process = subprocess.Popen(
            [*COMMAND, "sessions", "prune", "--dry-run"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=half.env(),
        )
        while fcntl.fcntl(journal, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        # Given up only now: until here nobody could read the log.
        fcntl.fcntl(journal, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        os.close(journal)
    assert (process.returncode, out, err) == (
        130,
        b"",
        b"\nInterrupted. Nothing was changed.\n",
    )


def test_yes_does_not_ask(used: Machine) -> None:
    with used.terminal("sessions", "prune", "-y") as terminal:
        result = terminal.end()
    assert result.code == 0
    assert "[y/N]" not in result.out
    assert len(used.names()) == 2

"""A command that is forked finds, says and does what one in a new interpreter would."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.cli import forked
from tests.cli.machine import Machine
from tests.cli.privileges import as_nobody_special
from tests.cli.runner import Result

#: What a process finds: its environment, folder, mask, signals, rights, open files and limits.
_LOOK = (
    "env | grep -v HOLDFAST_SESSION | sort; pwd; umask; ulimit -a; ls /proc/self/fd;"
    "grep -E 'Sig(Blk|Ign|Cgt)|Cap|NoNewPrivs' /proc/self/status;"
    "test -t 0 -o -t 1 -o -t 2 && echo terminal; cat"
)
pytestmark = pytest.mark.skipif(not forked.is_possible(), reason="only new interpreters here")


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Result]], list[Result]]:
    def run(command: Callable[[], Result]) -> list[Result]:
        said = [command()]
        monkeypatch.setattr(forked, "is_possible", lambda: False)
        return [*said, command()]

    return run


def test_it_finds_the_same(
    machine: Machine, both: Callable[[Callable[[], Result]], list[Result]]
) -> None:
    look = ("run", "--no-checkpoints", "--", "sh", "-c", _LOOK)
    env = {"GIVEN": "a b", "TZ": "EAST-2"} | forked.at(1e9)
    before = as_nobody_special()
    mask = os.umask(0o027)
    try:
        one, other = both(
            lambda: machine.run(*look, env=env, cwd=machine.user, stdin="typed", before=before)
        )
    finally:
        os.umask(mask)
    assert "GIVEN=a b" in one.out
    assert one.out.endswith("typed")
    assert _found(one.out) == _found(other.out)
    assert one.code == other.code == 0


def _found(text: str) -> list[str]:
    """Without the clock, which goes on, and the signals that the C library has for itself."""
    return [
        f"{line[:6]} {int(line.split()[1], 16) & 0x7FFF_FFFF:x}" if line[:3] == "Sig" else line
        for line in text.splitlines()
        if not line.startswith("TEST_CLOCK_AHEAD")
    ]


@pytest.mark.parametrize(
    "words",
    [(), (b"\xff", "x"), ("--debug", "log", "--limit", "no"), ("run", "--", "sh", "-c", "kill $$")],
)
def test_it_says_the_same(
    machine: Machine,
    words: tuple[str | bytes, ...],
    both: Callable[[Callable[[], Result]], list[Result]],
) -> None:
    one, other = both(lambda: machine.run(*words))
    assert one == other


def test_it_is_interrupted_as_any_other(machine: Machine) -> None:
    words = ("run", "--no-checkpoints", "--", "sh", "-c", "echo begun; exec sleep 60")
    with machine.terminal(*words) as terminal:
        terminal.wait_for("begun")
        terminal.interrupt()
        assert terminal.end().code == 128 + signal.SIGINT

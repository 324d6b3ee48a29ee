"""Completion scripts, and the answers that they ask the command for."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.cli.machine import Machine


def _complete(machine: Machine, *words: str) -> list[str]:
    """What bash is offered for the last of these words."""
    result = machine.run(
        env={
            "_HOLDFAST_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["holdfast", *words]),
            "COMP_CWORD": str(len(words)),
        }
    )
    assert (result.code, result.err) == (0, "")
    return [line.partition(",")[2] for line in result.out.splitlines()]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ses"], ["sessions"]),
        (["st"], ["status"]),
        (["sessions", "pru"], ["prune"]),
        (["config", "c"], ["check"]),
        (["sessions", "prune", "--dry"], ["--dry-run"]),
        (["sessions", "prune", "--kind", "r"], ["request-dump"]),
        (["completion", "f"], ["fish"]),
        (["--ho"], ["--home"]),
    ],
)
def test_what_is_offered(machine: Machine, words: list[str], offered: list[str]) -> None:
    assert _complete(machine, *words) == offered


@pytest.mark.parametrize("words", [["nonsense", ""], ["sessions", "nonsense", ""]])
def test_a_mistyped_command_is_no_error_yet(machine: Machine, words: list[str]) -> None:
    """A message in the middle of the line that somebody types helps nobody."""
    assert "--yes" not in _complete(machine, *words)


def test_completing_creates_nothing(machine: Machine) -> None:
    assert _complete(machine, "")
    assert list(machine.user.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(machine: Machine, shell: str) -> None:
    script = machine.ok("completion", shell).out
    assert "_HOLDFAST_COMPLETE" in script
    assert machine.json("completion", shell)["script"].strip() == script.strip()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_understands_its_script(machine: Machine, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = machine.ok("completion", shell).out
    checked = subprocess.run([shell, "-n"], check=False, input=script.encode(), capture_output=True)
    assert checked.returncode == 0, checked.stderr
    assert checked.stderr == b""


def test_bash_completes_with_the_script(machine: Machine) -> None:
    """The script defines a function that fills COMPREPLY when bash calls it."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    folder = machine.root / "bin"
    folder.mkdir()
    command = folder / "holdfast"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    command.chmod(0o755)
    script = machine.ok("completion", "bash").out
    drive = (
        f"{script}\n"
        "COMP_WORDS=(holdfast ses); COMP_CWORD=1\n"
        "function=$(complete -p holdfast | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        "$function holdfast ses holdfast\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    env = machine.env()
    done = subprocess.run(
        [bash, "--norc", "-c", drive],
        check=False,
        capture_output=True,
        env={**env, "PATH": f"{folder}:{env['PATH']}"},
    )
    assert done.stdout.decode().split() == ["sessions"], done

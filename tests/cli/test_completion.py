"""Completion scripts, and the answers that they ask the command for."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from holdfast.api.sessions import open_sessions
from holdfast.cli.app import root
from holdfast.cli.invocation import Invocation
from tests.cli.checkpoint_bench import taken
from tests.cli.every_command import say
from tests.cli.machine import DAY, Machine, entries
from tests.cli.session_bench import CJK, CRON, DISK, EMPTY


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
        (["sta"], ["status"]),
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


# --- What is in the homes -------------------------------------------------------------------------


def _offered(capsys: pytest.CaptureFixture[str], *words: str, by: str = "bash") -> list[str]:
    """The same in this process, with what stands next to each word where the shell shows that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("_HOLDFAST_COMPLETE", f"{by}_complete")
        patch.setenv("COMP_WORDS", " ".join(["holdfast", *words]))
        patch.setenv("COMP_CWORD", str(len(words)) if by != "fish" else words[-1])
        with contextlib.suppress(SystemExit):
            root.main([], prog_name="holdfast", obj=Invocation())
    out = [line for line in capsys.readouterr().out.splitlines() if line]
    return out if by == "zsh" else [line.partition(",")[2] for line in out]


@pytest.fixture
def stored_home(stored: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("HOME", str(stored.user))
    for name in ("HOLDFAST_HOME", "CODEX_HOME", "HERMES_HOME"):
        monkeypatch.delenv(name, raising=False)
    return stored


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["sessions", "show", "20260101"], [DISK]),
        (["sessions", "pin", DISK, "cron_"], [CRON]),
        (["sessions", "export", "2026012"], [EMPTY, CJK]),
        (["sessions", "show", "nothing"], []),
        (["sessions", "list", "--source", "c"], ["cli", "cron"]),
        (["sessions", "gc", "--source", "cr"], ["cron"]),
        (["--home", "hold"], ["hold", "holdfast"]),
        (["--home", "nothing-here", "sessions", "show", ""], []),
        (["config", "set", "sessions.ret"], ["sessions.retention_days"]),
        (["config", "show", "ch"], ["checkpoints"]),
        (["help", "che"], ["checkpoints"]),
        (["help", "sessions", "pru"], ["prune"]),
        (["help", "sessions", "prune", ""], []),
        (["help", "nonsense", ""], []),
        (["sessions", "help", "pru"], ["prune"]),
    ],
)
def test_ids_sources_agents_and_keys(
    stored_home: Machine, capsys: pytest.CaptureFixture[str], words: list[str], offered: list[str]
) -> None:
    before = entries(stored_home.user)
    assert _offered(capsys, *words) == offered
    assert entries(stored_home.user) == before


def test_zsh_and_fish_show_the_title(
    stored_home: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    zsh = _offered(capsys, "sessions", "show", CJK, by="zsh")
    assert zsh == ["plain", CJK, "中文標題"]
    assert _offered(capsys, "sessions", "show", CJK, by="fish") == [f"{CJK}\t中文標題"]


def test_fish_keeps_commas_and_the_order() -> None:
    script = say("completion", "fish").out.decode()
    assert 'set -l metadata (string split --max 1 "," $completion);' in script
    assert "complete --no-files --keep-order --command holdfast " in script


def test_ids_of_all_homes_come_newest_first(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(machine.user))
    other = machine.user / "other"
    for home, days in ((machine.home, (3, 1)), (other, (2,))):
        for day in days:
            moment = time.time() - day * DAY
            with open_sessions(home, clock=partial(float, moment)) as sessions:
                sessions.create(source="cli", id=f"20260101_00000{day}_aaaaaa")
    monkeypatch.setattr(
        "holdfast.api.completion_words.usual_homes", lambda *_: [machine.home, other]
    )
    offered = _offered(capsys, "sessions", "show", "2026")
    assert offered == [f"20260101_00000{day}_aaaaaa" for day in (1, 2, 3)]


def test_a_store_in_use_is_read_without_waiting(
    stored_home: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another process writes, and has not finished."""
    with contextlib.closing(sqlite3.connect(stored_home.home / "sessions.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        assert _offered(capsys, "sessions", "show", "20260101") == [DISK]
        other.execute("ROLLBACK")


def test_what_an_agent_has_comes_from_the_last_look(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking at another agent's home writes notes: so completion only reads them."""
    monkeypatch.setenv("HOME", str(machine.user))
    session = "0190a1b2-aaaa-7000-8000-000000000001"
    line = {
        "type": "user",
        "uuid": "u1",
        "parentUuid": None,
        "sessionId": session,
        "timestamp": "2026-01-01T10:00:00.000Z",
        "cwd": "/work",
        "version": "2.1.0",
        "isSidechain": False,
        "message": {"role": "user", "content": "hello"},
    }
    folder = machine.user / ".claude" / "projects" / "-work"
    folder.mkdir(parents=True)
    (machine.user / ".claude" / "settings.json").write_text("{}")
    (folder / f"{session}.jsonl").write_text(json.dumps(line) + "\n")
    assert _offered(capsys, "sessions", "show", "0190") == []
    assert say("sessions", "list").code == 0
    before = entries(machine.user)
    assert _offered(capsys, "sessions", "show", "0190") == [session]
    assert _offered(capsys, "--home", "cl") == ["cl", "claude-code"]
    assert entries(machine.user) == before


def test_checkpoints_and_operations(
    machine: Machine,
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(machine.user))
    monkeypatch.chdir(project)
    first = taken(machine, project)
    machine.transcript()
    assert say("sessions", "prune", "--yes").code == 0
    before = entries(machine.user)
    assert _offered(capsys, "checkpoints", "restore", first[:4]) == [first[:12]]
    assert _offered(capsys, "redo", "") == ["1"]
    assert entries(machine.user) == before

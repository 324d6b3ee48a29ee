"""holdfast run: real commands, stopped for real."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.machine import Machine, entries
from tests.cli.runner import COMMAND, PATIENCE

MARK = "holdfast-run-straggler"
#: As many as take half the time after which a command that hangs is ended.
TURNS = int(PATIENCE / 0.1 / 2)
ENOUGH = "enough"


def run(machine: Machine, project: Path, *args: str) -> tuple[int, Any, str]:
    """A run in the project: its exit code, its document, and what it said besides."""
    result = machine.run("--json", "run", *args, cwd=project)
    return result.code, json.loads(result.out) if result.out else None, result.err


def sh(text: str) -> tuple[str, ...]:
    return ("--", "sh", "-c", text)


def living(word: str) -> list[int]:
    """The processes with this word in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if word.encode() in words and state != b"Z":
                found.append(int(entry.name))
    return found


# --- What it did ------------------------------------------------------------------------------


def test_a_run_is_undone_byte_for_byte(machine: Machine, project: Path) -> None:
    (project / "empty").mkdir()
    (project / "tool").write_text("#!/bin/sh\n")
    (project / "tool").chmod(0o755)
    before = entries(project)
    code, said, _ = run(
        machine,
        project,
        *sh("echo more >> src/main.py; rm tool; rmdir empty; mkdir a; echo b > a/c"),
    )
    assert code == 0
    changed = {each["path"]: each["kind"] for each in said["changes"]}
    assert changed == {
        "src/main.py": "modified",
        "tool": "deleted",
        "empty": "deleted",
        "a/c": "added",
    }
    machine.ok("checkpoints", "restore", said["before"], "--yes")
    after = entries(project)
    assert after.keys() == before.keys()
    same = {name: (each.mode, each.content) for name, each in after.items()}
    assert same == {name: (each.mode, each.content) for name, each in before.items()}


def test_checkpoints_on_the_way_belong_to_the_run(machine: Machine, project: Path) -> None:
    holder = f"grep -rha --include=watching holdfast {machine.home} > {machine.root / 'holder'}"
    command = f"echo 1 > one; sleep 1.3; {holder}; echo 2 > two; sleep 0.9"
    code, said, _ = run(machine, project, *sh(command))
    assert code == 0
    assert "`holdfast run`" in (machine.root / "holder").read_text()  # what a second one is told
    listed = machine.json("checkpoints", "list", "--all-projects", "--session", said["session"])[
        "checkpoints"
    ]
    assert len(listed) >= 3  # before, after `one`, after `two`
    assert said["checkpoints_taken"] == len(listed)
    shown = machine.json("sessions", "show", said["session"])["session"]
    assert (shown["source"], shown["end_reason"]) == ("run", "ended")


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -TERM $$", 143)])
def test_the_code_is_that_of_the_command(
    machine: Machine, project: Path, command: str, code: int
) -> None:
    assert run(machine, project, "--no-checkpoints", *sh(command))[0] == code


def test_output_of_the_command_stays_its_own(machine: Machine, project: Path) -> None:
    result = machine.run("run", *sh("echo mine; echo x > new"), cwd=project)
    assert result.out == "mine\n"
    assert "1 added" in result.err
    assert "checkpoints restore" in result.err


# --- Limits -----------------------------------------------------------------------------------


@pytest.mark.deep
def test_over_time_nothing_of_it_survives(machine: Machine, project: Path) -> None:
    """Not what ignores SIGINT, nor what left the group, nor an orphan."""
    command = (
        f"trap '' INT; (setsid sh -c 'trap \"\" INT; exec sleep 300 # {MARK}' &);"
        f" sh -c 'sleep 300 # {MARK}'"
    )
    code, said, err = run(machine, project, "--max-time", "1s", "--no-checkpoints", *sh(command))
    assert code != 0
    assert "the limit is 1 s" in said["stopped"]
    assert "stopping the command" in err
    assert living(MARK) == []


def spend(machine: Machine, project: Path, *, model: str = "m", turns: int = TURNS) -> str:
    """A command that writes a transcript as Claude Code does: 100 tokens every 0.1 seconds, until
    there is a file `enough`. On a busy machine the first look at it may come late."""
    folder = machine.user / ".claude" / "projects" / str(project).replace("/", "-")
    folder.mkdir(parents=True)
    (machine.user / ".claude" / "settings.json").write_text("{}")
    line = {
        "type": "assistant",
        "sessionId": "11111111-2222-4333-8444-555555555555",
        "cwd": str(project),
        "message": {
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": "hm"}],
            "usage": {"input_tokens": 60, "output_tokens": 40},
        },
    }
    script = project.parent / "agent.py"
    script.write_text(
        "import json, os, signal, time, uuid\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        f"line = json.loads({json.dumps(json.dumps(line))})\n"
        f"for turn in range({turns}):\n"
        "    line['timestamp'] = time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime())\n"
        "    line['uuid'] = line['message']['id'] = line['requestId'] = str(uuid.uuid4())\n"
        f"    with open({str(folder)!r} + '/' + line['sessionId'] + '.jsonl', 'a') as out:\n"
        "        out.write(json.dumps(line, separators=(',', ':')) + '\\n')\n"
        "    time.sleep(0.1)\n"
        f"    if os.path.exists({str(project.parent / ENOUGH)!r}):\n"
        "        break\n"
    )
    return f"exec python3 {script}"


def test_over_budget_it_is_stopped(machine: Machine, project: Path) -> None:
    command = spend(machine, project)
    code, said, _ = run(machine, project, "--budget", "1ktokens", "--no-checkpoints", *sh(command))
    assert code != 0
    assert "the budget is 1,000" in said["stopped"]
    assert 1_000 <= said["tokens"] < TURNS * 100
    assert said["agent_sessions"] == ["11111111-2222-4333-8444-555555555555"]


def test_the_budget_holds_when_the_run_is_the_first_of_its_agent(
    machine: Machine, project: Path
) -> None:
    """Its home is made while it runs."""
    command = spend(machine, project)
    away = machine.user / "away"
    (machine.user / ".claude").rename(away)
    script = f"mv {away} {machine.user}/.claude; {command}"
    code, said, _ = run(machine, project, "--budget", "1ktokens", "--no-checkpoints", *sh(script))
    assert code != 0
    assert "the budget is 1,000" in said["stopped"]


@pytest.mark.deep
def test_a_transcript_that_goes_gives_no_budget_back(machine: Machine, project: Path) -> None:
    """The agent removes its transcript after 800 tokens, and goes on in another one."""
    command = spend(machine, project, turns=8).removeprefix("exec ")
    other = f"sed -i s/11111111/22222222/ {project.parent}/agent.py"
    gone = f"rm -r {machine.user}/.claude/projects/*/11111111*"
    script = f"{command}; sleep 2.5; {gone}; {other}; {command}; sleep 30"
    limits = ("--budget", "1ktokens", "--max-time", "40s", "--no-checkpoints")
    code, said, _ = run(machine, project, *limits, *sh(script))
    assert code != 0
    assert "the budget is 1,000" in said["stopped"]
    assert len(said["agent_sessions"]) == 2


def test_a_model_without_a_price_cannot_hide_behind_a_budget(
    machine: Machine, project: Path
) -> None:
    command = spend(machine, project)
    code, said, _ = run(machine, project, "--budget", "5USD", "--no-checkpoints", *sh(command))
    assert code != 0
    assert said["stopped"] == "its budget cannot be checked: m has no price"
    assert said["cost"] is None


def test_what_cannot_be_checked_may_be_let_pass(machine: Machine, project: Path) -> None:
    limits = ("--budget", "5USD", "--on-failure", "allow", "--no-checkpoints")
    words = ("--json", "run", "--path", str(project), *limits, *sh(spend(machine, project)))
    with machine.terminal(*words, pipe_stdout=True) as terminal:
        terminal.wait_for(
            "the budget cannot be checked, but the command keeps running: m has no price"
        )
        (project.parent / ENOUGH).touch()
        done = terminal.end()
    assert (done.code, done.document["stopped"]) == (0, None)


def test_what_was_used_before_does_not_count(machine: Machine, project: Path) -> None:
    subprocess.run(["sh", "-c", spend(machine, project, turns=5)], check=True, timeout=PATIENCE)
    code, said, _ = run(
        machine, project, "--budget", "900tokens", *sh(f"python3 {project.parent}/agent.py")
    )
    assert (code, said["tokens"], said["stopped"]) == (0, 500, None)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--budget", "5"), "Write 5USD or 5tokens."),
        (("--budget", "0USD"), "A budget must be more than 0."),
        (("--budget", "much"), "'much' is not a budget."),
        (("--max-time", "0s"), "A time limit must be more than 0."),
        (("--max-time", "0"), "A time limit must be more than 0."),
        (("--budget", "1USD", "--budget", "$9"), "Two budgets in money: '1USD' and '$9'."),
        (("--budget", "9tok", "--budget", "1ktokens"), "Two budgets in tokens: '9tok' and"),
    ],
)
def test_limits_that_make_no_sense(
    machine: Machine, project: Path, args: tuple[str, ...], words: str
) -> None:
    result = machine.run("run", *args, "--", "true", cwd=project)
    assert result.code == 2
    assert words in result.err


def test_a_command_that_is_not_there_leaves_nothing(machine: Machine, project: Path) -> None:
    result = machine.run("run", "--", "no-such-agent", cwd=project)
    assert result.code == 2
    assert "There is no command no-such-agent on your PATH." in result.err
    assert (
        "is not a program that you may run."
        in machine.run("run", "--", "./src/main.py", cwd=project).err
    )
    assert "There is no program" in machine.run("run", "--", "./main.py", cwd=project).err
    assert not machine.home.exists()
    (project / "src" / "main.py").chmod(0o755)
    (project / "src" / "main.py").write_text("#!/bin/sh\nexit 4\n")
    there = machine.run("run", "--no-checkpoints", "--path", str(project), "--", "./src/main.py")
    assert there.code == 4, "relative to where it runs"


def test_what_goes_on_after_the_end_is_named(machine: Machine, project: Path) -> None:
    command = "(setsid sleep 5 >/dev/null 2>&1 &); exit 0"
    code, said, err = run(machine, project, "--no-checkpoints", *sh(command))
    assert (code, said["still_running"]) == (0, True)
    assert "is still running" in err


def test_keys_on_a_command_line_are_not_kept(machine: Machine, project: Path) -> None:
    key = "sk-ant-api03-" + "A1b2C3d4" * 10
    run(machine, project, *sh(f"true API_KEY={key}"))
    assert key not in str(machine.json("checkpoints", "list", "--all-projects"))
    assert key not in str(machine.json("sessions", "list"))


# --- Bad days ---------------------------------------------------------------------------------


def test_where_no_checkpoint_can_be_taken_it_runs_and_says_so(machine: Machine) -> None:
    result = machine.run("run", "--", "true", cwd=machine.user)
    assert result.code == 0
    assert "no checkpoints:" in result.err
    assert "home directory" in result.err


def started(machine: Machine, project: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "run", *args], env=machine.env(), cwd=project, text=True, stdout=subprocess.PIPE
    )


def test_a_signal_goes_to_the_command(machine: Machine, project: Path) -> None:
    process = started(
        machine, project, *sh("trap 'echo told; exit 5' TERM; echo on; while :; do sleep 0.1; done")
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (5, "told\n")


def state_of(process: int) -> str:
    return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0]


def test_a_command_that_somebody_paused_stays_paused(machine: Machine, project: Path) -> None:
    """Without a terminal there is no shell that would continue it. It can still be ended."""
    process = subprocess.Popen(
        [*COMMAND, "run", "--no-checkpoints", *sh("echo $$; while :; do sleep 0.05; done")],
        env=machine.env(),
        cwd=project,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.8)  # it looks five times in a second
    state = state_of(child)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert state == "T"
    assert process.returncode == 128 + signal.SIGTERM


def test_a_killed_run_leaves_a_session_that_can_be_ended(machine: Machine, project: Path) -> None:
    process = started(machine, project, *sh("echo $$; sleep 60"))
    assert process.stdout is not None
    child = int(process.stdout.readline())
    [listed] = machine.json("sessions", "list")["sessions"]
    process.kill()
    process.wait(PATIENCE)
    process.stdout.close()
    os.killpg(child, signal.SIGKILL)
    machine.ok("sessions", "end", listed["id"])  # refused while somebody holds it
    machine.ok("sessions", "delete", listed["id"], "--yes")


class Screen:
    """A run on a terminal that is its controlling one: keys become signals, as for a person."""

    def __init__(self, machine: Machine, project: Path, *args: str) -> None:
        self._screen, terminal = os.openpty()
        self._seen = b""
        self._process = subprocess.Popen(
            [*COMMAND, "run", *args],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=machine.env(),
            cwd=project,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - one thread
        )
        os.close(terminal)

    def wait_for(self, text: str) -> None:
        until = time.monotonic() + PATIENCE
        while text.encode() not in self._seen:
            assert time.monotonic() < until, self._seen
            self._seen += os.read(self._screen, 65536)

    def modes(self) -> list[object]:
        return termios.tcgetattr(self._screen)

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def end(self) -> int:
        try:
            return self._process.wait(PATIENCE)
        finally:
            os.close(self._screen)


def _take_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_on_a_terminal_keys_reach_the_command(machine: Machine, project: Path) -> None:
    """Ctrl-C ends the command, and the summary still comes."""
    command = "trap 'echo caught; exit 9' INT; echo ready; read line; echo got $line; sleep 30"
    screen = Screen(machine, project, *sh(command))
    screen.wait_for("ready")
    screen.type("words\n")
    screen.wait_for("got words")
    screen.type("\x03")
    screen.wait_for("caught")
    screen.wait_for("ended with exit code 9")
    assert screen.end() == 9


def test_a_stopped_command_leaves_the_terminal_as_it_was(machine: Machine, project: Path) -> None:
    """A program on the whole screen that is ended by force cannot do so itself."""
    command = "stty raw -echo; printf '\\033[?1049hready'; sleep 30"
    screen = Screen(machine, project, "--max-time", "1s", *sh(command))
    before = screen.modes()
    screen.wait_for("ready")
    assert screen.modes() != before
    screen.wait_for("\x1b[?1047l")
    screen.wait_for("the limit is 1 s.\r\n")
    assert screen.modes() == before
    assert screen.end() != 0

"""Tries each installed hook for real: the very command that the agent starts, with an input that
the agent would give, in a project and a home that are thrown away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.api.loop import Loop
from holdfast.api.place import Place
from holdfast.errors import HoldfastError
from holdfast.hooks.agents import AGENTS
from holdfast.hooks.connect import PROJECT, USER, Setup, Wired, wired
from holdfast.hooks.switches import switched_off
from holdfast.model.checkup import Finding, Severity
from holdfast.model.text import format_duration
from holdfast.policy.loop_guard import judge
from holdfast.stores.loop_book import FileLoopBook
from holdfast.value import replace

_SECONDS = 30
_CODEX_SECONDS = 20
_SESSION = "holdfast-doctor"
#: No helper, which would outlive the trial; and a budget that the second tool is over.
_CONFIG = "[hooks]\nhelper = false\n[guard]\nmax_iterations = 1\n"


def examine_hooks(setup: Setup, now: float) -> Sequence[Finding]:
    """What was found about every connection of this home; nothing when there is none. `setup` is
    for any agent."""
    found: list[Finding] = []
    for agent in AGENTS:
        for scope in (USER, PROJECT):
            each = replace(setup, agent=agent, scope=scope)
            seen = wired(each)
            if scope == PROJECT and seen.path == wired(replace(each, scope=USER)).path:
                continue
            if seen.installed and _home_of(seen) == setup.home:
                found += _examine(each, seen)
    return [*found, *_over_budget(setup, now)] if found else ()


def _home_of(seen: Wired) -> Path:
    words = next(iter(seen.commands.values()))
    return Path(words[words.index(seen.agent) + 2])


def _examine(setup: Setup, seen: Wired) -> Iterator[Finding]:
    check = f"hook of {seen.agent}"
    again = f"`holdfast connect {seen.agent}` writes it again."
    missing = [each for each in AGENTS[seen.agent].events if each not in seen.commands]
    problem = f"there is none for {missing[0]}" if missing else _tried(seen)
    off = "" if problem else switched_off(setup, seen)
    if off:
        message = f"{seen.agent} does not start it: {off}"
        advice = "Correct that file. It is the agent's own, and Holdfast leaves it alone."
        yield Finding(check=check, severity=Severity.WARNING, message=message, advice=advice)
        return
    if problem:
        yield Finding(check=check, severity=Severity.WARNING, message=problem, advice=again)
        return
    if seen.agent == "codex":
        problem = _untrusted(setup, seen)
        if problem:
            yield Finding(check=check, severity=Severity.WARNING, message=problem, advice=again)
            return
    yield Finding(check=check, message="it takes checkpoints, and blocks over budget")


# --- The trial ------------------------------------------------------------------------------------


def _tried(seen: Wired) -> str:
    """What is wrong with the installed command; "" when it works."""
    words = list(next(iter(seen.commands.values())))
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as folder:
        place = Path(folder).resolve()
        home, project = place / "home", place / "project"
        (home / "operations").mkdir(parents=True)
        (home / "config.toml").write_text(_CONFIG)
        project.mkdir()
        (project / "file.txt").write_text("a file\n")
        words[words.index(seen.agent) + 2] = str(home)
        first = _run(words, seen.agent, project, 1)
        if isinstance(first, str):
            return first
        if first.stdout or first.returncode:
            return f"it answers what it should not: {_said(first)}"
        if not any(call.checkpoint for call in FileLoopBook(home).calls(_SESSION)):
            return "it takes no checkpoint"
        second = _run(words, seen.agent, project, 2)
        if isinstance(second, str):
            return second
        if "budget of 1 iterations" not in second.stdout or second.returncode:
            return f"it does not block over a budget: {_said(second)}"
    return ""


def _run(
    words: Sequence[str], agent: str, project: Path, call: int
) -> subprocess.CompletedProcess[str] | str:
    given = json.dumps(_input(agent, project, call), separators=(",", ":"))
    env = {**os.environ, "XDG_RUNTIME_DIR": str(project.parent)}  # noqa: TID251 - for a program
    try:
        return subprocess.run(
            words,
            input=given,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            cwd=project,
            env=env,
        )
    except subprocess.TimeoutExpired:
        return f"it takes longer than {format_duration(_SECONDS)}"
    except OSError as error:
        return f"{words[0]} cannot be started ({error.strerror})"


def _input(agent: str, project: Path, call: int) -> Mapping[str, object]:
    """What the agent says before it runs a shell command."""
    if agent == "opencode":
        return {
            "event": "tool.execute.before",
            "directory": str(project),
            "input": {"tool": "bash", "sessionID": _SESSION, "callID": str(call)},
            "output": {"args": {"command": "true"}},
        }
    tools = {"claude-code": "Bash", "codex": "Bash", "gemini": "run_shell_command"}
    return {
        "session_id": _SESSION,
        "cwd": str(project),
        "hook_event_name": AGENTS[agent].events[0],
        "tool_name": tools[agent],
        "tool_input": {"command": "true"},
    }


def _said(done: subprocess.CompletedProcess[str]) -> str:
    text = (done.stderr or done.stdout).strip().splitlines()
    return (text[-1] if text else f"exit code {done.returncode}")[:200]


# --- Codex passes over hooks that it does not trust -----------------------------------------------


def _untrusted(setup: Setup, seen: Wired) -> str:
    """Codex itself says whether it trusts the hooks; without the program, its file does."""
    codex = shutil.which("codex", path=setup.environ.get("PATH"))
    listed = None if codex is None else _asked(codex, setup)
    if listed is None:
        return _unlisted(setup, seen)
    ours = [each for each in listed if "holdfast/hooks/client." in str(each.get("command"))]
    states = {str(each.get("trustStatus")) for each in ours if each.get("enabled") is not False}
    if not ours:
        return "Codex does not see it"
    return "" if states <= {"trusted", "managed"} else f"Codex says that it is {min(states)}"


def _asked(codex: str, setup: Setup) -> list[Mapping[str, object]] | None:
    said: Sequence[Mapping[str, object]] = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": _CLIENT}},
        {"method": "initialized"},
        {"id": _QUESTION, "method": "hooks/list", "params": {"cwds": [str(setup.project)]}},
    )
    lines = "".join(f"{json.dumps(each)}\n" for each in said)
    try:
        with subprocess.Popen(
            [codex, "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=setup.project,
            env=dict(setup.environ),
        ) as server:
            return _answer(server, lines)
    except (OSError, ValueError):
        return None


_QUESTION = 2
_CLIENT = {"name": "holdfast", "version": "1"}


def _answer(server: subprocess.Popen[str], lines: str) -> list[Mapping[str, object]] | None:
    """It answers only while its input is open. One that does not answer is ended."""
    if server.stdin is None or server.stdout is None:
        return None
    limit = threading.Timer(_CODEX_SECONDS, server.kill)
    limit.start()
    try:
        server.stdin.write(lines)
        server.stdin.flush()
        for line in server.stdout:
            said = json.loads(line)
            if said.get("id") == _QUESTION and "result" in said:
                return [hook for each in said["result"]["data"] for hook in each["hooks"]]
        return None
    finally:
        limit.cancel()
        server.kill()


def _unlisted(setup: Setup, seen: Wired) -> str:
    given = setup.environ.get("CODEX_HOME")
    folder = Path(given) if given else setup.user_home / ".codex"
    try:
        state = tomllib.loads((folder / "config.toml").read_text())["hooks"]["state"]
    except (OSError, ValueError, KeyError, TypeError):
        state = {}
    source = os.path.realpath(seen.path)
    known = [key for key in state if str(key).startswith(f"{source}:")]
    return "" if len(known) >= len(seen.commands) else "Codex does not trust it"


# --- What would be blocked now --------------------------------------------------------------------


def _over_budget(setup: Setup, now: float) -> Iterator[Finding]:
    """Sessions of the last day whose next tool would not run."""
    place = Place(setup.home, clock=lambda: now)
    loop = Loop(place)
    for agent, session in loop.book.sessions(since=now - 86_400):
        try:
            rules = place.settings.loop_rules()
            standing = loop.standing(agent, session)
            today = loop.used_today(standing.state)
            decision = judge(rules, standing.state, today, errors=0, tool="")
        except (HoldfastError, OSError):
            continue
        if not decision.passes:
            yield Finding(
                check="budgets", message=f"{agent} {session} is stopped: {decision.reason}"
            )

"""Try an installed hook end to end: run the exact command that the agent runs, with input as the
agent would send it, in a temporary project and home."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.connect import BLOCKED, EVENTS
from holdfast.connect.settings_entries import Wired
from holdfast.model.checkup import HookAnswer
from holdfast.model.text import format_duration
from holdfast.policy.budgets import GuardOptions
from holdfast.policy.circuit_breaker import Run, fingerprint
from holdfast.stores.connected_sessions import FileLoopBook
from holdfast.value import dataclass, replace

_SECONDS = 30
#: No helper, because it would outlive the trial; and a budget that the second tool exceeds.
_CONFIG = "[hooks]\nhelper = false\n[guard]\nmax_iterations = 1\n"
_WRONG = _CONFIG.replace("= 1", "= []")
_FIRST, _STUCK, _LOST = "holdfast-doctor", "holdfast-doctor-2", "holdfast-doctor-3"
_COMMAND = {"command": "true"}
_TOOLS = {
    "claude-code": "Bash",
    "codex": "Bash",
    "gemini": "run_shell_command",
    "opencode": "bash",
}
_TOOL, _PROMPT = 0, 1  # index into an agent's EVENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The hook's answer to each case, and what is wrong with it; "" if it works."""

    answers: tuple[HookAnswer, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """An input of the agent, and the answer that is expected. `says` is a part of the answer; ""
    expects no output. With `takes`, a checkpoint must exist afterwards."""

    words: str
    session: str
    event: int = _TOOL
    blocks: bool = False
    says: str = ""
    takes: bool = False
    config: str = _CONFIG


def try_hook(seen: Wired) -> Trial:
    """Try the installed commands. After the first wrong answer, nothing more is tried."""
    answers: list[HookAnswer] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as folder:
        place = Path(folder).resolve()
        home, project = place / "home", place / "project"
        (home / "operations").mkdir(parents=True)
        project.mkdir()
        (project / "file.txt").write_text("a file\n")
        _get_stuck(home, seen.agent)
        for number, case in enumerate(_cases(seen)):
            (home / "config.toml").write_text(case.config)
            (project / "file.txt").write_text(f"state {number}\n")
            answer, problem = _tried(seen, case, home, project, number)
            if answer is not None:
                answers.append(answer)
            if problem:
                return Trial(answers=tuple(answers), problem=problem)
    return Trial(answers=tuple(answers))


def _cases(seen: Wired) -> Iterator[_Case]:
    closed = seen.fails_closed
    yield _Case(words="a tool", session=_FIRST, takes=True)
    over = "budget of 1 iterations"
    yield _Case(words="a tool over a budget", session=_FIRST, blocks=True, says=over)
    yield _Case(
        words="a prompt over a budget", session=_FIRST, event=_PROMPT, blocks=True, says=over
    )
    times = GuardOptions().same_call.stop
    yield _Case(
        words=f"the same call for the {times}th time",
        session=_STUCK,
        blocks=True,
        says="times in a row with the same arguments",
    )
    yield _Case(
        words="a tool while config.toml is invalid",
        session=_LOST,
        blocks=closed,
        says="cannot be used",
        takes=not closed,
        config=_WRONG,
    )


def _get_stuck(home: Path, agent: str) -> None:
    """Record a session that has repeated the same call so often that the next one is too many."""
    book = FileLoopBook(home)
    before = GuardOptions().same_call.stop - 1
    run = Run(
        tool=_TOOLS[agent],
        arguments=fingerprint(_COMMAND),
        same_tool=before,
        same_call=before,
    )
    with book.session(agent, _STUCK) as state:
        book.keep(replace(state, run=run))


def _tried(
    seen: Wired, case: _Case, home: Path, project: Path, number: int
) -> tuple[HookAnswer | None, str]:
    """Return the hook's answer, if there was one, and what is wrong with it."""
    words = list(seen.commands[EVENTS[seen.agent][case.event]])
    words[words.index(seen.agent) + 2] = str(home)
    done = _run(words, _input(seen.agent, case, project, number), project)
    if isinstance(done, str):
        return None, done
    reason = _refusal(done)
    passes = reason is None
    took = passes and any(call.checkpoint for call in FileLoopBook(home).calls(case.session))
    answer = HookAnswer(case=case.words, blocked=not passes, reason=reason or "", checkpoint=took)
    heard = _said(done)
    if case.blocks and passes:
        return answer, f"it does not block {case.words}: {heard}"
    if not case.blocks and not passes:
        return answer, f"it blocks {case.words}: {heard}"
    told = case.says in done.stdout + done.stderr if case.says else not done.stdout
    if not told or done.returncode not in (0, BLOCKED if case.blocks else 0):
        return answer, f"its answer to {case.words} is wrong: {heard}"
    if case.takes and not took:
        return answer, f"it takes no checkpoint before {case.words}"
    return answer, ""


def _refusal(done: subprocess.CompletedProcess[str]) -> str | None:
    """Return why the agent would not go on; None if it would, as after an invalid answer."""
    if done.returncode == BLOCKED:
        return done.stderr.strip() or None
    try:
        said: Any = json.loads(done.stdout) if done.stdout and not done.returncode else {}
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    inner = said.get("hookSpecificOutput")
    denied = inner if isinstance(inner, dict) else {}
    if denied.get("permissionDecision") == "deny":
        return str(denied.get("permissionDecisionReason"))
    if said.get("decision") in ("block", "deny") or said.get("verdict"):
        return str(said.get("reason"))
    return None


def _run(
    words: Sequence[str], given: Mapping[str, object], project: Path
) -> subprocess.CompletedProcess[str] | str:
    env = {**os.environ, "XDG_RUNTIME_DIR": str(project.parent)}  # noqa: TID251 - for a program
    try:
        return subprocess.run(
            words,
            input=json.dumps(given, separators=(",", ":")),
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


def _input(agent: str, case: _Case, project: Path, number: int) -> Mapping[str, object]:
    """The agent's input before it runs a shell command, or when its user sends a prompt."""
    event, is_tool = EVENTS[agent][case.event], case.event == _TOOL
    if agent == "opencode":
        call = {"tool": _TOOLS[agent], "callID": str(number)} if is_tool else {}
        return {
            "event": event,
            "directory": str(project),
            "input": {"sessionID": case.session, **call},
            "output": {"args": _COMMAND} if is_tool else {"message": {"id": str(number)}},
        }
    tool = {"tool_name": _TOOLS[agent], "tool_input": _COMMAND}
    return {
        "session_id": case.session,
        "cwd": str(project),
        "hook_event_name": event,
        **(tool if is_tool else {"prompt": "go on"}),
    }


def _said(done: subprocess.CompletedProcess[str]) -> str:
    text = (done.stderr or done.stdout).strip().splitlines()
    return (text[-1] if text else f"exit code {done.returncode}")[:200]

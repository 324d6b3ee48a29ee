"""A desk that somebody works at: several agents, projects of different sizes, a few old things.

For screenshots and for tests in a browser. The same seed makes the same homes; times count from
now, so that the page speaks of days ago.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast import open as open_home
from holdfast.cli.demo_home import MEMORABLE_ID, build
from holdfast.model.figures import HomeFigures
from holdfast.stores.figures_file import FiguresFile
from tests.cli.agents import settle
from tests.cli.machine import Machine

_DAY = 86_400.0
_PROJECTS = ("shop-backend", "website", "ledger", "notes-app", "infra")
_TASKS = (
    ("Fix the flaky storage test", "The storage test fails one time in ten. Find out why."),
    ("Move the queue to Postgres", "Plan the move of the job queue to PostgreSQL, step by step."),
    ("Dark mode for the settings page", "Please add a dark mode to the settings page."),
    ("Why is the build so slow?", "The build takes nine minutes. What takes longest?"),
    ("Upgrade to Python 3.13", "Upgrade the project to Python 3.13 and fix what breaks."),
    ("Write the release notes", "Write the release notes for 2.4 from the commits since 2.3."),
    ("Retry with backoff", "The client hammers the API. Add a retry with backoff and jitter."),
)
_ANSWER = """I found it. The retry loop never waits, so a slow disk makes the test time out:

```python
for attempt in range(5):
    if try_write(path):
        break
```

It should back off, with a little jitter:

```python
for attempt in range(5):
    if try_write(path):
        break
    time.sleep(0.05 * 2**attempt + random.random() / 50)
```

All 214 tests pass now. The change is on the branch `storage-retry`."""


def settled(machine: Machine, *, sessions: int = 60) -> Machine:
    """Homes of six agents; of Claude Code many sessions, of some megabytes."""
    settle(machine)
    chance = random.Random(7)
    for number in range(sessions):
        _claude(machine.user, chance, number)
    _odd(machine.user)
    _grown(machine.user / ".claude/.holdfast", chance)
    return machine


def _odd(user: Path) -> None:
    """The newest of all: an id that never ends, and a title that wants the whole page."""
    long = f"1794804542844_ftbu3__agent_{'0123456789' * 9}"
    for name, title in ((long, ""), ("marked", "z" + 300 * "\u0301")):
        path = user / ".claude/projects/-home-ada-odd" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        said = _said(
            random.Random(1), name, "/home/ada/odd", time.time(), title or "Go on.", turns=0
        )
        lines = [*said]
        if title:
            lines.append({"type": "ai-title", "sessionId": name, "aiTitle": title})
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))


def pictured(machine: Machine) -> Machine:
    """The same for pictures: more sessions, none of a laboratory, and projects with names."""
    build(machine.home, time.time())
    settle(machine, "codex", "gemini", "hermes", "opencode")
    for folder in (".codex", ".gemini", ".hermes", ".local/share/opencode"):
        for path in (machine.user / folder).rglob("*"):
            if path.is_file() and not path.is_symlink():
                _name_projects(path)
    (machine.user / ".claude/sessions").mkdir(parents=True)
    (machine.user / ".claude/settings.json").write_text("{}")
    chance = random.Random(7)
    for number in range(160):
        _claude(machine.user, chance, number)
    _grown(machine.user / ".claude/.holdfast", chance)
    with_project(machine)
    return machine


def _name_projects(path: Path) -> None:
    """The recordings have no names of projects. Those of the same length leave databases whole."""
    status, content = path.stat(), path.read_bytes()
    named = content
    for name in (b"storage-engine", b"ledger-import", b"shop-backend", b"data-import"):
        named = re.sub(rb"(?<!w)w{%d}(?!w)" % len(name), name, named)
    if named != content:
        path.write_bytes(named)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _grown(state: Path, chance: random.Random) -> None:
    """Four weeks in which it became more and more."""
    kept, size, now = FiguresFile(state), 1_100_000, time.time()
    for days in range(28, 0, -1):
        size += chance.randint(20_000, 190_000)
        at = now - days * _DAY
        kept.add(HomeFigures(at=at, bytes=size, session_bytes=size, disk_free=80_000_000_000))


def _claude(user: Path, chance: random.Random, number: int) -> None:
    project = _PROJECTS[min(int(chance.expovariate(0.7)), len(_PROJECTS) - 1)]
    folder = f"/home/ada/src/{project}"
    days = 0.05 + 180 * chance.random() ** 2
    turns = 1 + int(chance.expovariate(0.06))
    began = time.time() - days * _DAY - 120 * (turns + 2)
    name = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    path = user / ".claude/projects" / folder.replace("/", "-") / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    title, task = _TASKS[number % len(_TASKS)]
    lines = [*_said(chance, name, folder, began, task, turns=turns)]
    lines.append({"type": "ai-title", "sessionId": name, "aiTitle": title})
    path.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines))
    ended = began + 40 * len(lines)
    os.utime(path, (ended, ended))


def _said(
    chance: random.Random, session: str, cwd: str, began: float, task: str, *, turns: int
) -> Iterator[dict[str, Any]]:
    parent: str | None = None

    def line(kind: str, message: dict[str, Any], step: int) -> dict[str, Any]:
        nonlocal parent
        at = datetime.fromtimestamp(began + 40 * step, UTC).isoformat().replace("+00:00", "Z")
        made = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": cwd,
            "sessionId": session,
            "version": "2.1.325",
            "gitBranch": "main",
            "type": kind,
            "message": message,
            "uuid": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            "timestamp": at,
        }
        parent = str(made["uuid"])
        return made

    yield line("user", {"role": "user", "content": task}, 0)
    for turn in range(turns):
        call = f"toolu_{chance.getrandbits(48):x}"
        yield line("assistant", _spoken(chance, _calls(call, turn)), 3 * turn + 1)
        result = {"type": "tool_result", "tool_use_id": call, "content": _output(chance)}
        yield line("user", {"role": "user", "content": [result]}, 3 * turn + 2)
    yield line("assistant", _spoken(chance, [{"type": "text", "text": _ANSWER}]), 3 * turns + 3)


def _calls(call: str, turn: int) -> Sequence[dict[str, Any]]:
    asked = {"command": f"pytest -q tests/storage -k retry --count {turn + 1}"}
    return [
        {"type": "text", "text": "Let me run the tests first."},
        {"type": "tool_use", "id": call, "name": "Bash", "input": asked},
    ]


def _spoken(chance: random.Random, content: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"msg_{chance.getrandbits(64):x}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": chance.randint(200, 4000),
            "output_tokens": chance.randint(50, 900),
            "cache_read_input_tokens": chance.randint(0, 60_000),
        },
    }


def _output(chance: random.Random) -> str:
    lines = [f"tests/storage/test_write.py::test_{n} PASSED" for n in range(chance.randint(3, 60))]
    return "\n".join([*lines, f"{len(lines)} passed in 1.2 s"])


def with_project(machine: Machine) -> Path:
    """A project in which an agent worked step by step, with a checkpoint before each step; changed
    since the last one."""
    place = machine.user / "src" / "shop-backend"
    place.mkdir(parents=True)
    parts = [f"def handler_{n}(request):\n    return respond({n})\n\n\n" for n in range(40)]
    steps = ("Bash: pytest -q", "Edit: queue.py", "Write: docs/plan.md", "Bash: rm -rf build")
    with open_home(machine.home, create=True) as home:
        for number, step in enumerate(steps):
            text = "".join(parts[: 12 + number * 3])
            (place / "queue.py").write_text(text.replace("respond(3)", f"answer({number})"))
            (place / f"step{number}.py").write_text(f"STEP = {number}\n")
            home.checkpoints.take(place, reason=f"before {step}", session=MEMORABLE_ID)
    (place / "queue.py").write_text("".join(parts[:16]).replace("request", "asked"))
    (place / "step0.py").unlink()
    (place / "logo.png").write_bytes(bytes(range(256)))
    return place

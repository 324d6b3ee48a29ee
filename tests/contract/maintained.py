"""Homes to look after: real stores, files and processes, and programs that hear of events."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import holdfast
from holdfast.api.sessions import open_sessions
from holdfast.model.maintenance import MaintenanceResult, Step, StepResult

DAY = 86_400.0
PATIENCE = 60.0


def a_home(root: Path, config: str = "", *, sessions: int = 0, days: float = 200) -> Path:
    """A home with ended sessions that were last active so many days ago."""
    moment = time.time() - days * DAY
    chance = Random(sessions)
    with open_sessions(root, clock=lambda: moment) as store:
        for number in range(sessions):
            session = store.create(source="cli", id=f"old-{number:04}")
            texts = (chance.randbytes(500).hex() for _ in range(6))  # hardly to be compressed
            store.append(session.id, *(holdfast.Message(role="user", content=t) for t in texts))
            store.end(session.id)
    configure(root, config)
    return root


def configure(root: Path, config: str) -> None:
    (root / "config.toml").write_text(config, encoding="utf-8")


def ids(root: Path) -> set[str]:
    with open_sessions(root) as store:
        return {session.id for session in store.find()}


def bundles_of(archive: Path) -> list[Path]:
    """The bundles in an archive folder."""
    return [
        path for path in archive.rglob("*") if path.is_file() and path.suffix in (".zst", ".gz")
    ]


def at(moment: float) -> Callable[[], float]:
    """A clock that has stopped."""
    return lambda: moment


def step(result: MaintenanceResult, name: Step) -> StepResult:
    (found,) = (each for each in result.steps if each.step is name)
    return found


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def listener(folder: Path, then: str = "") -> tuple[str, Path]:
    """A program that writes each event it hears of into a file of its own; and their folder."""
    heard = folder / "heard"
    heard.mkdir()
    script = folder / "listen.py"
    script.write_text(
        "import os, sys, pathlib, time\n"
        f"place = pathlib.Path({str(heard)!r}, f'{{time.time_ns()}}-{{os.getpid()}}')\n"
        "text = os.environ['HOLDFAST_EVENT'] + '\\n' + sys.stdin.read()\n"
        "place.with_suffix('.part').write_text(text)\n"
        "place.with_suffix('.part').rename(place)\n"
        f"{then}\n",
        encoding="utf-8",
    )
    return f"{sys.executable} {script}", heard


def heard_in(folder: Path) -> list[dict[str, Any]]:
    """The events that the program heard of, in order; the variable must say the same."""
    events = []
    for path in sorted(folder.iterdir()):
        variable, _, document = path.read_text(encoding="utf-8").partition("\n")
        event = json.loads(document)
        assert event["event"] == variable
        events.append(event)
    return events


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def is_running(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state[0] not in ("Z", "X")

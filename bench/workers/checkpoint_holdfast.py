"""Holdfast's checkpoints as an agent embeds them, in a process that lives as long as an agent.

It reads one request a line, a JSON list of the work and its arguments, and answers with a line.
What is timed is the call alone: not the start of this process, and not the way to it.

    checkpoint_holdfast.py
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from holdfast import Recorder, TakeOutcome
from holdfast.api.capture import open_recorder
from holdfast.homes.registry import open_home
from holdfast.services.rollback import rollback

_recorders: dict[tuple[str, str], Recorder] = {}


def take(home: str, workdir: str, paths: list[str] | None = None) -> dict[str, object]:
    """A checkpoint at the beginning of a turn; with `paths`, of what is known to change."""
    recorder = _recorder(home, workdir)
    recorder.new_turn()
    began = time.perf_counter()
    taking = recorder.before_change(workdir, paths)
    seconds = time.perf_counter() - began
    if taking.outcome is TakeOutcome.SKIPPED:
        raise SystemExit(f"No checkpoint of {workdir}: {taking.reason}")
    return {"seconds": seconds, "taken": taking.outcome is TakeOutcome.TAKEN, "id": taking.id}


def restore(home: str, workdir: str, checkpoint: str) -> dict[str, object]:
    """Everything that `holdfast checkpoints restore` does after it asked."""
    store = _recorder(home, workdir).store
    opened = open_home(Path(home), clock=time.time)
    began = time.perf_counter()
    done = rollback(opened, store, checkpoint, command="bench", clock=time.time)
    return {"seconds": time.perf_counter() - began, "written": len(done.written)}


def pack(home: str) -> dict[str, object]:
    """What maintenance does for the space, without dropping anything."""
    upkeep = open_home(Path(home), clock=time.time).checkpoint_upkeep
    began = time.perf_counter()
    upkeep.pack()
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "checkpoints": len(upkeep.scan(time.time()).checkpoints)}


def overview(home: str) -> dict[str, object]:
    """Every project with its number of checkpoints, and what all of it takes."""
    opened = open_home(Path(home), clock=time.time)
    began = time.perf_counter()
    usage = opened.checkpoint_upkeep.scan(time.time())
    return {"seconds": time.perf_counter() - began, "projects": len(usage.projects)}


def _recorder(home: str, workdir: str) -> Recorder:
    key = home, workdir
    if key not in _recorders:
        _recorders[key] = open_recorder(home, workdirs=[workdir], enabled=True)
    return _recorders[key]


if __name__ == "__main__":
    for line in sys.stdin:
        work, *arguments = json.loads(line)
        print(json.dumps(globals()[work](*arguments)), flush=True)

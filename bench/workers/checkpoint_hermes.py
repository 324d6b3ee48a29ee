"""Hermes's own `CheckpointManager`, in a process that lives as long as an agent; runs in the
environment of the baseline. The home is the one in HERMES_HOME.

It reads one request a line, a JSON list of the work and its arguments, and answers with a line.
What is timed is the call alone.

    checkpoint_hermes.py
"""

from __future__ import annotations

import json
import sys
import time

from tools.checkpoint_manager import CheckpointManager

_manager = CheckpointManager(enabled=True)


def take(workdir: str) -> dict[str, object]:
    """A checkpoint at the beginning of a turn. It says no when nothing changed, when it refuses
    the directory, and when it failed."""
    _manager.new_turn()
    began = time.perf_counter()
    taken = _manager.ensure_checkpoint(workdir, "bench")
    return {"seconds": time.perf_counter() - began, "taken": taken}


if __name__ == "__main__":
    for line in sys.stdin:
        work, *arguments = json.loads(line)
        print(json.dumps(globals()[work](*arguments)), flush=True)

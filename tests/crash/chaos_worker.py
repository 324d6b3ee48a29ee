"""One of the processes of the chaos: `python -m tests.crash.chaos_worker ROLE ROOT NAME`."""

from __future__ import annotations

import logging
import random
import sys
import time
from pathlib import Path

from tests.crash import chaos_checkpoints, chaos_sessions
from tests.crash.side_log import SideLog

ROLES = {
    "talk": chaos_sessions.talk,
    "bound": chaos_sessions.bound,
    "archive": chaos_sessions.archive,
    "take": chaos_checkpoints.take,
    "space": chaos_checkpoints.space,
}


def main(role: str, root: str, name: str) -> None:
    logging.getLogger("holdfast").addHandler(logging.NullHandler())
    chance = random.Random(f"{name} {time.time_ns()}")
    ROLES[role](Path(root), SideLog(Path(root), name), chance)


if __name__ == "__main__":
    main(*sys.argv[1:])

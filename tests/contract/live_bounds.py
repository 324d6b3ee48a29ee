"""An agent that takes checkpoints of random bytes under a small cap, in a process of its own.

live_bounds.py HOME WORKDIR TAKES BYTES
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from holdfast.api.capture import open_recorder


def main(home: str, workdir: str, takes: int, size: int) -> None:
    recorder = open_recorder(home, workdirs=[workdir], enabled=True)
    chance = random.Random(workdir)
    for _ in range(takes):
        Path(workdir, "data.bin").write_bytes(chance.randbytes(size))
        recorder.new_turn()
        taking = recorder.before_change(workdir)
        sys.stdout.write(json.dumps([taking.outcome.value, taking.id, taking.reason]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

"""Cut the power before every call while a checkpoint is taken, and look at what the disk knows.

`python -m tests.crash.power_take_harness SCENARIO EVERY`, in the manner of `power_harness`. The
project itself is not ours to flush: it stays as it was.
"""

from __future__ import annotations

import itertools
import shutil
import sys

from tests.crash import checkpoint_take_harness as taking
from tests.crash.harness import Tally, in_memory
from tests.crash.power_harness import run_cut

SCENARIOS = ("changed", "path-known", "after-reclaim")


def trusted(path: str) -> bool:
    return path.startswith("project/") or path.endswith("lock")


def check_acknowledged(world: taking.World) -> None:
    newest = world.store().list(world.project)[0]
    assert newest.id not in world.known, "acknowledged, and lost"


def main(name: str, every: str) -> None:
    scenario, tally = taking.SCENARIOS[name], Tally()
    with in_memory() as scratch:
        world = taking.make(scratch / "world", scenario.checkpoints)
        left = scratch / "left"
        for cut_at in itertools.count(1, int(every)):
            shutil.rmtree(world.root)
            shutil.copytree(scratch / "template", world.root)
            if scenario.before is not None:
                scenario.before(world)
            through = run_cut(
                lambda _: scenario.killed(world), world.root, cut_at, left, trusted=trusted
            )
            shutil.rmtree(world.root)
            left.rename(world.root)
            if through:
                check_acknowledged(world)
            taking.verify(world)
            tally.kills += 1
            tally.states += 1
            if through:
                break
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Cut the power before every call while a checkpoint is restored, and look at what is left.

`python -m tests.crash.power_restore_harness SCENARIO EVERY`, in the manner of `power_harness`. A
project is a user's, and a restore flushes what it writes there: nothing in it is trusted.
"""

from __future__ import annotations

import itertools
import shutil
import sys

from tests.crash import checkpoint_harness as restoring
from tests.crash.harness import Tally, in_memory
from tests.crash.power_harness import run_cut
from tests.trees import everything

SCENARIOS = tuple(restoring.SCENARIOS)


def trusted(path: str) -> bool:
    return path.endswith("lock")


def main(name: str, every: str) -> None:
    scenario, tally = restoring.SCENARIOS[name], Tally()
    with in_memory() as place:
        world = restoring.make(place)
        left = world.root.with_name("left")
        for cut_at in itertools.count(1, int(every)):
            restoring.fresh(world, scenario)
            wanted = world.after if scenario.before is None else world.before
            through = run_cut(
                lambda _: scenario.killed(world), world.root, cut_at, left, trusted=trusted
            )
            shutil.rmtree(world.root)
            left.rename(world.root)
            if through:
                assert everything(world.project) == wanted, "acknowledged, and lost"
            scenario.verify(world)
            tally.kills += 1
            tally.states += 1
            if through:
                break
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs random sequences of everything that can happen: `python -m tests.model.sequence`.

    python -m tests.model.sequence SEED [SEEDS] [STEPS] [--faults] [--hermes] [--real]

A program of its own, because it forks. Each sequence follows from its seed alone. The first that
breaks a promise is made as short as it can be, and told with its seed; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.model import agent_steps, checkpoint_steps, hermes, removal_steps, return_steps
from tests.model.account import account
from tests.model.faults import FILES, KILL, SIZE, Fault
from tests.model.judge import Step, judge
from tests.model.kept import Model
from tests.model.look import look
from tests.model.run import Options, Run, Steps
from tests.model.world import World, preload

STEPS: Steps = {
    **agent_steps.STEPS,
    **removal_steps.STEPS,
    **return_steps.STEPS,
    **checkpoint_steps.STEPS,
}
#: Meets nothing, so that it settles what a killed command left and does nothing else.
SETTLE = ("trash", "empty", "--older-than", "9999d", "--yes")
_FIRST = ("create", "create", "append", "append", "end", "end", "talk", "dump")
#: Between two steps: everything has a time of its own.
_TICK = 7.0


@dataclass(frozen=True, slots=True)
class Planned:
    """One step of a sequence, before it is known what is there to do it to."""

    name: str
    numbers: tuple[int, int, int]
    fault: Fault | None = None

    def __str__(self) -> str:
        return f"{self.name}{self.numbers}" + (f" [{self.fault}]" if self.fault else "")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a sequence failed, and what it had done up to there."""

    reason: str
    told: Sequence[str]
    done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What sequences are like: how long, with faults or not, in which home, and whether commands
    are started as a shell does it."""

    steps: int = 40
    faults: bool = False
    hermes: bool = False
    real: bool = False


def planned(seed: int, kind: Kind) -> tuple[Options, list[Planned]]:
    chance = random.Random(seed)
    options = Options(
        on_reset=chance.choice(("archive", "archive", "delete", "keep")),
        transcripts=chance.random() < 0.8,
        auto_prune=chance.random() < 0.5,
        auto_gc=chance.random() < 0.5,
        remove_delivered=chance.random() < 0.5,
        max_snapshots=chance.choice((3, 20)),
    )
    possible = hermes.STEPS if kind.hermes else tuple(STEPS)
    weights = [STEPS[name][0] for name in possible]
    # First there must be something to do all this to.
    first = [] if kind.hermes else chance.choices(_FIRST, k=kind.steps // 4)
    names = [*first, *chance.choices(possible, weights, k=kind.steps - len(first))]
    return options, [
        Planned(
            name,
            (chance.randrange(10_000), chance.randrange(10_000), chance.randrange(10_000)),
            _a_fault(chance) if kind.faults and chance.random() < 0.25 else None,
        )
        for name in names
    ]


def _a_fault(chance: random.Random) -> Fault:
    kind = chance.choice((KILL, KILL, KILL, SIZE, FILES))
    if kind == KILL:
        return Fault(KILL, int(2 ** chance.uniform(0, 8)))
    return (
        Fault(SIZE, chance.choice((0, 512, 4096, 65_536)))
        if kind == SIZE
        else Fault(FILES, chance.randrange(6, 24))
    )


def failure_of(seed: int, kind: Kind, options: Options, steps: Sequence[Planned]) -> Failure | None:
    """What is wrong with a sequence; None when everything was kept."""
    root = Path(tempfile.mkdtemp(prefix="holdfast-model-"))
    name = "agent" if kind.hermes else "home"
    world = World(root, options.toml(), real=kind.real, name=name)
    run = Run(world, Model(), options)
    done = 0
    try:
        os.environ["HOME"] = str(root)  # never that of the machine
        run.model = hermes.begin(world) if kind.hermes else _begin(world)
        for done, each in enumerate(steps):  # noqa: B007 - told when it fails
            _go(run, each)
        done = len(steps)
        account(run, random.Random(seed))
    except Exception as error:  # noqa: BLE001 - told with its sequence
        reason = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        return Failure(reason or traceback.format_exc(), tuple(run.told), done)
    finally:
        world.remove()
    return None


def _begin(world: World) -> Model:
    world.home.mkdir(mode=0o700)
    (world.home / "config.toml").write_text(world.config)
    world.call("find")  # makes the store
    return Model()


def _go(run: Run, each: Planned) -> None:
    run.world.now += _TICK
    run.fault = each.fault
    run.told.append(f"-- {each}")
    act = STEPS[each.name][1]
    step = act(run, *each.numbers)
    if step is None:
        return
    if run.fault is not None:
        run.fault = None
        run.command(*SETTLE)
        COUNTS["faults"] += 1
    touch(run, step)
    judge(run.model, step, look(run.world), run.now)
    COUNTS[each.name] += 1


def touch(run: Run, step: Step) -> None:
    """What the agent just wrote was written at the time that the world has."""
    known = {each.name: each for each in run.model.files if each.place == "sessions"}
    for path in run.world.files.glob("*"):
        grown = path.name.startswith(tuple(step.grown)) if step.grown else False
        before = known.get(path.name)
        if grown and (before is None or before.content != path.read_bytes()):
            os.utime(path, (run.now, run.now))


def shortest(
    steps: list[Planned], fails: Callable[[list[Planned]], bool], size: int | None = None
) -> list[Planned]:
    """The same failure with fewer steps: whole pieces are left out first, then smaller ones."""
    size = size or max(1, len(steps) // 2)
    while True:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if fails(fewer):
                steps = fewer
            else:
                at += size
        if size == 1:
            break
        size = max(1, size // 2)
    for at, each in enumerate(steps):
        calm = [*steps[:at], replace(each, fault=None), *steps[at + 1 :]]
        if each.fault is not None and fails(calm):
            steps = calm
    return steps


def _alike(one: Failure | None, other: Failure) -> bool:
    """The same promise was broken, of whichever session."""
    return one is not None and _gist(one) == _gist(other)


def _gist(failure: Failure) -> str:
    words = re.sub(r"[0-9a-f_]{6,}|/\S+|\d+", "#", failure.reason.splitlines()[0])
    return " ".join(words.split()[:6])


COUNTS: Counter[str] = Counter()


def tell(seed: int, options: Options, steps: Sequence[Planned], failure: Failure) -> None:
    lines = [f"seed {seed}, {options}", *map(str, steps), "", *failure.told, "", failure.reason]
    sys.stdout.write("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int)
    parser.add_argument("seeds", type=int, nargs="?", default=1)
    parser.add_argument("steps", type=int, nargs="?", default=40)
    for name in ("faults", "hermes", "real"):
        parser.add_argument(f"--{name}", action="store_true")
    wanted = parser.parse_args()
    kind = Kind(steps=wanted.steps, faults=wanted.faults, hermes=wanted.hermes, real=wanted.real)
    preload()
    for seed in range(wanted.seed, wanted.seed + wanted.seeds):
        options, steps = planned(seed, kind)
        failure = failure_of(seed, kind, options, steps)
        if failure is not None:
            _explain(seed, kind, options, steps, failure)
            return 1
    sys.stdout.write(json.dumps(COUNTS) + "\n")
    return 0


def _explain(
    seed: int, kind: Kind, options: Options, steps: list[Planned], failure: Failure
) -> None:
    short = shortest(
        steps[: failure.done + 1],
        lambda fewer: _alike(failure_of(seed, kind, options, fewer), failure),
    )
    tell(seed, options, short, failure_of(seed, kind, options, short) or failure)


if __name__ == "__main__":
    sys.exit(main())

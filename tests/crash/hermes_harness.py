"""Kill a process at every call while it bounds the checkpoints of Hermes, takes that back, or
brings them into a store of ours.

`python -m tests.crash.hermes_harness SCENARIO EVERY`, in the manner of `harness`: with EVERY 1 at
each call, with 5 at each fifth.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import CannotUndoError
from holdfast.homes.hermes.checkpoints_import import import_checkpoints
from holdfast.policy.rules import CheckpointPolicy
from holdfast.spine.carry_out import Silent
from holdfast.spine.empty_trash import plan_empty
from holdfast.spine.settle import settle
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.checkpoints.verify import verify
from tests.compat.hermes_store import Home, project, recorded
from tests.crash.harness import NEVER, Tally, points_of, run_killed, scratch

KEPT = 2


@dataclass(frozen=True)
class World:
    """A home of Hermes, and the chains that it had at first."""

    home: Home
    site: Path
    tool: Path
    before: tuple[list[str], list[str]]

    @property
    def chains(self) -> tuple[list[str], list[str]]:
        return chain(self.home, self.site), chain(self.home, self.tool)


def chain(home: Home, workdir: Path) -> list[str]:
    ref = f"refs/hermes/{project(workdir)}"
    return home.chain(workdir) if home.git("for-each-ref", ref) else []


def make(scratch: Path) -> World:
    home, site, tool = recorded(scratch / "world")
    world = World(home, site, tool, (home.chain(site), home.chain(tool)))
    shutil.copytree(scratch / "world", scratch / "template", symlinks=True)
    return world


def prune(world: World) -> None:
    world.home.prune(CheckpointPolicy(max_count=KEPT))


def prune_now(world: World) -> None:
    world.home.prune(CheckpointPolicy(max_count=KEPT, use_trash=False))


def prune_orphan(world: World) -> None:
    world.home.prune(CheckpointPolicy())


def pin_one(world: World) -> None:
    """So that others go from the middle."""
    home = world.home
    home.store.pin(home.store.get(world.before[0][3]), True)


def lose_directory(world: World) -> None:
    shutil.rmtree(world.tool)


def undo_the_latest(world: World) -> None:
    world.home.undo()


def empty(world: World) -> None:
    home = world.home
    home.age()
    home.apply(plan_empty(home.home, now=home.now, command="trash empty"))
    home.prune(CheckpointPolicy(max_count=KEPT))


def is_whole(world: World) -> None:
    """Whatever Hermes lists can be read, and is of what there was, in its order."""
    world.home.fsck()
    facts = world.home.facts(world.site)
    assert facts == [each for each in FACTS if each in facts], "another order, or another history"
    assert facts[0] == FACTS[0], "the newest went"


def settled(world: World) -> None:
    """After settling, log and references agree, and undo gives everything back."""
    is_whole(world)
    home = world.home
    with home.home.log.writing("settle") as log:
        settle(log, home.home, clock=lambda: home.now)
    view = home.home.log.read()
    assert all(operation.finished_at is not None for operation in view.operations)
    refs = home.git("for-each-ref", "--format=%(refname)", "refs/holdfast-trash").split()
    assert len(refs) == len(view.trash), (refs, view.trash)
    is_whole(world)
    while True:
        try:
            home.undo()
        except CannotUndoError:
            break
    assert world.chains == world.before
    assert not (home.git_dir / "shallow").exists()
    home.fsck()


def finished(world: World) -> None:
    """The next run comes to the same end as one that nobody killed."""
    is_whole(world)
    prune_now(world)
    world.home.age()
    prune_now(world)
    assert world.chains == tuple(each[:KEPT] for each in world.before)
    assert not (world.home.git_dir / "holdfast-reclaim").exists()
    is_whole(world)


def own_store(world: World) -> ShadowGitStore:
    return ShadowGitStore(world.home.root.parent / "own" / "checkpoints")


def bring_in(world: World) -> None:
    import_checkpoints(
        world.home.root,
        own_store(world),
        workdir=None,
        now=world.home.now,
        dry_run=False,
        progress=Silent(),
    )


def imported(world: World) -> None:
    """The next run brings in the rest: each once, with its time and reason, and whole."""
    bring_in(world)
    own = own_store(world)
    for workdir in (world.site, world.tool):
        there = [(each.time, each.reason) for each in own.list(workdir)]
        assert there == [(each.time, each.reason) for each in world.home.store.list(workdir)]
    assert {each.last_touch for each in own.projects()} == {world.home.now}
    verified = verify(own.layout)
    assert verified.ok, verified.problems
    for each in own.list(world.site):
        known = world.home.store.captured(world.home.store.get(each.known_id).tree)
        mine = own.captured(each.tree)
        assert mine.files.keys() == known.files.keys()
        for path in known.files.keys() - {"win.bat"}:  # stored as a checkout gives it
            assert own.blob(mine.files[path].oid) == world.home.store.blob(known.files[path].oid)
    assert world.chains == world.before
    world.home.fsck()


@dataclass(frozen=True)
class Scenario:
    """What happens before, what is killed, and what must hold afterwards."""

    killed: Callable[[World], None]
    verify: Callable[[World], None]
    before: tuple[Callable[[World], None], ...] = ()


SCENARIOS = {
    "prune": Scenario(prune, settled),
    "prune-middle": Scenario(prune, settled, before=(pin_one,)),
    "prune-orphan": Scenario(prune_orphan, settled, before=(lose_directory,)),
    "prune-now": Scenario(prune_now, finished),
    "undo": Scenario(undo_the_latest, settled, before=(prune,)),
    "undo-middle": Scenario(undo_the_latest, settled, before=(pin_one, prune)),
    "empty": Scenario(empty, finished, before=(prune,)),
    "import": Scenario(bring_in, imported),
}
FACTS: list[str] = []


def fresh(world: World, scenario: Scenario) -> None:
    root = world.home.root.parent
    shutil.rmtree(root)
    shutil.copytree(root.with_name("template"), root, symlinks=True)
    for step in scenario.before:
        step(world)


def main(name: str, every: str) -> None:
    scenario = SCENARIOS[name]
    tally = Tally()
    with scratch() as place:
        world = make(place)
        FACTS.extend(world.home.facts(world.site))
        fresh(world, scenario)
        points = points_of(lambda _: scenario.killed(world), world.home.root)
        for kill_at in (*points[:: int(every)], NEVER):
            fresh(world, scenario)
            tally.kills += not run_killed(
                lambda _: scenario.killed(world), world.home.root, kill_at
            )
            scenario.verify(world)
            tally.states += 1
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])

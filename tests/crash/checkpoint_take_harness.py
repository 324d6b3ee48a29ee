"""Kill a process at every call while it takes a checkpoint, or gives space back.

`python -m tests.crash.checkpoint_take_harness SCENARIO EVERY`, in the manner of `harness`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.model.checkpoint import Capturing, TakeOutcome
from holdfast.stores.checkpoints import join_packs
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.checkpointing import fsck
from tests.crash.harness import NEVER, NOW, Tally, points_of, run_killed, scratch

#: So many checkpoints stay; one more makes the oldest go.
KEPT = 2
Picture = Mapping[str, bytes]


@dataclass(frozen=True)
class World:
    """A project with checkpoints, and what each of them must hold."""

    root: Path
    known: Mapping[str, Picture]

    @property
    def project(self) -> Path:
        return self.root / "project"

    def store(self) -> ShadowGitStore:
        return ShadowGitStore(self.root / "home" / "checkpoints", Capturing(max_snapshots=KEPT))


def pictured(project: Path) -> Picture:
    files = (path for path in project.rglob("*") if path.is_file())
    return {str(path.relative_to(project)): path.read_bytes() for path in files}


def edit(project: Path, number: int) -> None:
    for name in ("changed", "deep/down/changed"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(b"%d\n" % number * 50)


def take(world: World, *paths: str, now: float = NOW) -> str:
    taking = world.store().take(world.project, reason="test", now=now, paths=paths or None)
    assert taking.outcome is not TakeOutcome.SKIPPED, taking
    return taking.id or ""


def make(root: Path, checkpoints: int) -> World:
    """The world, and a copy of it beside: each kill begins with that."""
    known: dict[str, Picture] = {}
    world = World(root=root, known=known)
    for number in range(5):
        (world.project / "some").mkdir(parents=True, exist_ok=True)
        (world.project / "some" / str(number)).write_bytes(b"%d" % number * 99)
    for number in range(checkpoints):
        edit(world.project, number)
        known[take(world, now=number)] = pictured(world.project)
    edit(world.project, checkpoints)
    shutil.copytree(root, root.with_name("template"))
    return world


def take_all(world: World) -> None:
    take(world)


def take_known(world: World) -> None:
    take(world, "changed", "deep/down/changed")


def take_and_join(world: World) -> None:
    join_packs.MOST_PACKS = 2
    take(world)


def give_back(world: World) -> None:
    reclaim(world.store().layout, holder="test", thorough=True)


def check(world: World) -> None:
    """Every checkpoint is whole, and the ones that there were hold what they held."""
    store = world.store()
    if not store.layout.exists():
        return
    assert not fsck(store.layout.store)
    there = store.list(world.project)
    assert {one.id for one in there} >= set(list(world.known)[-KEPT + 1 :]), "the newest is gone"
    assert len(there) <= KEPT + 1
    for one in there:
        held = store.captured(one.tree).files
        contents = {path: store.blob(entry.oid) for path, entry in held.items()}
        assert contents == world.known.get(one.id, pictured(world.project))


def verify(world: World) -> None:
    """So it is at once, after the next checkpoint, and when space was given back; and the next one
    that is new keeps the bound again."""
    check(world)
    last = take(world, now=NOW + 1)
    check(world)
    assert world.store().list(world.project)[0].id == last
    give_back(world)
    check(world)
    packs = world.store().layout.packs
    assert {path.suffix for path in packs.iterdir()} <= {".pack", ".idx", ".rev"}
    assert len(list(packs.glob("*.pack"))) == len(list(packs.glob("*.idx")))
    assert take(world, now=NOW + 2) == last
    edit(world.project, 99)
    take(world, now=NOW + 3)
    assert len(world.store().list(world.project)) <= KEPT


@dataclass(frozen=True)
class Scenario:
    """What is killed, how many checkpoints there were, and what happened then."""

    killed: Callable[[World], None]
    checkpoints: int = KEPT + 1
    before: Callable[[World], None] | None = None


SCENARIOS = {
    "first": Scenario(take_all, checkpoints=0),
    "changed": Scenario(take_all),
    "path-known": Scenario(take_known),
    "after-reclaim": Scenario(take_all, before=give_back),
    "join": Scenario(take_and_join),
    "reclaim": Scenario(give_back),
}


def fresh(world: World, scenario: Scenario) -> None:
    shutil.rmtree(world.root)
    shutil.copytree(world.root.with_name("template"), world.root)
    if scenario.before is not None:
        scenario.before(world)


def main(name: str, every: str) -> None:
    scenario = SCENARIOS[name]
    tally = Tally()
    with scratch() as place:
        world = make(place / "world", scenario.checkpoints)
        fresh(world, scenario)
        points = points_of(lambda _: scenario.killed(world), world.root)
        for kill_at in (*points[:: int(every)], NEVER):
            fresh(world, scenario)
            tally.kills += not run_killed(lambda _: scenario.killed(world), world.root, kill_at)
            verify(world)
            tally.states += 1
    tally.tell()


if __name__ == "__main__":
    main(*sys.argv[1:])

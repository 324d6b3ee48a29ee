"""One of many processes on one store: `python -m tests.crash.checkpoint_worker ROLE ROOT SEED`.

A taker has a directory of its own. It brings that to a state that follows from a number, takes a
checkpoint with the number as its reason, and now and then restores an older one. So whoever reads a
checkpoint knows what it must hold. The others drop checkpoints, bring them back, reclaim space,
read everything, or restore one directory that they share. They run until they are killed; whatever
they did not expect they say, and end.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.errors import BusyError, CannotUndoError, UnknownCheckpointError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import Capturing, TakeOutcome
from holdfast.policy.rules import CheckpointPolicy
from holdfast.services.apply_until_within_caps import bound_checkpoints
from holdfast.services.rollback import rollback
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo
from holdfast.stores.checkpoints.join_packs import join_if_many
from holdfast.stores.checkpoints.projects import pin
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.checkpointing import contents, on_disk

MAX_SNAPSHOTS = 12
SHARED = "project-shared"
_FILES = 9


def state(number: int) -> Mapping[str, bytes]:
    """Every file of a directory: some change often, some seldom, some come and go."""
    files = {
        f"d{place % 3}/f{place}": f"{place} at {number % (place + 2)}\n".encode() * 40
        for place in range(_FILES)
        if (number + place) % 7
    }
    return {**files, "number": f"{number}\n".encode()}


def bring_to(workdir: Path, number: int) -> list[str]:
    """Which files that changed."""
    wanted = state(number)
    there = {name: data for name, (_, data) in on_disk(workdir).items()}
    for name in there.keys() - wanted.keys():
        (workdir / name).unlink()
    changed = [name for name, data in wanted.items() if there.get(name) != data]
    for name in changed:
        path = workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wanted[name])
    return [*(there.keys() - wanted.keys()), *changed]


def store_of(root: Path, max_snapshots: int = MAX_SNAPSHOTS) -> ShadowGitStore:
    return ShadowGitStore(root / "home" / "checkpoints", Capturing(max_snapshots=max_snapshots))


def take(root: Path, seed: str) -> None:
    chance = random.Random(f"{seed} {time.time_ns()}")
    store, home = store_of(root), HoldfastHome(root / "home", clock=time.time)
    workdir = root / f"project-{seed}"
    workdir.mkdir(exist_ok=True)
    # A restore that was cut short is finished here, before the directory is touched.
    store.take(workdir, reason="recover", now=time.time())
    restored = False
    for _ in itertools.count():
        number = chance.randrange(10_000)
        changed = bring_to(workdir, number)
        # Known are only changes since the last checkpoint: a restore makes others.
        paths = changed if not restored and chance.random() < 0.3 else None
        taking = store.take(workdir, reason=str(number), now=time.time(), paths=paths)
        assert taking.outcome is not TakeOutcome.SKIPPED, taking
        assert not taking.not_captured, taking
        restored = chance.random() < 0.2
        if restored:
            restore(store, home, workdir, chance)


def restore(
    store: ShadowGitStore, home: HoldfastHome, workdir: Path, chance: random.Random
) -> None:
    chosen = chance.choice(store.list(workdir))
    try:
        rollback(home, store, chosen.id, command="checkpoints restore", clock=time.time)
    except (BusyError, UnknownCheckpointError):
        return  # others had the log for long, or it was dropped in between
    if chosen.reason.isdigit():
        there = {name: data for name, (_, data) in on_disk(workdir).items()}
        assert there == state(int(chosen.reason)), f"{chosen.id} was not restored"


def prune(root: Path, seed: str) -> None:
    chance = random.Random(f"{seed} {time.time_ns()}")
    home = HoldfastHome(root / "home", clock=time.time)
    for _ in itertools.count():
        policy = CheckpointPolicy(
            max_count=chance.choice((2, 4, 8)),
            max_bytes=chance.choice((None, 100_000, 400_000)),
            use_trash=chance.random() < 0.5,
            trash_age=0.5,
        )
        try:
            reports, _ = bound_checkpoints(
                home, policy, command="checkpoints prune", clock=time.time, progress=Silent()
            )
        except BusyError:
            continue  # others had the log for long
        for outcome in (each for report in reports for each in report.outcomes):
            assert outcome.result not in ("failed", "damaged"), outcome
        operation = reports[0].operation if reports else None
        if operation is not None and chance.random() < 0.3:
            try:
                undo(home, operation, clock=time.time)
            except (BusyError, CannotUndoError):
                continue
        time.sleep(chance.random() * 0.3)


def space(root: Path, seed: str) -> None:
    layout = store_of(root).layout
    for number in itertools.count():
        if not layout.exists():
            time.sleep(0.1)
        elif number % 3:
            reclaim(layout, holder="test", thorough=bool(number % 2))
        else:
            join_if_many(layout)
        time.sleep(0.1)


def read(root: Path, seed: str) -> None:
    """What can be read at all is whole, whatever others remove meanwhile."""
    chance = random.Random(f"{seed} {time.time_ns()}")
    store = store_of(root)
    for _ in itertools.count():
        with store.reading():
            found = store.list()
            for checkpoint in chance.sample(found, min(3, len(found))):
                held = {path: data for path, (_, data) in contents(store, checkpoint).items()}
                assert not checkpoint.reason.isdigit() or held == state(int(checkpoint.reason))
                store.changes(checkpoint.tree, chance.choice(found).tree)
        for project in store.projects():
            assert store.preview(store.list(Path(project.workdir))[0].id) is not None
        time.sleep(0.05)


def make_shared(root: Path) -> None:
    """A directory with three checkpoints that nobody drops, for those that share it."""
    store, workdir = store_of(root), root / SHARED
    workdir.mkdir()
    for number in (11, 22, 33):
        bring_to(workdir, number)
        store.take(workdir, reason=str(number), now=time.time())
        pin(store.layout, store.list(workdir)[0], True)


def share(root: Path, seed: str) -> None:
    chance = random.Random(f"{seed} {time.time_ns()}")
    store, home = store_of(root), HoldfastHome(root / "home", clock=time.time)
    ids = [each.id for each in store.list(root / SHARED) if each.pinned]
    for _ in itertools.count():
        # The log is for one after the other, and not in turn.
        with suppress(BusyError):
            command = "checkpoints restore"
            rollback(home, store, chance.choice(ids), command=command, clock=time.time)
        time.sleep(chance.random() * 0.3)


if __name__ == "__main__":
    roles = {"take": take, "prune": prune, "space": space, "read": read, "share": share}
    roles[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])

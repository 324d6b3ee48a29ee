"""Chaos among checkpoints: one that takes, restores and undoes, one that bounds and reclaims."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

from holdfast.errors import BusyError, CannotUndoError, UnknownCheckpointError
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import TakeOutcome
from holdfast.policy.rules import CheckpointPolicy
from holdfast.services.apply_until_within_caps import bound_checkpoints
from holdfast.services.rollback import rollback
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.checkpointing import on_disk
from tests.crash.chaos_sessions import checked, look_after, opened, undo_one
from tests.crash.checkpoint_worker import bring_to, state, store_of
from tests.crash.side_log import SideLog

_REST = 0.3


class Taker:
    """An agent in a directory of its own. Nobody else works there."""

    def __init__(self, root: Path, log: SideLog, chance: random.Random) -> None:
        self._log = log
        self._chance = chance
        self._home: HoldfastHome = opened(root)
        self._store: ShadowGitStore = store_of(root, max_snapshots=0)
        self._workdir = root / f"project-{log.path.name}"
        self._workdir.mkdir(exist_ok=True)

    def work(self) -> None:
        # A restore that was cut short is finished here, before the directory is touched.
        self._store.take(self._workdir, reason="recover", now=time.time())
        while True:
            number = self._chance.randrange(10_000)
            bring_to(self._workdir, number)
            taking = self._store.take(self._workdir, reason=str(number), now=time.time())
            assert taking.outcome is not TakeOutcome.SKIPPED, taking
            self._log.say("took", str(self._workdir), taking.id or "")
            if self._chance.random() < 0.3:
                # The log is for one after the other, and not in turn; and any may be dropped.
                with suppress(BusyError, UnknownCheckpointError):
                    self._go_back_and_forth()

    def _go_back_and_forth(self) -> None:
        before = on_disk(self._workdir)
        chosen = self._chance.choice(self._store.list(self._workdir))
        rollback(self._home, self._store, chosen.id, command="checkpoints restore", clock=time.time)
        if chosen.reason.isdigit():
            assert self._there() == state(int(chosen.reason)), f"{chosen.id} was not restored"
        after = on_disk(self._workdir)
        mine = [
            each.removal.operation
            for each in self._home.log.read().rolled_back
            if each.removal.item.id == chosen.project
        ]
        if mine and after != before and self._chance.random() < 0.5:
            with suppress(CannotUndoError):
                report = undo(self._home, mine[-1], clock=time.time)[1]
                if any(
                    "a checkpoint that it needs is gone" in each.reason for each in report.outcomes
                ):
                    # The cap took one of the two since: then nothing may have changed.
                    assert on_disk(self._workdir) == after
                    return
                checked(report)
                assert on_disk(self._workdir) == before, "undo did not give everything back"

    def _there(self) -> dict[str, bytes]:
        return {name: data for name, (_, data) in on_disk(self._workdir).items()}


def take(root: Path, log: SideLog, chance: random.Random) -> None:
    Taker(root, log, chance).work()


def space(root: Path, log: SideLog, chance: random.Random) -> None:
    home, layout = opened(root), store_of(root).layout
    while True:
        with suppress(BusyError):
            match chance.randrange(5) if layout.exists() else 3:
                case 0:
                    prune(home, chance)
                case 1:
                    reclaim(layout, holder="test", thorough=chance.random() < 0.5)
                    home.checkpoint_upkeep.tidy()
                case 2:
                    undo_one(home, chance)
                case 3:
                    look_after(root)
                case _:
                    found = home.checkpoint_upkeep.verify()
                    assert found.ok, found.problems
        time.sleep(chance.random() * _REST)


def prune(home: HoldfastHome, chance: random.Random) -> None:
    policy = CheckpointPolicy(
        max_count=chance.choice((4, 8)),
        max_bytes=chance.choice((None, 200_000)),
        use_trash=chance.random() < 0.6,
        trash_age=3.0,
    )
    reports, _ = bound_checkpoints(
        home, policy, command="checkpoints prune", clock=time.time, progress=Silent()
    )
    for report in reports:
        checked(report)

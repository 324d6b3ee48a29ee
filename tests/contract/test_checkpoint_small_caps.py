"""Small caps: a store whose live bytes fit its cap always gets back below it, and takes go on."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.homes.checkpoints.keep_within_bounds import Bounder
from holdfast.model.checkpoint import Capturing, TakeOutcome
from holdfast.model.plan import Action
from holdfast.policy.rules import CheckpointPolicy
from holdfast.stores.checkpoints import reclaim
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.checkpoints.size_cap import most_on_disk, store_bytes, weigh
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.checkpointing import Bench, file_bytes, fsck
from tests.contract.test_checkpoint_live_bounds import (
    MEGABYTE,
    a_home,
    a_project,
    drop_only,
    sampled,
)

NOW = 1_800_000_000.0


class OnlyWhenFull(Bounder):
    """No worker runs beside the takes: room is made by the take that finds none."""

    def later(self) -> None:
        pass


@pytest.mark.parametrize(
    ("megabytes", "sizes"),
    [
        (1, (430_000, 430_000)),
        (1, (100_000,) * 8),
        *(
            pytest.param(megabytes, sizes, marks=pytest.mark.deep)
            for megabytes, sizes in (
                (1, (280_000, 280_000, 280_000)),
                (1, (500_000, 350_000)),
                (2, (600_000, 600_000, 600_000)),
                (2, (1_000_000, 400_000, 400_000)),
                (3, (900_000, 900_000, 900_000)),
            )
        ),
    ],
)
def test_takes_go_on_and_the_store_comes_back_below_its_cap(
    tmp_path: Path, megabytes: int, sizes: Sequence[int]
) -> None:
    home, workdir = a_home(tmp_path, megabytes=megabytes), a_project(tmp_path)
    limit, chance = megabytes * MEGABYTE, random.Random(3)
    layout = Layout(folder=home / "checkpoints")
    bounding = OnlyWhenFull(home, layout.folder, 0, limit)
    store = ShadowGitStore(layout.folder, Capturing(max_bytes=limit), bounding=bounding)
    for number, size in enumerate(sizes):
        (workdir / f"{number}.bin").write_bytes(chance.randbytes(size))
    newest = None
    with sampled(layout.folder) as disk:
        for turn in range(9):
            number = turn % len(sizes)
            (workdir / f"{number}.bin").write_bytes(chance.randbytes(sizes[number]))
            taking = store.take(workdir, reason="turn", now=NOW + turn)
            assert taking.outcome is TakeOutcome.TAKEN, (turn, taking.reason)
            newest = taking.id
        bounding.run(time.time)
    weigh(layout)
    assert store_bytes(layout) <= limit
    assert disk.most <= most_on_disk(limit)
    assert store.list()[0].id == newest
    assert fsck(layout.store) == ""


def _with_garbage(bench: Bench, *, kept: int, unused: int) -> None:
    """A project whose first pack has something that its only checkpoint no longer needs."""
    workdir = bench.project()
    bench.write(workdir / "kept.bin", kept)
    first = bench.take(workdir, size=unused)
    bench.take(workdir, size=100)
    bench.apply(drop_only(bench, [first]))
    for index in bench.folder.glob("store/worktrees/*/index"):
        index.unlink()  # it is behind, and would hold what the first checkpoint had


def test_a_plan_for_a_store_over_its_cap_gives_back_what_nobody_needs(tmp_path: Path) -> None:
    """Half a megabyte used to be too little to be worth it, even where the cap needed it."""
    bench = Bench(tmp_path)
    _with_garbage(bench, kept=280_000, unused=560_000)
    before = file_bytes(bench.folder)
    plan = bench.plan(CheckpointPolicy(max_bytes=600_000))
    assert [each.action for each in plan.steps] == [Action.RECLAIM]
    assert not plan.shortfalls
    bench.apply(plan)
    assert file_bytes(bench.folder) <= 600_000 < before
    assert not bench.plan(CheckpointPolicy(max_bytes=before)).steps


def test_what_holds_a_store_above_its_cap_is_said(tmp_path: Path) -> None:
    """What is needed takes more than the cap, so there is no room to copy the pack around what is
    not."""
    bench = Bench(tmp_path)
    _with_garbage(bench, kept=700_000, unused=150_000)
    bench.take(bench.project("other"), size=500_000)
    done = reclaim.reclaim(bench.store.layout, holder="test", limit=MEGABYTE)
    assert "above its cap of 1.0 MB" in done.note
    assert "150" in done.note
    assert "max_total_size_mb" in done.note
    # Without a cap it goes, and there is nothing left to say.
    done = reclaim.reclaim(bench.store.layout, holder="test")
    assert done.freed > 140_000
    assert done.note == ""

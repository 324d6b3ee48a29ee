"""A month of a machine on an injected clock: homes grow, are swept and kept within a budget.

A plain model knows what must survive: what is pinned or open, and what its owner never asked to
remove as long as it fits. Everything that leaves must be in the trash, or have been there.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.api.machine import Machine
from holdfast.api.machine_watch import round_of
from holdfast.api.sessions import open_sessions
from holdfast.config.key import MEGABYTE
from holdfast.model.operation import MAINTAIN
from tests import tally
from tests.contract.maintained import DAY

HOMES = 8
LIMIT = 6
NOISE = 8 * 30_000
CONFIG = f"""
[guardian]
max_total_size_mb = {LIMIT}
high_percent = 90
low_percent = 60
reserve_mb = 0
"""


class Calm:
    """A progress that never stops."""

    def step(self, label: str, done: int, total: int | None) -> None: ...

    def stop_requested(self) -> bool:
        return False

    def sleep(self, seconds: float) -> None: ...


class Month:
    """Eight homes and what must be in them. The later in the list, the faster."""

    def __init__(self, user: Path, seed: int) -> None:
        self.chance = Random(seed)
        self.now = time.time() - 40 * DAY
        self.user = user
        self.homes = [user / ".holdfast", *(user / f"home{n}" for n in range(1, HOMES))]
        self.must: dict[Path, set[str]] = {home: set() for home in self.homes}
        self.open: dict[Path, set[str]] = {home: set() for home in self.homes}
        self.made: dict[Path, dict[str, float]] = {home: {} for home in self.homes}
        for home in self.homes:
            home.mkdir(parents=True)
            (home / "operations").mkdir()
            (home / "config.toml").write_text("trash_days = 3\n")
        listed = ", ".join(f"'{each}'" for each in self.homes[1:])
        self.homes[0].joinpath("config.toml").write_text(
            f"trash_days = 3\nhomes = [{listed}]\n{CONFIG}"
        )

    def clock(self) -> float:
        return self.now

    def work(self) -> None:
        """A day: sessions begin, end, are pinned; some stay open."""
        for rank, home in enumerate(self.homes):
            with open_sessions(home, clock=self.clock) as store:
                for each in [*self.open[home]]:
                    if self.chance.random() < 0.5:
                        store.end(each)
                        self.made[home][each] = self.now  # that is its last activity
                        self.open[home].discard(each)
                for number in range(self.chance.randrange(1, 2 + rank)):
                    session = store.create(source="cli", id=f"{int(self.now)}-{rank}-{number}")
                    size = self.chance.randrange(500, 1_000 + 13_000 * rank)
                    text = self.chance.randbytes(size).hex()
                    store.append(session.id, holdfast.Message(role="user", content=text))
                    self.made[home][session.id] = self.now
                    if self.chance.random() < 0.1:
                        store.pin(session.id)
                        self.must[home].add(session.id)
                    if self.chance.random() < 0.2:
                        self.open[home].add(session.id)
                    else:
                        store.end(session.id)

    def look_after(self) -> None:
        machine = Machine(self.user, environ={}, clock=self.clock)
        made = round_of(
            machine,
            self.homes,
            lambda result: str(result.errors),
            progress=Calm(),
            clock=self.clock,
        )
        assert not any(each.failed for each in made.homes), made
        assert not any("failed" in line for line in made.more), made

    def judge(self) -> int:
        """What is there is what must be; how many bytes the homes take."""
        with Machine(self.user, environ={}, clock=self.clock) as machine:
            plan = machine.plan_budget()
        assert plan.limit is not None
        held = [s for each in plan.homes for s in each.plan.shortfalls]
        # These homes are so small that free pages of a database and journals are a share of them.
        assert plan.bytes <= plan.limit + NOISE or held, (
            "within the budget, or a reason",
            plan.bytes,
            [(each.home, each.plan.bytes, len(each.plan.removals)) for each in plan.homes],
        )
        for home in self.homes:
            with holdfast.open(home, clock=self.clock) as opened:
                there = {each.id for each in opened.sessions.find()}
                log = opened.log.read()
                in_trash = {each.removal.item.session for each in log.trash}
                ours = [each for each in log.operations if each.command == MAINTAIN]
                taken = sum(each.removed - each.emptied for each in ours)
            must = self.must[home] | self.open[home]
            assert must <= there, "pinned and open sessions never go"
            gone = self.made[home].keys() - there
            assert len(gone) == taken, "what went is in the log"
            if gone - in_trash and there - must:
                oldest_there = min(self.made[home][each] for each in there - must)
                assert all(self.made[home][each] <= oldest_there for each in gone - in_trash), (
                    "the oldest go first"
                )
            if gone:
                assert there, "a home is never emptied"
        return plan.bytes


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
def test_a_month(tmp_path: Path, seed: int) -> None:
    month = Month(tmp_path, seed)
    sizes = []
    for _ in range(30):
        month.work()
        month.now += DAY / 2
        month.look_after()
        sizes.append(month.judge())
        month.now += DAY / 2
        tally.injected()
        tally.verified()
    assert max(sizes) > 0.5 * LIMIT * MEGABYTE, "or nothing was at stake"
    small = month.homes[0]
    with holdfast.open(small, clock=month.clock) as home:
        assert len(list(home.sessions.find())) == len(month.made[small]), "what is small stays"


def test_three_days(tmp_path: Path) -> None:
    """The same, short: in the quick suite."""
    month = Month(tmp_path, 7)
    for _ in range(2):
        month.work()
        month.now += DAY / 2
        month.look_after()
        month.judge()
        month.now += DAY / 2

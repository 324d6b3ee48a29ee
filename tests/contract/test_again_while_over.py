"""Plan and apply again while a cap is exceeded: as often as needed, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.homes.registry import open_home
from holdfast.model.item import TRANSCRIPT, Item
from holdfast.model.plan import Plan
from holdfast.policy.by_name import plan_all
from holdfast.ports.home import Home
from holdfast.services.bounds import ROUNDS, bound
from holdfast.spine.carry_out import Silent
from tests.builders import NOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    plan: Plan
    over: bool


class Stopped(Silent):
    def stop_requested(self) -> bool:
        return True


def opened(folder: Path) -> Home:
    (folder / "sessions").mkdir()
    return open_home(folder, clock=lambda: NOW)


def planned(home: Path, *, over: bool, removes: bool) -> Planned:
    """A plan to remove a file that is gone already: applied all the same, and in the log."""
    gone = Item(kind=TRANSCRIPT, id="sessions/a.jsonl", bytes=1, last_active_at=0.0, version="v1")
    items = (gone,) if removes else ()
    plan = plan_all(items, str(home), NOW, command="maintain", reason="over the cap of 1 B")
    return Planned(plan=plan, over=over)


OVER, WITHIN = True, False


@pytest.mark.parametrize(
    ("rounds", "made", "applied"),
    [
        ([(WITHIN, True)], 1, 1),
        ([(WITHIN, False)], 1, 0),
        ([(OVER, True), (WITHIN, True)], 2, 1),
        ([(OVER, True), (OVER, False)], 2, 1),
        ([(OVER, True), (OVER, True), (WITHIN, False)], 3, 2),
        ([(OVER, True)] * (ROUNDS + 1), ROUNDS, ROUNDS),
    ],
)
def test_it_ends_when_the_cap_is_reached_or_nothing_more_can_go(
    tmp_path: Path, rounds: Sequence[tuple[bool, bool]], made: int, applied: int
) -> None:
    home = opened(tmp_path)
    coming = [planned(tmp_path, over=over, removes=removes) for over, removes in rounds]
    left = iter(coming)
    reports, last = bound(home, lambda: next(left), clock=lambda: NOW, progress=Silent())
    assert len(coming) - len(list(left)) == made
    assert last is coming[made - 1]
    assert len(reports) == len(home.log.read().operations) == applied


def test_it_ends_when_the_host_wants_to_stop(tmp_path: Path) -> None:
    home = opened(tmp_path)
    over = planned(tmp_path, over=True, removes=True)
    reports, _ = bound(home, lambda: over, clock=lambda: NOW, progress=Stopped())
    assert len(reports) == 1

"""Plan and apply again while a cap is exceeded: as often as needed, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.config.reader import load
from holdfast.homes.registry import open_home
from holdfast.model.item import TRANSCRIPT, Inventory, Item
from holdfast.model.maintenance import Step
from holdfast.policy.plan_by_name import plan_all
from holdfast.policy.rules import Caps, Limits, Policy
from holdfast.ports.home import Home
from holdfast.services import maintain as maintenance
from holdfast.services.apply_until_within_caps import ROUNDS, Round, bound
from holdfast.services.maintenance_steps import StepPlan
from holdfast.spine.carry_out import Silent
from tests.builders import NOW


class Stopped(Silent):
    def stop_requested(self) -> bool:
        return True


def opened(folder: Path) -> Home:
    (folder / "sessions").mkdir()
    return open_home(folder, clock=lambda: NOW)


def planned(home: Path, *, over: bool, removes: bool) -> Round:
    """A plan to remove a file that is gone already: applied all the same, and in the log."""
    gone = Item(kind=TRANSCRIPT, id="sessions/a.jsonl", bytes=1, last_active_at=0.0, version="v1")
    items = (gone,) if removes else ()
    plan = plan_all(items, str(home), NOW, command="maintain", reason="over the cap of 1 B")
    return Round(plan=plan, over=over)


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


@pytest.mark.parametrize(("cap", "made"), [(1, ROUNDS), (3, 1)], ids=["over", "within"])
def test_maintenance_plans_a_step_again_while_its_cap_is_exceeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: int, made: int
) -> None:
    home, steps = opened(tmp_path), []
    kept = Item(kind=TRANSCRIPT, id="sessions/b.jsonl", bytes=2, last_active_at=0.0, version="v1")

    def plan_step(step: Step, *_: object, **__: object) -> StepPlan:
        steps.append(step)
        return StepPlan(
            step=step,
            plan=planned(tmp_path, over=True, removes=True).plan,
            inventory=Inventory(home=str(tmp_path), items=(kept,)),
            caps=Policy(everywhere=Limits(caps=Caps(max_bytes=cap))),
        )

    monkeypatch.setattr(maintenance, "plan_step", plan_step)
    result = maintenance.maintain(
        home, load(None, {}), gate=home.maintenance_gate, clock=lambda: NOW
    )
    assert not result.errors
    assert steps.count(Step.UPKEEP) == made

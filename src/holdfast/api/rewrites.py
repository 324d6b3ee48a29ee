"""Changes to files of other programs, as a plan: shown, applied, undone like everything else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.api.place import Place
from holdfast.api.plan import HomePlan
from holdfast.model.item import SETTING
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.model.rewrite import Rewrite


def plan_rewrites(
    place: Place, rewrites: Sequence[Rewrite], *, source: str, reason: str, name: str
) -> HomePlan:
    """A plan of these changes. `source` is the agent whose files they are."""
    plan = rewrite_plan(place, place.home.root, rewrites, source=source, reason=reason, name=name)
    return HomePlan(place=place, home=place.home, plan=plan)


def rewrite_plan(
    place: Place, root: Path, rewrites: Sequence[Rewrite], *, source: str, reason: str, name: str
) -> Plan:
    """The same to look at, for a home that may not be there yet."""
    now = place.clock()
    return Plan(
        home=str(root),
        command=place.command(name),
        made_at=now,
        items=tuple(
            PlanItem(
                kind=SETTING,
                id=each.path,
                source=source,
                bytes=0,
                last_active_at=now,
                version=each.before,
                action=Action.REWRITE,
                reason=reason,
                undoable=True,
                target=each.target(),
            )
            for each in rewrites
            if not each.nothing
        ),
    )

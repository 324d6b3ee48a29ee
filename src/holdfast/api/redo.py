"""Doing an undone operation again."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.api.place import Place
from holdfast.api.plan import HomePlan, HomeReport
from holdfast.model.item import PROJECT
from holdfast.model.operation import Operation
from holdfast.ports import Progress
from holdfast.spine import redo
from holdfast.spine.undo import Foreseen
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RedoPlan:
    """What doing an operation again would do. `command` is what was asked for at first. `foreseen`
    says what it would do to the files of projects that it restores, by the id of each project."""

    operation: Operation
    command: str
    planned: HomePlan
    foreseen: Mapping[str, Foreseen]

    def apply(self, *, progress: Progress | None = None) -> HomeReport:
        """Do exactly this again. What changed since is skipped and reported."""
        return self.planned.apply(progress=progress)


def plan_redo(place: Place, operation: str | None) -> RedoPlan:
    target, plan = redo.plan_redo(place.home, operation, now=place.clock())
    names = {}
    if any(each.kind != PROJECT for each in plan.items) and place.home.has_checkpoints():
        store = place.home.checkpoint_store()
        names = {each.id: each.workdir for each in store.projects()} if store else {}
    return RedoPlan(
        operation=target,
        command=redo.first_command(place.home.log.read(), target),
        planned=HomePlan(place=place, home=place.home, plan=plan, names=names),
        foreseen=redo.foresee(place.home, plan),
    )

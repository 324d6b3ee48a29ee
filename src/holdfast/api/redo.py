"""Redo: do an undone operation again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.api.place import Place
from holdfast.api.plan import HomePlan, HomeReport
from holdfast.model.argument_checks import checked
from holdfast.model.item import PROJECT
from holdfast.model.operation import Operation
from holdfast.model.plan import PlanItem, fingerprint
from holdfast.model.session import SessionFilter
from holdfast.ports.runs import Progress
from holdfast.spine import redo
from holdfast.spine.undo import Foreseen
from holdfast.stores.files import same_content
from holdfast.value import dataclass, replace


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RedoPlan:
    """What a redo would do. `command` is the original command. `foreseen` is what the redo would do
    to the files of the projects that it restores, by project id."""

    operation: Operation
    command: str
    planned: HomePlan
    foreseen: Mapping[str, Foreseen]

    @property
    def fingerprint(self) -> str:
        """Equal for plans that would do the same, to the same files."""
        files = [(key, each.seen) for key, each in self.foreseen.items()]
        return fingerprint(self.planned.fingerprint, files)

    def apply(self, *, progress: Progress | None = None) -> HomeReport:
        """Do exactly this again. Items that changed since are skipped and reported."""
        return self.planned.apply(progress=progress)


def plan_redo(place: Place, operation: str | None) -> RedoPlan:
    target, plan = redo.plan_redo(place.home, operation, now=place.clock())
    plan = replace(plan, items=_with_files_as_they_are(place, plan.items))
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


def _with_files_as_they_are(place: Place, items: Sequence[PlanItem]) -> tuple[PlanItem, ...]:
    """Update the versions of files. A file that was restored from a bundle is a new file with the
    same content, so it gets its current version. If its content changed since, it keeps its old
    version in the plan, and is therefore left alone."""
    owners = {each.goes_with for each in items if each.goes_with and not each.undoable}
    if not owners:
        return tuple(items)
    seen = place.home.scan(place.clock(), wanted=SessionFilter(ids=tuple(owners))).items
    now = {(each.kind, each.id): each.version for each in seen}

    def as_it_is(item: PlanItem) -> PlanItem:
        version = now.get((item.kind, item.id), "")
        back = item.goes_with in owners and same_content(version, item.version)
        return replace(item, version=version) if back else item

    return tuple(map(as_it_is, items))

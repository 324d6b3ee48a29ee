"""Carry out a plan. This is the only way anything is removed from a home.

It knows no policy: an item that changed since the plan was made is skipped, never judged again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from holdfast.errors import CannotUndoError, PlanFileError, UsageError
from holdfast.model.arguments import instance
from holdfast.model.item import SPACE
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.model.report import Outcome, Report, Result
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Doer, Progress
from holdfast.spine.carry_out import Silent, carry_out
from holdfast.spine.empty_trash import make_room
from holdfast.spine.outcomes import ALREADY_GONE, OWNER_GONE
from holdfast.spine.settle import Settled, settle, settle_if_needed
from holdfast.value import dataclass, field, replace

#: Settling results that mean the item is still in the home.
_HERE = (Result.SKIPPED, Result.BROUGHT_BACK)


def apply(plan: Plan, home: Home, *, clock: Clock, progress: Progress | None = None) -> Report:
    """Do what the plan says. For an empty plan, only settle what a killed run left."""
    instance(plan, Plan, "A plan")
    if not hasattr(home, "doer"):
        raise UsageError(
            f"A plan is applied to a home that `holdfast.open` opened, not to {home!r}."
        )
    if plan.home != str(home.root):
        raise PlanFileError(
            f"This plan was made for {plan.home}, not for {home.root}.",
            hint=f"Pick its home with --home {plan.home}, or make a new plan.",
        )
    steps = plan.steps
    if not steps:
        settled = settle_if_needed(home, clock=clock)
        redone = _still_to_redo(home, plan, settled)[1] if plan.redoes else None
        return _with_settled(redone or Report(operation=None), plan, settled)
    with home.log.writing(plan.command) as log:
        settled = settle(log, home, clock=clock)
        if plan.redoes:
            steps, redone = _still_to_redo(home, plan, settled)
            if redone is not None:
                return replace(redone, settled=tuple(settled))
        coming = _coming(home, steps)
        emptied = make_room(home, steps)
        with log.begin(
            action=OperationAction.REMOVE,
            command=plan.command,
            at=clock(),
            redoes=plan.redoes or None,
        ) as journal:
            together = {}
            for (kind, action), items in coming.items():
                if at_once := home.doer(kind, action).prepare(items):
                    together[kind, action] = at_once
            report = carry_out(
                journal,
                (
                    Removal(operation=journal.operation, number=number, item=item)
                    for number, item in enumerate(steps)
                ),
                _Removing(emptied=emptied).act,
                home,
                label="archiving" if Action.ARCHIVE in {i.action for i in steps} else "removing",
                clock=clock,
                progress=progress or Silent(),
                removing=together,
            )
            return _with_settled(report, plan, settled)


def _still_to_redo(
    home: Home, plan: Plan, settled: Settled
) -> tuple[tuple[PlanItem, ...], Report | None]:
    """Return the steps that still have to be redone, and a report if there are none.

    Another redo of the same operation may have done a part of them: one that was killed and has
    just been settled, or one that was still running when this plan was made. If a killed redo left
    nothing to do, its report is returned: repeating it would only add a second operation to undo.
    """
    view = home.log.read()
    redoes = [each for each in view.operations if each.redoes == plan.redoes]
    mine = [each.id for each in redoes if each.id in settled]
    since = [each.id for each in redoes if (each.finished_at or 0.0) > plan.made_at]
    if not mine and not since:
        return plan.steps, None
    undone = [each.item for each in view.undone if each.operation == plan.redoes]
    left = {(each.kind, each.id, each.target) for each in undone}
    steps = tuple(each for each in plan.steps if (each.kind, each.id, each.target) in left)
    if steps:
        return steps, None
    if not mine:
        raise CannotUndoError(
            f"Operation {plan.redoes} was already redone, by operation {since[-1]}."
        )
    return (), Report(operation=mine[-1], outcomes=tuple(settled[mine[-1]]))


def _with_settled(report: Report, plan: Plan, settled: Settled) -> Report:
    """Add what settling did. Items that it brought back and this plan does not contain have to wait
    for the next plan."""
    if not settled:
        return report
    seen = {each.id for each in plan.items}
    here = {
        operation: {each.id for each in outcomes if each.result in _HERE and each.kind != SPACE}
        for operation, outcomes in settled.items()
    }
    back = tuple(operation for operation, ids in here.items() if not seen.issuperset(ids))
    return replace(report, settled=tuple(settled), back=back)


def _coming(
    home: Home, steps: Sequence[PlanItem]
) -> Mapping[tuple[str, Action], Sequence[PlanItem]]:
    """Return the items for each doer. A home that cannot be changed raises here, before an
    operation is begun that would stay unfinished."""
    coming: dict[tuple[str, Action], list[PlanItem]] = defaultdict(list)
    for item in steps:
        coming[item.kind, item.action].append(item)
    for kind, action in coming:
        home.doer(kind, action)
    return coming


@dataclass(slots=True)
class _Removing:
    """Removes items and remembers which ones stayed: a file whose session stays must stay with it.
    `emptied`: bytes freed per item by emptying trash to make room for the log."""

    emptied: Mapping[str, int]
    #: Reason by item id, for items that were not removed.
    stayed: dict[str, str] = field(default_factory=dict)

    def act(self, doer: Doer, batch: Sequence[Removal]) -> Sequence[Outcome]:
        going = [each for each in batch if each.item.goes_with not in self.stayed]
        done = iter(doer.do(going) if going else ())
        outcomes = [
            each.end(Result.SKIPPED, OWNER_GONE if why == ALREADY_GONE else "its session stays")
            if (why := self.stayed.get(each.item.goes_with)) is not None
            else next(done)
            for each in batch
        ]
        outcomes = [
            replace(each, bytes_freed=self.emptied[each.id], reason="")
            if each.id in self.emptied
            else each
            for each in outcomes
        ]
        self.stayed.update(
            (each.id, each.reason) for each in outcomes if each.result is not Result.REMOVED
        )
        return outcomes

"""Plans for several homes, made and applied together: one run, recorded in each home's log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from holdfast.api.disks import most_room_first
from holdfast.api.home import Home
from holdfast.api.plan import HomePlan, HomeReport, expect_same
from holdfast.api.redo import RedoPlan
from holdfast.api.undo import UndoPlan
from holdfast.errors import EmptyPolicyError, HoldfastError, UsageError
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import shown
from holdfast.model.operation import Operation, one_run
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome, UnreadHome
    from holdfast.api.arguments import OperationRef
    from holdfast.api.machine import Machine
    from holdfast.api.place import Place
    from holdfast.ports.runs import Progress

_PlanOfHome = TypeVar("_PlanOfHome", bound=HomePlan | UndoPlan | RedoPlan)
UndoOrRedo: TypeAlias = UndoPlan | RedoPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneInHome:
    """The report of one home, or the error that prevented it."""

    home: AgentHome
    report: HomeReport | None = None
    error: HoldfastError | None = None


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachinePlan(Generic[_PlanOfHome]):
    """What a call would do in several homes. Nothing is done before `apply`. `unread` are homes for
    which there is no plan, because they cannot be read."""

    plans: Sequence[tuple[AgentHome, _PlanOfHome]]
    unread: Sequence[UnreadHome] = ()

    def expect_same(
        self,
        agreed: Mapping[str, str],
        name: Callable[[AgentHome, _PlanOfHome], str] = lambda home, _: home.name,
    ) -> None:
        """Raise `StalePlanError` unless these are the fingerprints of all plans, by `name`. A home
        that appeared or disappeared since is a change, too."""
        now = {name(home, each): each.fingerprint for home, each in self.plans}
        expect_same(repr(sorted(agreed.items())), repr(sorted(now.items())))

    def expect_room(self, hint: str | None = None) -> None:
        """Call `HomePlan.expect_room` for every home, before anything is done in any of them."""
        for _, each in self.plans:
            if isinstance(each, HomePlan):
                each.expect_room(hint)

    def apply(self, *, progress: Progress | None = None) -> Sequence[DoneInHome]:
        """Apply the plans one after another, as one run, until `progress` asks to stop. An error in
        one home is part of the result and does not affect the others. The plan that frees most for
        the shortest log comes first; plans that do nothing are skipped."""
        with one_run(joint=len(self.plans) > 1):
            return [
                _applied(home, each, progress)
                for home, each in self._in_order()
                if progress is None or not progress.stop_requested()
            ]

    def _in_order(self) -> Iterable[tuple[AgentHome, HomePlan | UndoPlan | RedoPlan]]:
        removals = [(home, each) for home, each in self.plans if isinstance(each, HomePlan)]
        yield from (pair for pair in most_room_first(removals) if pair[1].plan.steps)
        yield from (pair for pair in self.plans if not isinstance(pair[1], HomePlan))


def _applied(
    home: AgentHome, planned: HomePlan | UndoPlan | RedoPlan, progress: Progress | None
) -> DoneInHome:
    try:
        if isinstance(planned, HomePlan):
            planned.expect_room()
        return DoneInHome(home=home, report=planned.apply(progress=progress))
    except HoldfastError as error:
        return DoneInHome(home=home, error=error)


def plan_in(
    machine: Machine,
    make: Callable[[Home], HomePlan],
    homes: Collection[AgentHome] | None,
) -> MachinePlan[HomePlan]:
    """See `Machine.plan`."""
    if homes is not None:
        return MachinePlan(plans=[(each, make(machine.open(each))) for each in homes])
    unruled: list[EmptyPolicyError] = []

    def one(place: Place) -> HomePlan | None:
        try:
            return make(Home(place))
        except EmptyPolicyError as error:
            unruled.append(error)
            return None

    looked = machine.look(one)
    plans = [(home, planned) for home, planned in looked.seen if planned is not None]
    if unruled and not plans:
        raise unruled[0]
    return MachinePlan(plans=plans, unread=looked.unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationOfRun:
    """What a run did in one home, and whether it can be undone or redone now."""

    home: AgentHome
    operation: Operation
    can_undo: bool
    can_redo: bool

    def can(self, verb: str) -> bool:
        """True if "undo", or "redo", is possible."""
        return self.can_redo if verb == "redo" else self.can_undo


def operations_of_run(machine: Machine, run: str) -> Sequence[OperationOfRun]:
    """See `Machine.operations_of_run`."""
    return [
        OperationOfRun(
            home=home, operation=each, can_undo=each.can_undo, can_redo=each.id in log.redoable
        )
        for home, log in machine.logs().seen
        for each in log.operations
        if each.run == run
    ]


def plan_run(machine: Machine, run: str, verb: str) -> MachinePlan[UndoOrRedo]:
    """See `Machine.plan_run`."""
    if verb not in ("undo", "redo"):
        raise UsageError(f'`verb` must be "undo" or "redo", not {verb!r}.')
    operations = operations_of_run(machine, run)
    if not operations:
        raise UsageError(
            f"No home has run {run!r} in its log.", hint="`holdfast log` lists what was done."
        )
    plans: list[tuple[AgentHome, UndoOrRedo]] = []
    for each in operations:
        if each.can(verb):
            with suppress(HoldfastError):
                home, number = machine.open(each.home), each.operation.id
                made = home.plan_redo(number) if verb == "redo" else home.plan_undo(number)
                plans.append((each.home, made))
    return MachinePlan(plans=plans)


def undo_each(
    machine: Machine,
    operations: Iterable[tuple[AgentHome, OperationRef]],
    progress: Progress | None,
) -> Sequence[DoneInHome]:
    """See `Machine.undo_each`."""
    done: list[DoneInHome] = []
    chosen = [*operations]
    for each in chosen:
        match each:
            case (_, _):
                continue
        raise UsageError(f"`operations` must be pairs of a home and a number, not {shown(each)}.")
    with one_run():
        for home, operation in chosen:
            try:
                report = machine.open(home).undo(operation, progress=progress)
                done.append(DoneInHome(home=home, report=report))
            except HoldfastError as error:
                done.append(DoneInHome(home=home, error=error))
    return done

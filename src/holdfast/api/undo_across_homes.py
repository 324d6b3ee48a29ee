"""Undo and redo over all homes: find what one run did in each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.api.trash import Log
from holdfast.errors import DamageError
from holdfast.model.operation import UNASKED
from holdfast.spine.redo import expect_undos
from holdfast.spine.undo import expect_whole
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine
    from holdfast.model.operation import LogView

_HINT = "Pick a home with `--home` to undo or redo there. `holdfast doctor` says what is damaged."


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInHome:
    """An operation of one home that can be undone, or redone. `run` is the run over several homes
    that did it (to undo it) or undid it (to redo it), and `at` is when."""

    operation: str
    command: str
    run: str | None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAcrossHomes:
    """The latest operation that one run did in each home. `run` is the name of the run; without
    one, they are the latest operations of their homes, and may be unrelated. `of_home` has the
    homes that have an operation."""

    run: str | None
    of_home: Mapping[AgentHome, StepInHome]

    @property
    def latest(self) -> StepInHome | None:
        return max(self.of_home.values(), key=lambda each: each.at, default=None)


def to_undo(machine: Machine) -> RunAcrossHomes:
    """Find what the latest run over several homes did, or else the latest operation of each home.
    What agents did on their own is left out. Raises `DamageError` if the record of a later
    operation is damaged in one of the homes."""

    def steps_of(log: LogView) -> Sequence[StepInHome]:
        asked = [each for each in log.operations if each.to_undo and each.command not in UNASKED]
        latest = asked[-1] if asked else None
        expect_whole(log, latest, latest, verb="undo")
        return [
            StepInHome(operation=each.id, command=each.command, run=each.run, at=each.started_at)
            for each in asked
        ]

    return _latest(machine, steps_of)


def to_redo(machine: Machine) -> RunAcrossHomes:
    """Find what the latest undo over several homes undid, or else the latest undo of each home.
    Raises the same errors as `to_undo`."""
    return _latest(
        machine,
        lambda log: [
            StepInHome(
                operation=target.id, command=target.command, run=undo.run, at=undo.started_at
            )
            for undo, target in expect_undos(log)
        ],
    )


def _latest(
    machine: Machine, steps_of: Callable[[LogView], Sequence[StepInHome]]
) -> RunAcrossHomes:
    """`steps_of` lists the steps of a home, the latest last. A home that cannot be read has
    none."""
    looked = machine.look(lambda place: _asked(steps_of, Log(place).read()))
    for home, (_, damage) in looked.seen:
        if damage is not None:
            raise DamageError(f"{home.label}: {damage.message}", hint=_HINT)
    seen = [(home, steps) for home, (steps, _) in looked.seen]
    runs = [each for _, steps in seen for each in steps if each.run]
    run = max(runs, key=lambda each: each.at).run if runs else None
    mine = {home: [s for s in steps if run is None or s.run == run] for home, steps in seen}
    return RunAcrossHomes(
        run=run, of_home={home: steps[-1] for home, steps in mine.items() if steps}
    )


def _asked(
    steps_of: Callable[[LogView], Sequence[StepInHome]], log: LogView
) -> tuple[Sequence[StepInHome], DamageError | None]:
    """Return the steps of a home, or the error because of which the latest step is unknown."""
    try:
        return steps_of(log), None
    except DamageError as error:
        return (), error

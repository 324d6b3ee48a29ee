"""The check-up of a home, and the repair of what it found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from holdfast.model.checkup import Finding, Repair, Severity
from holdfast.model.item import ARCHIVED
from holdfast.model.text import format_count
from holdfast.ports import Clock, Home, Progress
from holdfast.spine.settle import settle
from holdfast.value import dataclass

COMMAND = "doctor --repair"


class Checkup(Protocol):
    """What a home knows about its own health."""

    def look(self, progress: Progress) -> Iterator[Finding]:
        """One finding for each check. Creates and changes nothing."""

    def mend(
        self, findings: Sequence[Finding], *, now: float, progress: Progress
    ) -> Iterator[Repair]:
        """Repair what the findings say can be repaired, after a backup."""


@runtime_checkable
class CheckedHome(Protocol):
    """A home that has a check-up."""

    def checkup(self) -> Checkup: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything that one check-up found."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no damage; there may be warnings."""
        return all(finding.severity is not Severity.DAMAGE for finding in self.findings)

    @property
    def repairable(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.repairable)

    def to_json(self) -> dict[str, Any]:
        return {"findings": [each.to_json() for each in self.findings], "ok": self.ok}


def examine(home: CheckedHome, *, progress: Progress) -> Diagnosis:
    return Diagnosis(findings=tuple(home.checkup().look(progress)))


def mend(home: Home, found: Diagnosis, *, clock: Clock, progress: Progress) -> Repair:
    """Repair what was found, holding the home's lock; then settle what a killed run left open."""
    if not isinstance(home, CheckedHome):
        raise TypeError(f"a home of kind {home.kind} has no check-up")
    with home.log.writing(COMMAND) as log:
        done = list(home.checkup().mend(found.repairable, now=clock(), progress=progress))
        settled = settle(log, home, clock=clock)
        left = home.archive.leftovers()
        if left:
            home.doer(ARCHIVED).prepare(())
            taken = len(left) - len(home.archive.leftovers())
            step = f"took {format_count(taken, 'file')} of earlier versions into the archive"
            done.append(Repair(steps=(step,)))
    if settled:
        done.append(Repair(steps=(f"settled operation {', '.join(settled)}",)))
    return Repair(
        backup=next((each.backup for each in done if each.backup), None),
        steps=tuple(step for each in done for step in each.steps),
        losses=tuple(loss for each in done for loss in each.losses),
    )

"""The check-up of a home, and the repair of what it found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.model.checkup import Finding, HookReport, Repair, Severity
from holdfast.model.item import ARCHIVED
from holdfast.model.json_value import fields_to_json
from holdfast.model.operation import Removal
from holdfast.model.report import Outcome
from holdfast.model.text import format_bytes, format_count, format_duration
from holdfast.policy.growth import growth
from holdfast.policy.rules import DAY
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Progress
from holdfast.spine.empty_trash import to_give_back
from holdfast.spine.settle import settle
from holdfast.value import dataclass

COMMAND = "doctor --repair"
#: Maintenance should run every day, but a machine may be off over a weekend.
_STALE = 3 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of a check-up. `hooks` are the agents connected to the home."""

    findings: tuple[Finding, ...]
    hooks: tuple[HookReport, ...] = ()

    @property
    def ok(self) -> bool:
        """True if nothing is damaged or broken; there may be warnings."""
        severities = {finding.severity for finding in self.findings}
        return not severities & {Severity.DAMAGE, Severity.BROKEN}

    @property
    def damaged(self) -> bool:
        return any(finding.severity is Severity.DAMAGE for finding in self.findings)

    @property
    def repairable(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.repairable)

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self, "ok")


def examine(home: Home, *, progress: Progress) -> Diagnosis:
    return Diagnosis(findings=tuple(home.checkup().look(progress)))


def _give_back(home: Home) -> Iterator[Outcome]:
    for item in to_give_back(home):
        removal = Removal(operation="", number=0, item=item)
        yield from home.doer(item.kind, item.action).do([removal])


def neglected(home: Home, now: float) -> Iterator[Finding]:
    """Warn if maintenance used to run but no longer does: easy to miss, because nothing fails."""
    latest = growth(home.figures.read(), now).latest
    if latest is None:
        return
    # A watcher records figures, too; without one the figures are as old as the maintenance.
    at = latest.at if latest.maintained_at is None else latest.maintained_at
    if now - at > _STALE:
        as_old = ", so the trend in `holdfast status` and the metrics are just as old"
        yield Finding(
            check="maintenance",
            severity=Severity.WARNING,
            message=f"this home has had no maintenance for {format_duration(now - at)}"
            + (as_old if now - latest.at > _STALE else ""),
            advice="`holdfast maintain --force` runs it now. The documentation shows, under "
            "Maintenance, how to have the system run it every day.",
        )


def mend(home: Home, found: Diagnosis, *, clock: Clock, progress: Progress) -> Repair:
    """Repair what was found, holding the home's lock; then settle what a killed run left open."""
    checkup = home.checkup()
    done = list(checkup.give_access(found.repairable))
    with home.log.writing(COMMAND) as log:
        done += checkup.mend(found.repairable, now=clock(), progress=progress)
        settled = settle(log, home, clock=clock)
        left = home.archive.leftovers()
        if left:
            home.doer(ARCHIVED).prepare(())
            taken = len(left) - len(home.archive.leftovers())
            step = f"moved {format_count(taken, 'file')} of earlier versions into the archive"
            done.append(Repair(steps=(step,)))
        # Done even if the check-up did not find it: a store that was damaged until now could not
        # report it.
        freed = sum(each.bytes_freed for each in _give_back(home)) if home.owed() else 0
    if settled:
        done.append(Repair(steps=(f"settled operation {', '.join(settled)}",)))
    if freed:
        done.append(Repair(steps=(f"gave back {format_bytes(freed)} of unused space",)))
    return Repair(
        backup=next((each.backup for each in done if each.backup), None),
        steps=tuple(step for each in done for step in each.steps),
        losses=tuple(loss for each in done for loss in each.losses),
    )

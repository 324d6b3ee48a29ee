"""Plans and reports as the page shows them, with the words and figures of the command line."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.api.plan import why_stays
from holdfast.errors import UsageError
from holdfast.model.item import REQUEST_DUMP, SESSION, TRANSCRIPT
from holdfast.model.plan import Action, PlanItem
from holdfast.model.plan_words import (
    for_good,
    freed_words,
    gone_for_good,
    grouped,
    is_archiving,
    kind_name,
    log_ahead,
    shortfall_words,
    shown_name,
    what_undo_can,
    why_kept,
)
from holdfast.model.report import Outcome, Report, Result, archived, archived_words
from holdfast.model.text import format_bytes
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.plan import HomePlan
    from holdfast.model.plan import Plan
    from holdfast.web.site import Form

#: Kinds with a source that a policy can have rules for.
_OF_SESSIONS = (SESSION, TRANSCRIPT, REQUEST_DUMP)
_MOST_GROUPS = 12
_MOST_ITEMS = 50
_FEW = 5
_MOST_REASONS = 20
_BY_CAP = (
    "A size cap does not use the trash, because the trash counts towards the cap. Choose “Always” "
    "below “Use the trash” to move what the cap removes there too."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Items that go, or stay, for the same reason. `share` is their part of all bytes, 0 to 1."""

    count: int
    bytes: int
    why: str
    kind: str = ""
    source: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What a plan does. `to_trash` and `for_good` are the bytes that can be brought back and those
    that cannot, `unused` the space that is reclaimed in addition. `undo` is what an undo can do,
    `warning` what it cannot, "" if it can do everything. `agree` is the fingerprint."""

    home: str
    agree: str
    verb: str
    count: int
    bytes: int
    to_trash: int
    for_good: int
    for_good_count: int
    unused: int
    ends: int
    goes: Sequence[Group]
    stays: Sequence[Group]
    stay_count: int
    stay_bytes: int
    items: Sequence[PlanItem]
    hidden: int
    undo: str
    warning: str
    notes: Sequence[str]
    problems: Sequence[str]
    sources: Sequence[str]
    read_only: bool
    #: Some sessions that stay, each with the reason.
    refused: Sequence[tuple[str, str]] = ()

    @property
    def does_nothing(self) -> bool:
        return not (self.count or self.ends or self.unused)


def view_plan(planned: HomePlan) -> PlanView:
    """What the page needs of a plan; nothing in it keeps the home open."""
    plan = planned.plan
    removals, kept = plan.removals, plan.kept
    final = gone_for_good(removals)
    largest = sorted(removals, key=lambda item: (-item.bytes, item.id))[:_MOST_ITEMS]
    gone = sum(item.bytes for item in final)
    total = max(1, sum(item.bytes for item in (*removals, *kept)))
    names = planned.names
    return PlanView(
        home=plan.home,
        agree=plan.fingerprint,
        verb="Archive" if is_archiving(plan) else "Remove",
        count=len(removals),
        bytes=plan.bytes,
        to_trash=plan.bytes - gone,
        for_good=gone,
        for_good_count=len(final),
        unused=sum(item.bytes for item in plan.steps if item.action is Action.RECLAIM),
        ends=len(plan.ends),
        goes=_groups(
            removals,
            lambda i: (kind_name(i.kind), names.get(i.source, i.source), i.rule),
            total,
        ),
        stays=_groups(kept, lambda i: ("", "", why_kept(i)), total),
        stay_count=len(kept),
        stay_bytes=sum(item.bytes for item in kept),
        items=largest,
        hidden=len(removals) - len(largest),
        undo=what_undo_can(removals, "Undo") if removals else "",
        warning=for_good(removals),
        notes=_notes(planned),
        problems=[f"{each.path}: {each.reason}" for each in planned.problems],
        sources=sorted({each.source for each in plan.items if each.kind in _OF_SESSIONS}),
        read_only=planned.read_only and not plan.steps,
        refused=[(i.id, _why(i, plan.home)) for i in kept if i.kind == SESSION][:_FEW],
    )


def expect_known(form: Form, *planned: HomePlan) -> None:
    """Raise `UsageError` if something is removed permanently and the user has not confirmed
    that."""
    if not form.flag("for_good") and any(for_good(each.removals) for each in planned):
        raise UsageError(
            "Some of this cannot be undone, and you did not confirm that.",
            hint="Tick the confirmation box. Nothing was done.",
        )


def _why(item: PlanItem, home: str) -> str:
    """Why a session stays, with a command that helps, if there is one."""
    why, command = why_stays(item, f"--home {shlex.quote(home)} ")
    return f"{why}. End it: `{command}`" if command else f"{why}."


def _groups(
    items: Sequence[PlanItem], key: Callable[[PlanItem], tuple[str, str, str]], total: int
) -> Sequence[Group]:
    groups = grouped(items, key)
    shown = [
        _group(members, kind, source, why, total)
        for (kind, source, why), members in groups[:_MOST_GROUPS]
    ]
    rest = [item for _, members in groups[_MOST_GROUPS:] for item in members]
    return [*shown, _group(rest, "others", "", "", total)] if rest else shown


def _group(members: Sequence[PlanItem], kind: str, source: str, why: str, total: int) -> Group:
    size = sum(item.bytes for item in members)
    return Group(
        count=len(members), bytes=size, kind=kind, source=source, why=why, share=size / total
    )


def _notes(planned: HomePlan) -> Sequence[str]:
    notes = [shortfall_words(each) for each in planned.shortfalls]
    if any(each.gone_by_cap for each in planned.removals):
        notes.append(_BY_CAP)
    log = log_ahead(planned.plan)
    return [*notes, log] if log else notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons:
    """Outcomes with the same result and reason; `names` are the first few."""

    why: str
    count: int
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """The result of a run. `did` counts it in words; `can_undo` is true if there is anything to
    bring back."""

    operation: str | None
    did: str
    freed: str
    later: str
    warning: str
    skipped: Sequence[Reasons]
    failed: Sequence[Reasons]
    in_part: Sequence[Reasons]
    notes: Sequence[str]
    stopped: str | None
    can_undo: bool


def view_report(report: Report, plan: Plan | None = None) -> ReportView:
    alone, files = archived(report, plan)
    outcomes = report.outcomes
    projects = [o for o in outcomes if o.written or o.deleted]
    counts = (
        (alone, archived_words(alone, files)),
        (report.removed - alone - files, "removed"),
        (report.ended, "ended"),
        (report.changed, "changed"),
        (report.brought_back - len(projects), "brought back"),
        (sum(len(o.written) for o in projects), "written"),
        (sum(len(o.deleted) for o in projects), "deleted"),
        (report.skipped, "skipped"),
        (report.failed, "failed"),
    )
    gone = {(o.kind, o.id) for o in outcomes if o.result is Result.REMOVED}
    left = [item for item in plan.removals if (item.kind, item.id) in gone] if plan else []
    later = report.bytes_in_trash - report.bytes_of_rows
    done = (o for o in outcomes if o.result in (Result.REMOVED, Result.RECLAIMED))
    return ReportView(
        operation=report.operation,
        did=", ".join(f"{count:,} {word}" for count, word in counts if count),
        freed=freed_words([report], " now" if report.bytes_in_trash else "")
        if report.removed or report.bytes_freed
        else "",
        later=format_bytes(later) if later > 0 else "",
        warning=for_good(left),
        skipped=_reasons(outcomes, Result.SKIPPED),
        failed=_reasons(outcomes, Result.FAILED, Result.DAMAGED),
        in_part=_reasons((o for o in outcomes if o.reason), Result.BROUGHT_BACK),
        notes=[
            *(
                f"{reason[:1].upper()}{reason[1:]}."
                for reason in dict.fromkeys(o.reason for o in done if o.reason)
            ),
            *(_settled(each, back=each in report.back) for each in report.settled),
        ],
        stopped=report.stopped,
        can_undo=len(gone_for_good(left)) < len(left) or bool(report.ended or report.changed),
    )


def _settled(operation: str, *, back: bool) -> str:
    said = f"Operation {operation} was interrupted and has just been settled"
    left = "items that it had not finished are back in place. Make a new plan to include them."
    return f"{said}: {left}" if back else f"{said}."


def _reasons(outcomes: Iterable[Outcome], *results: Result) -> Sequence[Reasons]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for each in outcomes:
        if each.result in results:
            groups[each.reason].append(each)
    return [
        Reasons(why=why, count=len(members), names=[shown_name(each) for each in members[:_FEW]])
        for why, members in list(groups.items())[:_MOST_REASONS]
    ]

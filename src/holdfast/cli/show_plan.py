"""Plans and reports as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.cli.output import joined, name, say, say_rest, styled, suggest, table
from holdfast.cli.show_edits import plan_edits
from holdfast.model.item import SESSION
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.model.plan_words import (
    amount,
    for_good,
    freed_words,
    gone_for_good,
    grouped,
    is_archiving,
    kind_name,
    log_ahead,
    shortfall_words,
    shown_name,
    takes_some,
    why_kept,
)
from holdfast.model.report import Outcome, Report, Result, archived, archived_words, back_words
from holdfast.model.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from holdfast.cli.plain import Line

#: The size of an item on the disk. Lists show the size of the messages, which may be less, as in a
#: database with its indexes, or more, if they are compressed.
ON_DISK = "on disk"
_EXAMPLES = 5
_MOST_GROUPS = 8
_WORTH_A_LINE = 1024 * 1024
_BY_CAP = "A size cap does not use the trash, because the trash counts towards the cap."
_CAP_FLAG = " --use-trash moves what the cap removes to the trash."
_AS_THEY_ARE: Mapping[str, str] = MappingProxyType({})


def show_plan(
    plan: Plan,
    *,
    all_items: bool,
    sources: Mapping[str, str] = _AS_THEY_ARE,
    verb: str = "remove",
    asks: bool = False,
    takes_flags: bool = True,
    nothing: str = "",
) -> None:
    """Show what would be removed, grouped, with examples; what stays, by rule; which caps cannot be
    met.

    `sources` has display names for sources that people know by another name. `verb` is what the
    user asked for. If a question follows right after, the question says what cannot be undone.
    `nothing` is said of a plan without items. `takes_flags` is false for a command without the
    flags of a removal.
    """
    removals = plan.removals
    if removals:
        verb = "archives" if is_archiving(plan) else "removes"
        say(f"The plan {verb} {amount(removals)} on disk", "bold")
        say()
        _show_groups(removals, sources, all_items=all_items)
        say()
        show_items(removals, plan.made_at, all_items=all_items)
        if not asks and (warning := for_good(removals)):
            say(warning, "yellow")
        if any(each.gone_by_cap for each in removals):
            say(_BY_CAP + _CAP_FLAG * takes_flags, "yellow")
        if log := log_ahead(plan):
            say(log)
    elif not plan.ends and not plan.edits:
        say(nothing or f"Nothing to {verb}.")
    plan_edits(plan.edits)
    _show_ends(plan.ends, all_items=all_items)
    if plan.kept:
        say()
        say(f"It keeps {amount(plan.kept)}", "bold")
        _show_rules(plan.kept)
        if all_items:
            say()
            show_items(plan.kept, plan.made_at, all_items=True)
    _show_others(plan)
    for shortfall in plan.shortfalls:
        say()
        say(shortfall_words(shortfall), "yellow")


def _show_others(plan: Plan) -> None:
    """Show what a run does besides removing."""
    space = [item for item in plan.steps if item.action is Action.RECLAIM]
    unused = sum(item.bytes for item in space)
    if unused >= _WORTH_A_LINE or (unused and not plan.removals):
        say()
        say(f"It frees {format_bytes(unused)} of unused space.")


def _show_ends(ended: Sequence[PlanItem], *, all_items: bool) -> None:
    """Show which sessions get an end, and why. Their files and messages stay."""
    if not ended:
        return
    what = "session" if all(item.target for item in ended) else "abandoned session"
    say(f"The plan ends {format_count(len(ended), what)}", "bold")
    shown = ended if all_items else ended[:_EXAMPLES]
    rows = table("session", "why", whole=("session",))
    for item in shown:
        rows.add_row(name(item.id), name(item.reason))
    say(rows)
    say_rest(len(ended) - len(shown))


def _show_groups(items: Sequence[PlanItem], sources: Mapping[str, str], *, all_items: bool) -> None:
    paths = all(item.source.startswith("/") for item in items)  # checkpoints: their project
    rows = table(
        "items",
        ON_DISK,
        "what",
        "source",
        "why",
        right=("items", ON_DISK),
        whole=("what",),
        cut=() if paths else ("source",),
        front=("source",) if paths else (),
        drops=("what",) if paths else ("source",),
    )
    groups = grouped(items, lambda i: (i.kind, i.source, i.rule))
    shown = groups if all_items or len(groups) <= _MOST_GROUPS + 1 else groups[:_MOST_GROUPS]
    rest = groups[len(shown) :]
    # Sessions, which the question is about, are counted apart from what goes with them.
    folded = [group for group in rest if group[0][0] == SESSION]
    if len(folded) == 1:
        shown, rest, folded = [*shown, *folded], [g for g in rest if g not in folded], []
    for (kind, source, rule), members in shown:
        rows.add_row(
            f"{len(members):,}",
            format_bytes(sum(item.bytes for item in members)),
            kind_name(kind),
            name(sources.get(source, source)),
            rule,
        )
    others = [group for group in rest if group not in folded]
    for groups, what, why in ((folded, kind_name(SESSION), "others"), (others, "others", "")):
        members = [item for _, group in groups for item in group]
        if members:
            size = format_bytes(sum(item.bytes for item in members))
            rows.add_row(f"{len(members):,}", size, what, "", why)
    say(rows)


def _show_rules(items: Sequence[PlanItem]) -> None:
    rows = table("items", ON_DISK, "why", right=("items", ON_DISK))
    rows.show_header = False
    for rule, members in grouped(items, why_kept):
        rows.add_row(f"{len(members):,}", format_bytes(sum(i.bytes for i in members)), rule)
    say(rows)


def show_items(items: Sequence[PlanItem], now: float, *, all_items: bool) -> None:
    """Show every item, or the largest few."""
    largest = sorted(items, key=lambda item: (-item.bytes, item.id))
    shown = largest if all_items else largest[:_EXAMPLES]
    rows = table(
        ON_DISK, "age", "item", right=(ON_DISK, "age"), front=("item",), drops=("age",), below="why"
    )
    for item in shown:
        rows.add_row(
            format_bytes(item.bytes),
            format_duration(now - item.last_active_at),
            name(shown_name(item)),
            below=name(item.reason, "dim") if all_items else None,
        )
    say(rows)
    say_rest(len(items) - len(shown), "; --all lists them with their reasons.")


def show_report(
    report: Report,
    *,
    home_flag: str,
    plan: Plan | None = None,
    verb: str = "remove",
    changed_back: int = 0,
) -> None:
    """Show what was done, what was not and why, what it freed, and how to undo it.

    The plan is needed for what was archived and how much was removed permanently; `changed_back` is
    how much of what an undo brought back had never left.
    """
    say(_summary(report, plan, verb, changed_back))
    _show_outcomes(
        "In part",
        [o for o in report.outcomes if o.result is Result.BROUGHT_BACK and o.reason],
    )
    _show_outcomes("Skipped", [o for o in report.outcomes if o.result is Result.SKIPPED])
    _show_outcomes(
        "Failed", [o for o in report.outcomes if o.result in (Result.FAILED, Result.DAMAGED)]
    )
    if report.removed or report.bytes_freed:
        _show_freed(report, home_flag)
    if plan is not None:
        _show_gone(report, plan)
    _show_notes(report)
    if report.stopped:
        say(f"The run was {report.stopped}; the rest was left as it was.", "yellow")
        say("To continue, run the same command again.")


def show_together(done: Sequence[tuple[Plan, Report | None]]) -> None:
    """Show what a command did, or would do, in several homes: the sum, and how to undo all of
    it."""
    if len(done) <= 1:
        return
    changed = [(plan, report) for plan, report in done if report is not None and report.removed]
    planned = [plan for plan, report in done if report is None and plan.removals]
    if changed:
        say()
        _show_done_together(changed)
    elif planned:
        say()
        items = [item for plan in planned for item in plan.removals]
        verb = "archive" if any(map(is_archiving, planned)) else "remove"
        homes = format_count(len(planned), "home")
        say(f"Total: the plans {verb} {amount(items)}, in {homes}.", "bold")


def _show_done_together(changed: Sequence[tuple[Plan, Report]]) -> None:
    pairs = [archived(report, plan) for plan, report in changed]
    alone, files = (sum(numbers) for numbers in zip(*pairs, strict=True))
    removed = sum(report.removed for _, report in changed) - alone - files
    parts = ((alone, archived_words(alone, files)), (removed, "removed"))
    did = ", ".join(f"{count:,} {word}" for count, word in parts if count)
    in_trash = sum(report.bytes_in_trash for _, report in changed)
    later = in_trash - sum(report.bytes_of_rows for _, report in changed if report.bytes_in_trash)
    freed = freed_words([report for _, report in changed], " now" if in_trash else "")
    more = f" Emptying the trash frees another {format_bytes(later)}." if later > 0 else ""
    homes = format_count(len(changed), "home")
    say(f"Total: {did} in {homes}. Freed {freed}.{more}", "bold")
    if in_trash or alone:
        suggest("", "Bring all of it back with:", "holdfast undo --all-homes")


def _summary(report: Report, plan: Plan | None, verb: str, changed_back: int) -> Line:
    alone, files = archived(report, plan)
    projects = [o for o in report.outcomes if o.written or o.deleted]
    back = report.brought_back - changed_back - len(projects)
    parts = [
        (alone, archived_words(alone, files), "bold"),
        (report.removed - alone - files, "removed", "bold"),
        (report.ended, "ended", "bold"),
        (report.changed, "changed", "bold"),
        (changed_back, "changed back", "bold green"),
        (back, back_words(report.files_back), "bold green"),
        (sum(len(o.written) for o in projects), "written", "bold green"),
        (sum(len(o.deleted) for o in projects), "deleted", "bold green"),
        (report.skipped, "skipped", "yellow"),
        (report.failed, "failed", "bold red"),
    ]
    shown = [(count, word, style) for count, word, style in parts if count] or [
        (0, f"{verb}d", "bold")
    ]
    line = styled()
    if not any(count for count, _, _ in parts) and report.count(Result.RECLAIMED):
        line.append("Unused space was given back", style="bold")
        shown = []
    for count, word, style in shown:
        line.append(", " if line else "").append(f"{count:,} {word}", style=style)
    return line.append(f"  (operation {report.operation})", style="dim")


def _show_freed(report: Report, home_flag: str) -> None:
    of_rows = format_bytes(report.bytes_of_rows)
    if not report.bytes_in_trash:
        say(f"Freed {freed_words([report])}.")
        if report.bytes_of_rows:
            say(f"About {of_rows} was freed inside the agent's database, which will reuse it.")
        return
    # Copies of rows were added by this run: emptying the trash only removes them again.
    more = report.bytes_in_trash - report.bytes_of_rows
    later = f" Emptying the trash frees another {format_bytes(more)}." if more > 0 else ""
    freed = freed_words([report], " now")
    undo = f"holdfast {home_flag}undo {report.operation}"
    if takes_some(report):  # a long sentence gets its own line
        say(f"Freed {freed}.{later}")
        suggest("", "Bring it back with:", undo)
    else:
        suggest(f"Freed {freed}.{later}", "Bring it back with:", undo)
    if report.bytes_of_rows:  # the rows' space in the database is free, but its file did not shrink
        say(f"Until the trash is emptied, copies of database rows take {of_rows} more.")


def _show_gone(report: Report, plan: Plan) -> None:
    removed = {(o.kind, o.id) for o in report.outcomes if o.result is Result.REMOVED}
    gone = [item for item in plan.removals if (item.kind, item.id) in removed]
    # If everything goes permanently, the plan or the question has just said so.
    if (warning := for_good(gone)) and len(gone_for_good(plan.removals)) < len(plan.removals):
        say(warning, "yellow")


def _show_notes(report: Report) -> None:
    """Show the notes on what was done, each once."""
    done = (o for o in report.outcomes if o.result in (Result.REMOVED, Result.RECLAIMED))
    for reason in dict.fromkeys(o.reason for o in done if o.reason):
        say(name(f"Note: {reason}.", "dim"))


def _show_outcomes(title: str, outcomes: Sequence[Outcome]) -> None:
    """Show each reason once, with the first few items that it applies to."""
    if not outcomes:
        return
    say()
    say(title, "bold")
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.reason].append(outcome)
    few = list(groups.items())[: 4 * _EXAMPLES]
    for reason, members in few:
        say(joined("  ", name(reason, "yellow"), f" ({len(members):,})"))
        shown = members if len(members) <= _EXAMPLES else members[: _EXAMPLES - 1]
        for each in shown:
            say(joined("    ", name(shown_name(each))))
        say_rest(len(members) - len(shown), "", indent="    ")
    hidden = len(outcomes) - sum(len(members) for _, members in few)
    say_rest(hidden, " for other reasons.", indent="  ")

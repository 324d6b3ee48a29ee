"""`holdfast undo`: bring back what an operation removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import completing
from holdfast.cli.frame import command
from holdfast.cli.homes import all_homes_option
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import name, note, nothing_changed, print_json, say, table, when
from holdfast.cli.progress import progress
from holdfast.cli.removal import asked, exit_code, plan_by_number, print_declined, tell_finished
from holdfast.cli.show_checkpoints import foreseen_json, show_foreseen, show_paths
from holdfast.cli.show_edits import show_edits, tell_edits
from holdfast.cli.show_plan import show_items, show_report
from holdfast.errors import DeclinedError, HoldfastError, NothingToUndoError
from holdfast.model.item import PROJECT
from holdfast.model.operation import in_words
from holdfast.model.plan import EDITS
from holdfast.model.plan_words import undo_effect
from holdfast.model.report import Result
from holdfast.model.text import format_count, format_duration
from holdfast.value import dataclass, replace

if TYPE_CHECKING:
    from holdfast.api.plan import HomeReport
    from holdfast.api.undo import UndoPlan
    from holdfast.api.undo_across_homes import RunAcrossHomes
    from holdfast.api.values import Edited, Foreseen
    from holdfast.model.plan import PlanItem
    from holdfast.model.report import Outcome, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """The words of `undo`, or of `redo`, over several homes."""

    do: str
    run: str
    did: str
    apart: str
    alone: str


_UNDO = Verb(
    do="undo",
    run="Undoing the latest run over several homes",
    did="done",
    apart="The latest operations of these homes come from different runs.",
    alone="No run over several homes is left to undo, only an operation of one home:",
)


def _choose_run(invocation: Invocation, *, dry_run: bool, yes: bool, **_: Any) -> int | None:
    """Which operation of each home `undo --all-homes` takes."""
    found = invocation.machine.to_undo()
    return choose_run(invocation, found, _UNDO, dry_run=dry_run, yes=yes)


@command(example="holdfast undo --all-homes\nholdfast undo 12 --home codex --dry-run")
@click.argument("operation", required=False, shell_complete=completing.operations)
@click.option("--dry-run", "-n", is_flag=True, help="Show what would come back and stop there.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--all", "all_items", is_flag=True, help="List every item and path.")
@all_homes_option(_choose_run, operation="The number of an operation")
def undo(
    invocation: Invocation, operation: str | None, *, dry_run: bool, yes: bool, all_items: bool
) -> int:
    """Bring back what an operation removed, or reopen the sessions that it ended. The default is
    the latest operation.

    The command says what it is about to do. It asks first if that changes files in a working
    directory, or if you did something else after that operation.

    Files come back to their places with their times and modes. Nothing is ever overwritten: where
    a new file has the name of an old one, the old one stays in the trash and the report says so;
    move the new file away and undo again. Undoing the restore of a checkpoint leaves files that
    changed since, and names them. `holdfast log` lists the operations. Without a number, undo skips
    what agents did on their own: resets, limits, delivered cron sessions, sessions that ended as
    abandoned, checkpoints beyond their limits.

    With --all-homes it undoes the latest command that worked in several homes, and in each home
    only what that command did there.
    """
    home = invocation.operation_undo(() if operation is None else (operation,))
    if invocation.undoes is not None:
        operation = invocation.undoes.get(invocation.home_path)
        if operation is None:
            home.log.read()  # raises if the log cannot be read
            raise NothingToUndoError("That run has nothing to undo here; nothing was changed.")

    def plan(number: str | None) -> UndoPlan:
        with progress("looking at what would come back"):
            return home.plan_undo(number)

    try:
        planned = plan_by_number(home, plan, operation, dry_run=dry_run, yes=yes)
    except DeclinedError as declined:
        if invocation.json:
            raise
        return print_declined(declined)
    if dry_run:
        _show_preview(invocation, planned, all_items=all_items)
        return 0
    asks = planned.needs_asking and not yes
    if not invocation.json:
        say(name(f"Undoing operation {planned.operation.id}: {planned.command}"))
        _show_effects(
            invocation,
            planned,
            "This brings",
            all_items=all_items,
            listed=asks or bool(planned.foreseen) or all_items,
        )
    refused = _ask(planned, invocation.now) if asks else None
    if refused is not None:
        if invocation.json:
            print_json(_document(planned))
        return print_declined(refused)
    with progress("bringing back", stoppable=True) as shown:
        done = planned.apply(progress=shown)
    return _tell(invocation, planned, done, all_items=all_items)


def _ask(planned: UndoPlan, now: float) -> DeclinedError | None:
    target = planned.operation
    ago = format_duration(max(0.0, now - target.started_at))
    where = "" if target.own else f" on {target.machine}"
    facts = [f"Operation {target.id} was done {ago} ago{where}."]
    for project in planned.foreseen.values():
        if project.preview is not None:
            paths = len(project.preview.written) + len(project.preview.deleted)
            facts.append(f"Undoing it changes {format_count(paths, 'path')} in {project.workdir}.")
    if planned.since:
        ran, latest = in_words([each.id for each in planned.since]), planned.since[0].command
        last = "the last: " if len(planned.since) > 1 else ""
        facts.append(f"Since then you ran {ran} ({last}{latest}).")
    if planned.unexpected:
        facts.append("Maintenance did this, perhaps by itself.")
    return asked(f"Undo operation {target.id}?", "undone", facts=facts)


def _tell(invocation: Invocation, planned: UndoPlan, done: HomeReport, *, all_items: bool) -> int:
    report = done.report
    if invocation.json:
        print_json({"undone": planned.operation.id, "applied": True, "report": report.to_json()})
    else:
        # Users know a project by its directory, and want to know which of its files were left
        # alone.
        others = tuple(
            replace(each, reason="") if _is_partial(each) else each for each in report.outcomes
        )
        back = {each.id for each in report.outcomes if each.result is Result.BROUGHT_BACK}
        items = [each.item for each in planned.removals if each.item.id in back]
        show_report(
            replace(report, outcomes=others),
            home_flag=invocation.home_flag,
            changed_back=sum(item.action in EDITS for item in items),
        )
        places = {
            each.item.id: planned.foreseen[each.key].workdir
            for each in planned.removals
            if each.key in planned.foreseen
        }
        for each in filter(_is_partial, report.outcomes):
            where = places.get(each.id, each.id)
            say(name(f"Undone only in part in {where}; {each.reason}.", "yellow"))
        _show_changed(report, all_items=all_items)
        tell_edits(items)
    _tell_settled(invocation, planned, report)
    # A restore that could be undone only in part: some of its files have changed since.
    in_part = any(map(_is_partial, report.outcomes))
    return exit_code(report) or (HoldfastError.exit_code if in_part else 0)


def _tell_settled(invocation: Invocation, planned: UndoPlan, report: Report) -> None:
    """Report what killed runs had left. The report of this undo lacks what an earlier, interrupted
    undo of the same operation brought back, although it was announced."""
    finished = [each for each in report.settled if each != planned.operation.id]
    tell_finished(finished)
    if not finished or report.operation in finished:
        return
    for each in invocation.one_home().log.read().operations:
        if each.id in finished and each.undoes == planned.operation.id and each.brought_back:
            back = format_count(each.brought_back, "item")
            note(f"note: operation {each.id} brought back {back} of this; the report has the rest.")


def _is_partial(outcome: Outcome) -> bool:
    """True if files of a project were left alone because they changed since."""
    is_back = outcome.kind == PROJECT and outcome.result is Result.BROUGHT_BACK
    return is_back and bool(outcome.reason)


def _show_preview(invocation: Invocation, planned: UndoPlan, *, all_items: bool) -> None:
    if invocation.json:
        print_json(_document(planned))
        return
    would = f"Undoing operation {planned.operation.id} would bring"
    _show_effects(invocation, planned, would, all_items=all_items)
    nothing_changed()


def _document(planned: UndoPlan) -> dict[str, Any]:
    documents = [
        _preview_json(each.item, planned.foreseen.get(each.key), planned.edited.get(each.key))
        for each in planned.removals
        if each.key not in planned.taken
    ]
    documents += [_preview_json(each, None, None) for each in planned.files]
    return {
        "undone": planned.operation.id,
        "applied": False,
        "items": documents,
        "since": [each.id for each in planned.since],
    }


def _show_effects(
    invocation: Invocation, planned: UndoPlan, brings: str, *, all_items: bool, listed: bool = True
) -> None:
    """Show what undoing does to the files of projects and to everything else, `listed` item by
    item. `brings` is the beginning of the sentences about it."""
    for project in planned.foreseen.values():
        _show_project(planned.operation.id, project, brings, all_items=all_items)
    others = [
        each
        for each in planned.removals
        if each.key not in planned.foreseen and each.key not in planned.taken
    ]
    items = [*(each.item for each in others), *planned.files]
    edits = all(item.action in EDITS for item in items)
    if items and edits and listed:
        show_edits([(each.item, planned.edited.get(each.key)) for each in others], brings)
    elif not edits:  # the result of edits is reported when it is done
        say(f"{undo_effect(items, brings)}.")
        if listed:
            show_items(items, invocation.now, all_items=all_items)
    if planned.taken:
        count = format_count(len(planned.taken), "session")
        say(
            name(
                f"{count} cannot come back: an import replaced them, and the imported ones have "
                "their ids. After `holdfast sessions delete ID`, `holdfast sessions restore ID` "
                "brings the old one back from the archive."
            )
        )
    target = planned.operation
    if target.elsewhere:
        say(
            name(
                f"{format_count(target.elsewhere, 'other item')} of it are on {target.machine}: "
                f"`holdfast undo {target.id}` there brings them back."
            )
        )
    known = target.undone + target.in_trash + target.elsewhere
    if target.emptied_by and (gone := target.removed_to_trash - known):
        by = ", ".join(target.emptied_by)
        say(f"{format_count(gone, 'other item')} of it left the trash for good (operation {by}).")
    if final := target.removed_for_good:
        say(f"{format_count(final, 'other item')} of it cannot come back: removed for good.")


def _show_project(operation: str, project: Foreseen, brings: str, *, all_items: bool) -> None:
    """Show the files of a project that a restore changed, in the same way as that restore did."""
    if project.preview is None:
        say(name(f"Operation {operation} cannot be undone in {project.workdir}: {project.problem}"))
        return
    written = format_count(len(project.preview.written), "file")
    will = "would" if brings.endswith("would bring") else "will"
    say(
        name(
            f"{brings} {project.workdir} back to how it was before the restore. "
            f"It {will} write {written} and delete {len(project.preview.deleted):,}.",
        )
    )
    show_foreseen(project.workdir, project.preview, all_items=all_items)


def _preview_json(
    item: PlanItem, project: Foreseen | None, edited: Edited | None
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": item.kind,
        "id": item.id,
        "bytes": item.bytes,
        "reason": item.reason,
    }
    if edited is not None:
        return document | {"problem": edited.obstacle or None}
    return document if project is None else document | foreseen_json(project)


def _show_changed(report: Report, *, all_items: bool) -> None:
    """Show which files an undo of a restore wrote and deleted."""
    for outcome in report.outcomes:
        for word, paths, style in (
            ("Written", outcome.written, "cyan"),
            ("Deleted", outcome.deleted, "red"),
        ):
            title = f"{word} ({len(paths):,})"
            show_paths(title, [name(path) for path in paths], style=style, all_items=all_items)


def choose_run(
    invocation: Invocation, found: RunAcrossHomes, verb: Verb, *, dry_run: bool, yes: bool
) -> int | None:
    """Note which operation of each home to take. If the latest operations of the homes are not one
    run, they may be unrelated, so this asks about them. Returns the exit code if the user says
    no."""
    if found.run is not None and (latest := found.latest) is not None:
        taken = {home.path: each.operation for home, each in found.of_home.items()}
        invocation.undoes = {each.path: taken.get(each.path) for each in invocation.machine.homes}
        if not invocation.json:
            homes = format_count(len(taken), "home")
            ago = format_duration(max(0.0, invocation.now - latest.at))
            did = f"{verb.run}: {latest.command}, {verb.did} {ago} ago in {homes}."
            say(name(did))
            say()
        return None
    several = len(invocation.machine.homes) > 1  # otherwise the only home is surely meant
    if not (found.of_home and several) or yes or dry_run:
        return None
    if not invocation.json:
        say(verb.alone if len(found.of_home) == 1 else f"{verb.apart} In each home:")
        rows = table("agent", "operation", "when", "command", right=("operation",))
        for home, each in found.of_home.items():
            rows.add_row(home.label, each.operation, when(each.at), name(each.command))
        say(rows)
    count = len(found.of_home)
    these = "this operation" if count == 1 else f"these {count} operations"
    question = f"{verb.do.capitalize()} {these}?"
    declined = asked(question, f"{verb.do}ne")
    if declined is None:
        return None
    if invocation.json:
        print_json({"homes": [], "failed": []})
    return print_declined(declined)

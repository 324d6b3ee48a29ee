"""`holdfast sessions archive` and `restore`: archive sessions, and restore them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.completing import session_ids
from holdfast.cli.frame import Choice, command
from holdfast.cli.homes import all_homes_option, where_they_are
from holdfast.cli.invocation import Invocation
from holdfast.cli.options import map_option, read_maps
from holdfast.cli.output import (
    name,
    note,
    nothing_changed,
    print_json,
    say,
    say_rest,
    suggest,
    table,
)
from holdfast.cli.progress import progress
from holdfast.cli.removal import RemovalFlags, applied_json, exit_code, removal_options, remove
from holdfast.cli.session_options import filter_options, is_given, session_filter
from holdfast.cli.show_plan import show_report
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.archive import size_words
from holdfast.model.item import SESSION
from holdfast.model.report import Result
from holdfast.model.text import format_bytes, format_count, format_duration
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.api.archive import RestorePlan
    from holdfast.api.home import Home
    from holdfast.model.archive import ArchivedSession
    from holdfast.model.plan import Plan
    from holdfast.model.report import Report
    from holdfast.model.session import SessionFilter


_CODECS = ("zstd", "gzip")
_EXAMPLES = 5


@command(
    example="holdfast sessions archive 20260325_112518_6995d1\n"
    "holdfast sessions archive --all-homes --older-than 180d --dry-run"
)
@click.argument("ids", nargs=-1, metavar="[ID]...", shell_complete=session_ids)
@filter_options
@click.option("--codec", type=Choice(list(_CODECS)), help="How to compress, for this run.")
@removal_options
@all_homes_option(ids="An id")
def archive(
    invocation: Invocation,
    /,
    ids: tuple[str, ...],
    *,
    codec: str | None,
    how: RemovalFlags,
    **flags: Any,
) -> int:
    """Move sessions with their files into the archive: by id, or those that filters select.

    Each becomes one compressed bundle in the archive folder, which is read back and compared
    before anything leaves the store. `list --archived` and `search --archived` find archived
    sessions; `sessions restore` and `holdfast undo` bring them back completely.

    Open sessions stay. Pinned sessions stay too, unless you name them.
    """
    wanted = _wanted(invocation, ids, flags)
    if codec is not None and how.plan_out is not None:
        raise UsageError(
            "A saved plan does not store --codec, so --codec cannot be combined with --plan-out.",
            hint="Set `codec` of [archive] in config.toml.",
        )

    def archive_here(here: Invocation, ids: Sequence[str]) -> int:
        home = here.open_home()
        with progress("looking at the sessions") as shown:
            planned = home.plan_archive(ids or None, wanted=wanted, codec=codec, progress=shown)

        def tell(report: Report) -> None:
            # Only of this operation: another command may archive at the same time.
            made = home.archive.of_operation(report.operation) if report.operation else ()
            _tell(here, made, report.bytes_in_archive)

        code = remove(here, planned, how, verb="archive", after=tell)
        return max(code, _stayed(planned.plan, ids))

    if ids:
        return where_they_are(invocation, ids, archive_here, how=how)
    invocation.choose_one()
    return archive_here(invocation, ())


def _wanted(
    invocation: Invocation, ids: tuple[str, ...], flags: dict[str, Any]
) -> SessionFilter | None:
    if not ids and not is_given(flags):
        raise UsageError(
            "Name the sessions to archive: by their ids, or with filters.",
            hint="For example: holdfast sessions archive --all-homes --older-than 180d --dry-run",
        )
    if ids and is_given(flags):
        raise UsageError("Give ids or filters, not both.")
    return None if ids else session_filter(invocation, flags)


def _stayed(plan: Plan, ids: Sequence[str]) -> int:
    """A named session that stays is a failure; report why it stays."""
    stayed = [item for item in plan.kept if item.kind == SESSION] if ids else []
    for item in stayed:
        note(f"note: {item.id} stays: {item.reason.removeprefix('in use: ')}.")
    return HoldfastError.exit_code if stayed else 0


def _tell(invocation: Invocation, archived: Sequence[ArchivedSession], on_disk: int) -> None:
    if not archived or invocation.json:
        return
    sessions = format_count(len(archived), "session")
    restore = f"holdfast {invocation.home_flag}sessions restore {archived[0].session.id}"
    suggest(f"Archived {sessions}: {size_words(archived, on_disk)}.", "Restore one with:", restore)


@command(
    example="holdfast sessions restore 20260325_112518_6995d1\n"
    "holdfast sessions restore --all --all-homes --dry-run\n"
    "holdfast sessions restore ec6d4c82 --map /home/ana=/Users/ana"
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Every archived session.")
@map_option
@click.option("--dry-run", "-n", is_flag=True, help="Show what would come back and stop there.")
@click.option("--yes", "-y", is_flag=True, help="Has no effect here: this command never asks.")
@all_homes_option(ids="An id")
def restore(
    invocation: Invocation,
    /,
    ids: tuple[str, ...],
    *,
    everything: bool,
    maps: tuple[str, ...],
    dry_run: bool,
    yes: bool,  # noqa: ARG001 - restoring removes nothing, so there is nothing to ask
) -> int:
    """Bring archived sessions back: messages, totals, lineage, route, search and files. Sessions
    that their agent deleted and the vault holds come back too, to where the agent finds them.

    The start of an id is enough while it is unique. Nothing is ever overwritten: when another
    session has the id, or a file has the name of one that would come back, the session stays in the
    archive and the report names what is in the way. A bundle leaves the archive after its session
    is back. A damaged bundle stays, and the report names it.

    --map restores a session of Claude Code or Codex under other paths, as on another machine: its
    transcript goes where the agent looks for it, and its working directory becomes the new one.
    Its messages are not changed. Its bundle stays in the archive.
    """
    places = read_maps(maps)
    if not ids and not everything:
        raise UsageError(
            "Name the sessions to restore: by their ids, or with --all.",
            hint="`holdfast sessions list --archived` and `--vaulted` show them.",
        )
    if ids and everything:
        raise UsageError("--all restores every archived session; leave out the ids.")

    def restore_here(here: Invocation, ids: Sequence[str]) -> int:
        home = here.open_home()
        planned = home.plan_restore_sessions(ids or None, maps=places)
        for problem in planned.problems:
            note(f"warning: {problem.path}: {problem.reason}")
        _note_missing(planned)
        report = None
        if not dry_run:
            with progress(stoppable=True) as shown:
                report = planned.apply(progress=shown).report
        _show(here, home, planned, report)
        return 0 if report is None else exit_code(report)

    if ids:
        return where_they_are(invocation, ids, restore_here, store=False, archive=True)
    invocation.choose_one()
    return restore_here(invocation, ())


def _note_missing(planned: RestorePlan) -> None:
    """Note missing directories: a typo in --map looks like a folder that will be created later."""
    for cwd in planned.missing_directories:
        note(f"note: {cwd} does not exist here yet; the agent needs it to resume the session.")


def _show(
    invocation: Invocation,
    home: Home,
    planned: RestorePlan,
    report: Report | None,
) -> None:
    if invocation.json:
        sessions = [each.to_json() for each in planned.sessions]
        sessions += [each.to_json() for each in planned.vaulted]
        print_json({"sessions": sessions, **applied_json(report)})
        return

    if not planned.sessions and not planned.vaulted:
        say("There are no archived sessions.")
    elif report is None:
        _preview(home, planned, invocation.now)
        nothing_changed()
    else:
        show_report(_by_session(report, planned), home_flag=invocation.home_flag)


def _by_session(report: Report, planned: RestorePlan) -> Report:
    """Merge outcomes by session, which is what people count. A session may have two bundles: files
    that a reset put away, and the session itself."""
    session_of = {each.file: each.session.id for each in planned.sessions}
    back: set[str] = set()
    outcomes = []
    for each in report.outcomes:
        session = session_of.get(each.id, each.id)
        if each.result is Result.BROUGHT_BACK:
            if session in back and not each.reason:
                continue
            back.add(session)
        outcomes.append(each)
    return replace(report, outcomes=tuple(outcomes))


def _preview(home: Home, planned: RestorePlan, now: float) -> None:
    latest = sorted(planned.sessions, key=lambda each: -each.session.last_active_at)
    bundles = [*planned.vaulted, *(each.session for each in latest)]
    sessions = [*{each.id: each for each in bundles}.values()]
    openings = dict(home.archive.openings(latest[:_EXAMPLES]))
    if planned.vaulted:
        openings |= home.openings(planned.vaulted[:_EXAMPLES])
    size = format_bytes(sum(each.bytes for each in sessions))
    count = len({each.id for each in sessions})
    say(f"This would restore {format_count(count, 'session')}, {size} of messages.")
    say()
    numbers = ("active", "messages", "size")
    rows = table(
        "id",
        "source",
        *numbers,
        "title",
        right=numbers,
        whole=("id",),
        cut=("source", "title"),
        drops=("messages", "source", "size", "title"),
    )
    for each in sessions[:_EXAMPLES]:
        rows.add_row(
            name(each.id),
            name(each.source),
            format_duration(now - each.last_active_at),
            f"{each.message_count:,}",
            format_bytes(each.bytes),
            name(each.title) if each.title else name(openings.get(each.id, ""), "dim"),
        )
    say(rows)
    say_rest(len(sessions) - _EXAMPLES)

"""`holdfast sessions prune`, `gc` and `delete`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.arguments import size
from holdfast.api.plan import why_stays
from holdfast.cli.completing import session_ids
from holdfast.cli.completing import sources as known_sources
from holdfast.cli.frame import Choice, command
from holdfast.cli.homes import all_homes_option, where_they_are
from holdfast.cli.invocation import Invocation
from holdfast.cli.numbers import Number, WholeNumber
from holdfast.cli.output import note
from holdfast.cli.progress import progress
from holdfast.cli.removal import (
    COUNT,
    RemovalFlags,
    keep_options,
    now_option,
    removal_options,
    remove,
    trash_options,
)
from holdfast.cli.session_options import ended_options, session_filter
from holdfast.errors import EmptyWindowError, HoldfastError, UsageError
from holdfast.model.item import REQUEST_DUMP, SESSION, TRANSCRIPT
from holdfast.model.text import format_count, format_duration
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.api.plan import HomePlan
    from holdfast.model.plan import PlanItem
    from holdfast.model.report import Report


_KINDS = {"session": SESSION, "transcript": TRANSCRIPT, "request-dump": REQUEST_DUMP}
#: Flags that `Home.plan_prune` takes under the same name.
_KNOBS = (
    "older_than",
    "keep_last",
    "keep_within",
    "keep_hourly",
    "keep_daily",
    "keep_weekly",
    "keep_monthly",
    "keep_yearly",
    "max_count",
)
_TIME = Number(min=0, max=1_000_000)


def _planned_prune(
    invocation: Invocation,
    /,
    *,
    kinds: tuple[str, ...],
    include_files: bool,
    files_only: bool,
    no_files: bool,
    archived: bool,
    trash: dict[str, bool],
    **flags: Any,
) -> HomePlan:
    if include_files and no_files:
        raise UsageError("--include-files and --no-files contradict each other.")
    if files_only and no_files:
        raise UsageError("--files-only and --no-files together leave nothing to remove.")
    if archived and (kinds or files_only or no_files):
        raise UsageError("--archived cannot be combined with --kind, --files-only or --no-files.")
    # The age is a rule of the plan, not part of the filter; but the two flags must be consistent.
    wanted = replace(session_filter(invocation, flags), active_before=None)
    cap = flags["max_total_size"]
    knobs = {
        "wanted": wanted,
        **trash,
        "max_total_size": None if cap is None else size(cap, "--max-total-size"),
        **{name: flags[name] for name in _KNOBS},
    }
    if archived:
        archive = invocation.archived()
        with progress("looking at the sessions"), _in_flags(flags["newer_than"]):
            return archive.plan_prune(**knobs)
    there = invocation.retention()
    with progress("looking at the sessions") as shown, _in_flags(flags["newer_than"]):
        return there.plan_prune(
            **knobs,
            kinds=[_KINDS[kind] for kind in kinds],
            files="only" if files_only else "none" if no_files else "with",
            progress=shown,
        )


@contextlib.contextmanager
def _in_flags(newer_than: str | None) -> Iterator[None]:
    try:
        yield
    except EmptyWindowError as error:
        raise UsageError(
            f"--newer-than {newer_than} and --older-than {format_duration(error.age)} leave no "
            "time in between.",
            hint="Without --older-than, retention_days applies.",
        ) from None


@command(
    example="holdfast sessions prune --all-homes --dry-run\n"
    "holdfast sessions prune --home hermes --older-than 30d --source cron --dry-run\n"
    "holdfast sessions prune --home codex --keep-last 20 --keep-daily 14 --yes\n"
    "holdfast sessions prune --home codex --max-total-size 500MB"
)
@click.option(
    "--older-than", metavar="WHEN", help="Last active before: 5h, 2d, 1w, 2026-03-25, an ISO time."
)
@ended_options
@click.option(
    "--kind", "kinds", multiple=True, type=Choice(list(_KINDS)), help="Only items of this kind."
)
@keep_options("each group")
@click.option("--max-total-size", metavar="SIZE", help="Limit the size of what stays: 500MB, 2GB.")
@click.option("--max-count", type=COUNT, metavar="N", help="Limit the number of items that stay.")
@click.option(
    "--include-files", is_flag=True, help="Remove files with their sessions (the default)."
)
@click.option("--files-only", is_flag=True, help="Remove files; the sessions stay as history.")
@click.option("--no-files", is_flag=True, help="Remove sessions; their files stay.")
@click.option("--archived", is_flag=True, help="Prune the archive, by its own retention.")
@trash_options
@removal_options
@all_homes_option(plan=_planned_prune)
def prune(invocation: Invocation, /, *, how: RemovalFlags, **given: Any) -> int:
    """Remove the sessions that the policy does not keep, with their files.

    Unless you give rules, the command uses the policy in config.toml: by default, it removes what
    was last active more than 90 days ago. An --older-than or --keep-… flag replaces those rules for
    this run, any --max-total-size or --max-count the caps. The other flags select the sessions to
    look at; they combine. A group is all items of one kind and source.

    Sessions that have not ended, or that a process holds, always stay, and so do pinned ones. A
    session that was archived in its agent stays too, unless --agent-archived asks for those. Files
    without a session are removed too when they are old enough, unless they are open or were touched
    within the last day. Removed items stay in the trash for a week (trash_days), and `holdfast
    undo` brings them back. The trash counts towards a size cap. So while the cap is exceeded,
    removals are final: first what is in the trash, then what the rules remove, then the oldest of
    the rest. With --use-trash it all goes to the trash.

    With --archived it prunes the archive instead: retention_days and max_total_size_mb of [archive]
    apply, and --older-than counts from the day on which a session was archived.
    """
    planned = _planned_prune(invocation, **given)

    def look_again(_: Report) -> None:
        with progress("looking at the sessions") as shown:
            more = planned.still_over_cap(progress=shown)
        if more:
            more_items = format_count(len(more), "more item")
            note(
                "note: the cap is still exceeded, because the database gave back less than its "
                f"sessions took. Run the command again to remove {more_items}."
            )

    return remove(invocation, planned, how, after=look_again)


def _planned_gc(
    invocation: Invocation,
    /,
    *,
    sources: tuple[str, ...],
    skip_trash: bool,
    **ages: Any,
) -> HomePlan:
    if ages["older_than"] is not None and (
        ages["empty_hours"] is not None or ages["trivial_days"] is not None
    ):
        raise UsageError("--older-than sets both ages: leave out --empty-hours and --trivial-days.")
    there = invocation.retention()
    with progress("looking at the sessions") as shown:
        return there.plan_gc(
            **ages, source=sources or None, use_trash=not skip_trash, progress=shown
        )


@command(
    example="holdfast sessions gc --all-homes --dry-run\n"
    "holdfast sessions gc --home hermes --trivial-days 1 --trivial-max 2 --yes"
)
@click.option(
    "--older-than",
    metavar="WHEN",
    help="Remove both kinds when last active before: 5h, 2d, a date.",
)
@click.option(
    "--empty-hours", type=_TIME, metavar="H", help="Remove empty sessions after H hours [24]."
)
@click.option(
    "--trivial-days", type=_TIME, metavar="D", help="Remove trivial sessions after D days [7]."
)
@click.option(
    "--trivial-max",
    type=WholeNumber(min=0),
    metavar="N",
    help="A session of at most N messages is trivial [5].",
)
@click.option(
    "--keep-titled/--titled-too",
    default=None,
    help="Keep, or also remove, sessions that have a title.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME",
    shell_complete=known_sources,
    help="From this source.",
)
@now_option
@removal_options
@all_homes_option(plan=_planned_gc)
def gc(invocation: Invocation, /, *, how: RemovalFlags, **given: Any) -> int:
    """Remove sessions without messages, or with only a few.

    Empty sessions are removed after a day without activity, sessions of up to five messages after a
    week; 0 turns a rule off, and --older-than sets both ages. Pinned and open sessions stay. A
    title does not protect a session, because agents give titles by themselves, unless you pass
    --keep-titled. A longer session that came from one of these stays and loses its parent.
    config.toml has the defaults.
    """
    return remove(invocation, _planned_gc(invocation, **given), how)


@command(
    example="holdfast sessions delete 20260325_112518_6995d1\n"
    "holdfast sessions delete 20260325 20260326_09 --yes"
)
@click.argument("sessions", nargs=-1, required=True, metavar="ID...", shell_complete=session_ids)
@now_option
@removal_options
def delete(
    invocation: Invocation,
    /,
    *,
    sessions: tuple[str, ...],
    skip_trash: bool,
    how: RemovalFlags,
) -> int:
    """Remove sessions with their files, by id or by a unique start of an id. They are found in
    whichever home of the machine they are, or in the one that --home names.

    Delegates that worked for a session are removed with it, unless they have more than
    trivial_max messages; in a Hermes home all of them are, as in Hermes itself. Other sessions that
    came from it stay. Its files that a reset put into the archive are removed as well. You can also
    name a session that is only in the archive.

    A pin does not protect a session that you name. An open session stays unless its process is
    provably gone: end it first, with `holdfast sessions end`. `holdfast undo` brings removed
    sessions back. With --now it cannot: the store, the archive and the trash keep nothing of them.
    """

    def delete_here(here: Invocation, ids: Sequence[str]) -> int:
        planned = here.retention().plan_delete(ids, use_trash=not skip_trash)
        refused = [item for item in planned.plan.kept if item.kind == SESSION]
        _tell(refused, here.home_flag)
        code = remove(here, planned, how)
        # A named session that stays is a failure.
        return max(code, HoldfastError.exit_code) if refused else code

    return where_they_are(invocation, sessions, delete_here, how=how, archive=True)


def _tell(refused: Sequence[PlanItem], home_flag: str) -> None:
    """Report which named sessions stay, and why: the plan only counts them."""
    for item in refused:
        why, command = why_stays(item, home_flag)
        note(f"note: {item.id} stays: {why}.{f' End it: {command}' if command else ''}")

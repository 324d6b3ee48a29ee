"""`holdfast sessions prune`: remove what the policy does not keep."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import RemovalFlags, removal_options, remove, size_cap
from holdfast.cli.session_options import ended_options, session_filter
from holdfast.errors import UsageError
from holdfast.model.item import REQUEST_DUMP, SESSION, TRANSCRIPT
from holdfast.model.text import format_duration, parse_size

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
_COUNT = click.IntRange(min=1)


@click.command(
    "prune",
    cls=Command,
    example="holdfast sessions prune --older-than 30d --source cron --dry-run\n"
    "holdfast sessions prune --keep-last 20 --keep-daily 14 --yes\n"
    "holdfast sessions prune --max-total-size 500MB",
)
@click.option(
    "--older-than", metavar="WHEN", help="Last active before: 5h, 2d, 1w, 2026-03-25, an ISO time."
)
@ended_options
@click.option(
    "--kind", "kinds", multiple=True, type=Choice(list(_KINDS)), help="Only of this kind."
)
@click.option("--keep-last", type=_COUNT, metavar="N", help="Keep the last N of each group.")
@click.option("--keep-within", metavar="DURATION", help="Keep what is this close to the newest.")
@click.option("--keep-hourly", type=_COUNT, metavar="N", help="Keep the last of each of N hours.")
@click.option("--keep-daily", type=_COUNT, metavar="N", help="Keep the last of each of N days.")
@click.option("--keep-weekly", type=_COUNT, metavar="N", help="Keep the last of each of N weeks.")
@click.option("--keep-monthly", type=_COUNT, metavar="N", help="Keep the last of N months each.")
@click.option("--keep-yearly", type=_COUNT, metavar="N", help="Keep the last of N years each.")
@click.option("--max-total-size", metavar="SIZE", help="Bound the bytes that stay: 500MB, 2GB.")
@click.option("--max-count", type=_COUNT, metavar="N", help="Bound the number that stays.")
@click.option("--include-files", is_flag=True, help="Files go with their sessions: the default.")
@click.option("--files-only", is_flag=True, help="Remove files; the sessions stay as history.")
@click.option("--no-files", is_flag=True, help="Remove sessions; their files stay.")
@click.option("--archived", is_flag=True, help="Of the archive; its own retention holds there.")
@click.option("--now", "skip_trash", is_flag=True, help="Skip the trash; this cannot be undone.")
@removal_options
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    kinds: tuple[str, ...],
    include_files: bool,
    files_only: bool,
    no_files: bool,
    archived: bool,
    skip_trash: bool,
    how: RemovalFlags,
    **flags: Any,
) -> int:
    """Remove sessions, with their files, that the policy does not keep.

    Without rules of its own the command uses the policy in config.toml: by default, what was
    last active more than 90 days ago goes. Any --older-than or --keep-… flag replaces those
    rules for this run, any --max-total-size or --max-count the caps. The other flags say which
    sessions to look at; they combine. A group is what is of one kind and source.

    Sessions that have not ended, or that a process holds, always stay, and so do pinned ones. A
    session that was archived in its agent stays too, unless --agent-archived asks for those.
    Files without a session go too when they are old enough, unless they are open or were touched
    within the last day. What goes stays in the trash for a week (trash_days), where `holdfast
    undo` finds it; what only a size cap removes goes at once, because the trash counts too.

    With --archived it looks at the archive instead: retention_days and max_total_size_mb of
    [archive] hold, and --older-than counts from when a session was archived.
    """
    if include_files and no_files:
        raise UsageError("--include-files and --no-files say the opposite of each other.")
    if files_only and no_files:
        raise UsageError("--files-only and --no-files together leave nothing to remove.")
    if archived and (kinds or files_only or no_files):
        raise UsageError("--archived does not go with --kind, --files-only or --no-files.")
    wanted = session_filter(invocation, {**flags, "older_than": None})
    home = invocation.open_home()
    base = home.settings.archive_policy() if archived else home.settings.policy()
    _check_window(invocation, base.everywhere.rules.max_age, flags)
    knobs = {
        "wanted": wanted,
        "use_trash": not skip_trash,
        "max_total_size": _size(flags["max_total_size"]),
        **{name: flags[name] for name in _KNOBS},
    }
    with progress() as shown:
        if archived:
            plan = home.archive.plan_prune(**knobs)
        else:
            plan = home.plan_prune(
                **knobs,
                kinds=[_KINDS[kind] for kind in kinds],
                files="only" if files_only else "none" if no_files else "with",
                progress=shown,
            )
    return remove(invocation, plan, how)


def _check_window(invocation: Invocation, max_age: float | None, flags: dict[str, Any]) -> None:
    """A window in which nothing can lie is an error, also when the retention is one side of it."""
    newer, older = flags["newer_than"], flags["older_than"]
    ruled = any(flags[name] for name in _KNOBS if name.startswith("keep_"))
    if older is not None:
        max_age = invocation.now - invocation.moment(older)
    elif ruled:  # keep rules of their own replace the retention
        max_age = None
    if newer is None or max_age is None:
        return
    if invocation.now - max_age <= invocation.moment(newer):
        raise UsageError(
            f"--newer-than {newer} and --older-than {older or format_duration(max_age)} leave no "
            "time in between.",
            hint=None if older else "The retention holds unless you say --older-than.",
        )


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    instead = "To remove everything that ended: --older-than 0s"
    return size_cap("--max-total-size", text, parse_size(text), instead=instead)

"""`holdfast sessions prune`: remove what the policy does not keep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import RemovalFlags, removal_options, remove, size_cap
from holdfast.cli.session_options import ended_options, session_filter, tell_unknown_sources
from holdfast.errors import UsageError
from holdfast.model.item import REQUEST_DUMP, SESSION, TRANSCRIPT
from holdfast.model.units import format_duration, parse_duration, parse_size

if TYPE_CHECKING:
    from holdfast.model.inventory import Inventory
    from holdfast.policy.rules import Caps, Files, Policy, Rules
    from holdfast.ports import Home

_KINDS = {"session": SESSION, "transcript": TRANSCRIPT, "request-dump": REQUEST_DUMP}
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
    from holdfast.policy.selection import Selection
    from holdfast.services.plans import plan_prune, plan_prune_archive

    home, settings = invocation.open_home()
    base = settings.archive_policy if archived else settings.policy
    policy = base(use_trash=not skip_trash).with_own(_rules(invocation, flags), _caps(flags))
    wanted = session_filter(invocation, {**flags, "older_than": None})
    if include_files and no_files:
        raise UsageError("--include-files and --no-files say the opposite of each other.")
    if archived and (kinds or files_only or no_files):
        raise UsageError("--archived does not go with --kind, --files-only or --no-files.")
    policy = replace(policy, agent_archived=wanted.agent_archived is True)
    _check_window(invocation, policy, flags)
    now, line = invocation.now, invocation.command_line
    with progress() as shown:
        if archived:
            plan, inventory = plan_prune_archive(home, policy, now=now, command=line, wanted=wanted)
        else:
            plan, inventory = plan_prune(
                home,
                policy,
                now=now,
                command=line,
                selection=Selection(
                    kinds=frozenset(_KINDS[kind] for kind in kinds) or None, sessions=wanted
                ),
                files=_files(files_only=files_only, no_files=no_files),
                progress=shown,
            )
    _tell(inventory, flags["source"], home)
    del inventory  # as large as the plan, and nobody needs it any more
    code = remove(invocation, home, plan, how)
    if plan.shortfalls and not how.dry_run and how.plan_out is None:
        from holdfast.homes.maintenance import tell_unreached

        tell_unreached(home, settings, plan.shortfalls, now=invocation.now)
    return code


def _files(*, files_only: bool, no_files: bool) -> Files:
    from holdfast.policy.rules import Files

    if files_only and no_files:
        raise UsageError("--files-only and --no-files together leave nothing to remove.")
    return Files.ONLY if files_only else Files.NONE if no_files else Files.WITH


def _check_window(invocation: Invocation, policy: Policy, flags: dict[str, Any]) -> None:
    """A window in which nothing can lie is an error, also when the retention is one side of it."""
    max_age = policy.everywhere.rules.max_age
    if flags["newer_than"] is None or max_age is None:
        return
    if invocation.now - max_age <= invocation.moment(flags["newer_than"]):
        newer, older = flags["newer_than"], flags["older_than"]
        raise UsageError(
            f"--newer-than {newer} and --older-than {older or format_duration(max_age)} leave no "
            "time in between.",
            hint=None if older else "The retention holds unless you say --older-than.",
        )


def _rules(invocation: Invocation, knobs: dict[str, Any]) -> Rules:
    from holdfast.policy.rules import BUCKETS, Rules

    older_than, within = knobs["older_than"], knobs["keep_within"]
    counts = {f"keep_{name}": knobs[f"keep_{name}"] or 0 for name in (*BUCKETS, "last")}
    return Rules(
        max_age=None if older_than is None else _age(invocation, older_than),
        keep_within=None if within is None else parse_duration(within),
        **counts,
    )


def _age(invocation: Invocation, text: str) -> float:
    age = invocation.now - invocation.moment(text)
    if age < 0:
        raise UsageError(
            f"--older-than {text} lies in the future.", hint="Everything would count as old."
        )
    return age


def _caps(knobs: dict[str, Any]) -> Caps:
    from holdfast.policy.rules import Caps

    text, size = knobs["max_total_size"], None
    if text is not None:
        instead = "To remove everything that ended: --older-than 0s"
        size = size_cap("--max-total-size", text, parse_size(text), instead=instead)
    return Caps(max_bytes=size, max_count=knobs["max_count"])


def _tell(inventory: Inventory, sources: tuple[str, ...], home: Home) -> None:
    """What the plan does not show: what could not be looked at, and sources that are not there."""
    from holdfast.cli.output import note

    for problem in inventory.problems:
        note(f"warning: {problem.path}: {problem.reason}")
    if sources:
        store = home.session_store()
        known = {item.source for item in inventory.everything}
        tell_unknown_sources(sources, known | set(store.sources() if store else ()))

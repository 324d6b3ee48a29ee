"""`holdfast checkpoints prune`, `delete`, `clear` and `clear-legacy`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from holdfast.api.arguments import size
from holdfast.cli.checkpoint_options import chosen, ids_argument
from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation
from holdfast.cli.numbers import Number
from holdfast.cli.output import name, print_json, say
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
from holdfast.errors import UsageError
from holdfast.model.item import CHECKPOINT, LEGACY
from holdfast.model.plan import Plan
from holdfast.model.text import format_bytes, format_count
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.model.item import Item


_MEGABYTE = 1_000_000
_force = click.option("--force", "-f", is_flag=True, help="The same as --yes.")


@command(
    example="holdfast checkpoints prune --dry-run\n"
    "holdfast checkpoints prune --older-than 30d --keep-orphans\n"
    "holdfast checkpoints prune --keep-last 5 --keep-daily 14 --yes\n"
    "holdfast checkpoints prune --max-total-size 200MB"
)
@click.option(
    "--older-than",
    metavar="WHEN",
    help="Remove projects untouched since: 30d, 2w, a date.",
)
@click.option("--retention-days", type=Number(min=0), hidden=True)
@click.option(
    "--keep-orphans/--delete-orphans",
    default=None,
    help="Keep projects whose directory is gone, or remove them [as delete_orphans says].",
)
@click.option("--legacy", is_flag=True, help="Also remove archives of an older layout.")
@keep_options("each project")
@click.option("--max-snapshots", type=COUNT, metavar="N", help="Keep at most N of each project.")
@click.option(
    "--max-total-size", metavar="SIZE", help="Limit the size of all checkpoints: 500MB, 2GB."
)
@click.option(
    "--max-size-mb",
    type=Number(min=0, min_open=True),
    metavar="N",
    help="The same limit in MB: --max-size-mb 500.",
)
@trash_options
@removal_options
def prune(
    invocation: Invocation,
    /,
    *,
    keep_orphans: bool | None,
    legacy: bool,
    trash: dict[str, bool],
    how: RemovalFlags,
    **flags: Any,
) -> int:
    """Remove checkpoints that the policy does not keep, and free their space.

    Unless you give rules, the command uses [checkpoints] in config.toml: by default, this removes
    projects untouched for 7 days, projects whose directory is gone, the oldest checkpoints beyond
    20 of a project, and as few of the oldest as needed to bring the store below 500 MB. Flags
    replace these rules one by one; any --keep-… flag replaces all keep rules.

    The newest checkpoint of a project that stays is always kept, and so are pinned and named ones.
    A directory on a disk that is not mounted does not count as gone. Checkpoints removed by age or
    by a rule stay in the trash for a week (trash_days), and `holdfast undo` brings them back. The
    trash counts towards the size cap. So while the cap is exceeded, removals are final: first what
    is in the trash, then what the rules remove, then the oldest of the rest. With --use-trash it
    all goes to the trash.

    Archives of an older layout are removed only with --legacy or `clear-legacy`, never by age or
    size.
    """
    checkpoints = invocation.checkpoints()
    age = _asked_age(invocation, flags)
    cap = _asked_size(flags)
    with progress("measuring the checkpoints"):
        planned = checkpoints.plan_prune(
            older_than=age,
            max_total_size=cap,
            keep_orphans=keep_orphans,
            legacy=legacy,
            use_trash=trash["use_trash"],
            caps_use_trash=trash["caps_use_trash"],
            pack=not how.dry_run and how.plan_out is None,
            **flags,
        )
    return remove(invocation, planned, how)


def _asked_age(invocation: Invocation, flags: dict[str, Any]) -> timedelta | None:
    text: str | None = flags.pop("older_than")
    days = flags.pop("retention_days")  # its name in older documents
    if text is not None and days is not None:
        raise UsageError("--older-than and --retention-days are the same limit; use one.")
    if text is not None:
        age = invocation.now - invocation.moment(text)
        if age <= 0:
            raise UsageError(
                f"--older-than {text} would remove every project.",
                hint="To remove all checkpoints: holdfast checkpoints clear",
            )
        return timedelta(seconds=age)
    if days is None:
        return None
    try:
        return timedelta(days=days)
    except (OverflowError, ValueError):
        raise UsageError(f"--retention-days {days:g} is not a length of time.") from None


def _asked_size(flags: dict[str, Any]) -> int | None:
    text, megabytes = flags.pop("max_total_size"), flags.pop("max_size_mb")
    if text is not None and megabytes is not None:
        raise UsageError("--max-total-size and --max-size-mb are the same limit; use one.")
    if megabytes is not None:
        return size(int(megabytes * _MEGABYTE), "--max-size-mb")
    return None if text is None else size(text, "--max-total-size")


@command(
    example="holdfast checkpoints delete 3f2a1b9c\n"
    "holdfast checkpoints delete 3f2a1b9c 81d4e2aa --yes"
)
@ids_argument
@now_option
@removal_options
def delete(
    invocation: Invocation, /, ids: tuple[str, ...], *, skip_trash: bool, how: RemovalFlags
) -> int:
    """Remove checkpoints by id, or by a unique start of an id.

    A pin or a name does not protect a checkpoint that you name here. It stays in the trash for a
    week (trash_days), and `holdfast undo` brings it back, unless you pass --now. The other
    checkpoints of the project keep everything that they have.
    """
    checkpoints = invocation.checkpoints()
    found = [chosen(checkpoints, each) for each in ids]
    planned = checkpoints.plan_delete(found, use_trash=not skip_trash)
    return remove(invocation, planned, how)


@command(
    example="holdfast checkpoints clear --dry-run\nholdfast checkpoints clear --force\n"
    "holdfast checkpoints clear --legacy --now"
)
@click.option("--legacy", is_flag=True, help="Also clear what an older layout left.")
@_force
@now_option
@removal_options
def clear(
    invocation: Invocation, /, *, legacy: bool, force: bool, skip_trash: bool, how: RemovalFlags
) -> int:
    """Remove the checkpoints of all projects, pinned and named ones too.

    After that no project can go back to an earlier state. The checkpoints stay in the trash for a
    week (trash_days), and `holdfast undo` brings them back, unless you pass --now. What an older
    layout left stays unless you pass --legacy; `clear-legacy` clears that alone.
    """
    if _has_no_home(invocation):
        return 0
    checkpoints = invocation.checkpoints()
    with progress("measuring the checkpoints"):
        planned = checkpoints.plan_clear(legacy=legacy, use_trash=not skip_trash)
    if not invocation.json:
        left = () if legacy else checkpoints.status().legacy
        _warn(invocation, planned.plan, left, len(planned.names), skip_trash=skip_trash)
    return remove(invocation, planned, replace(how, yes=how.yes or force))


def _warn(
    invocation: Invocation, plan: Plan, left: Sequence[Item], projects: int, *, skip_trash: bool
) -> None:
    """Warn of what is lost, before the plan lists it item by item."""
    going = [each for each in plan.removals if each.kind == CHECKPOINT]
    older = [each for each in plan.removals if each.kind == LEGACY]
    if going or older:
        parts = []
        if going:
            of = format_count(projects, "project")
            parts.append(f"{format_count(len(going), 'checkpoint')} of {of}")
        if older:
            size = format_bytes(sum(each.bytes for each in older))
            parts.append(f"{size} of an older layout")
        lost = "for good" if skip_trash else "unless you undo this"
        text = f"Warning: this removes {' and '.join(parts)}. You lose them {lost}."
        say(text, "bold red")
    if left:
        size = format_bytes(sum(each.bytes for each in left))
        command = f"holdfast {invocation.home_flag}checkpoints clear --legacy"
        say(f"{size} of an older layout stay; `{command}` clears them too.", "dim")
    if going or older or left:
        say()


def _has_no_home(invocation: Invocation) -> bool:
    """True if there is no home, in which case there is nothing to clear, which is not an error.
    Reports that."""
    if invocation.home_path.exists():
        return False
    if invocation.json:
        none = Plan(
            home=str(invocation.home_path),
            command=invocation.command_line,
            made_at=invocation.now,
            items=(),
        )
        print_json({"plan": none.to_json(), "applied": False, "report": None})
    else:
        say(name(f"Nothing to clear: there is no home at {invocation.home_path}."))
    return True


@command(
    "clear-legacy",
    example="holdfast checkpoints clear-legacy --dry-run\n"
    "holdfast checkpoints clear-legacy --force",
)
@_force
@now_option
@removal_options
def clear_legacy(
    invocation: Invocation, /, *, force: bool, skip_trash: bool, how: RemovalFlags
) -> int:
    """Remove what an older layout left: one repository for each directory, moved aside or not.

    They stay in the trash for a week (trash_days), and `holdfast undo` brings them back, unless
    you pass --now. Nothing else removes archives of older layouts.
    """
    if _has_no_home(invocation):
        return 0
    with progress("measuring the checkpoints"):
        planned = invocation.checkpoints().plan_clear_legacy(use_trash=not skip_trash)
    return remove(invocation, planned, replace(how, yes=how.yes or force))

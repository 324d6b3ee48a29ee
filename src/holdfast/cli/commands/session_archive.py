"""`holdfast sessions archive`: pack sessions away, to be found and restored later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Choice, Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.cli.removal import RemovalFlags, removal_options, remove
from holdfast.cli.session_options import (
    filter_options,
    is_given,
    session_filter,
)
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.model.archive import ArchivedSession
    from holdfast.model.plan import Plan
    from holdfast.model.session import SessionFilter

_CODECS = ("zstd", "gzip")


@click.command(
    "archive",
    cls=Command,
    example="holdfast sessions archive 20260325_112518_6995d1\n"
    "holdfast sessions archive --source telegram --older-than 180d --dry-run",
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@filter_options
@click.option("--codec", type=Choice(list(_CODECS)), help="How to compress, for this run.")
@removal_options
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    ids: tuple[str, ...],
    *,
    codec: str | None,
    how: RemovalFlags,
    **flags: Any,
) -> int:
    """Move sessions with their files into the archive: those with these ids, or that filters pick.

    Each becomes one compressed bundle in the archive folder, which is read back and compared
    before anything leaves the store. Archived sessions are found by `list --archived` and
    `search --archived`, and come back whole with `sessions restore` or `holdfast undo`.

    A session that has not ended stays. Pinned ones stay too, unless they are named.
    """
    wanted = _wanted(invocation, ids, flags)
    if codec is not None and how.plan_out is not None:
        raise UsageError(
            "A saved plan does not say how to compress: --codec does not go with --plan-out.",
            hint="Set `codec` of [archive] in config.toml.",
        )
    home = invocation.open_home()
    with progress() as shown:
        planned = home.plan_archive(ids or None, wanted=wanted, codec=codec, progress=shown)
    before = {each.file for each in home.archive.find()}
    code = remove(invocation, planned, how)
    if not invocation.json:
        _tell(invocation, [each for each in home.archive.find() if each.file not in before])
    return max(code, _stayed(planned.plan, ids))


def _wanted(
    invocation: Invocation, ids: tuple[str, ...], flags: dict[str, Any]
) -> SessionFilter | None:
    if not ids and not is_given(flags):
        raise UsageError(
            "Say which sessions to archive: their ids, or filters.",
            hint="For example: holdfast sessions archive --older-than 180d --dry-run",
        )
    if ids and is_given(flags):
        raise UsageError("Give ids or filters, not both.")
    return None if ids else session_filter(invocation, flags)


def _stayed(plan: Plan, ids: tuple[str, ...]) -> int:
    """A session that was named and stays is no success; why it does is said."""
    from holdfast.cli.output import note
    from holdfast.model.item import SESSION

    stayed = [item for item in plan.kept if item.kind == SESSION] if ids else []
    for item in stayed:
        note(f"{item.id} stays: {item.reason}")
    return HoldfastError.exit_code if stayed else 0


def _tell(invocation: Invocation, archived: list[ArchivedSession]) -> None:
    if not archived:
        return
    from holdfast.cli.output import say, suggest
    from holdfast.model.text import format_bytes, format_count

    sessions = format_count(len(archived), "session")
    size = format_bytes(sum(each.archive_bytes for each in archived))
    were = format_bytes(sum(each.session.bytes for each in archived))
    say(f"Archived {sessions}: {were} of messages in {size}. Restore one with:")
    suggest(f"holdfast {invocation.home_flag}sessions restore {archived[0].session.id}")

"""`holdfast sessions delete`: remove sessions by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.removal import RemovalFlags, removal_options, remove
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.model.plan import Plan, PlanItem


@click.command(
    "delete",
    cls=Command,
    example="holdfast sessions delete 20260325_112518_6995d1\n"
    "holdfast sessions delete 20260325 20260326_09 --yes",
)
@click.argument("sessions", nargs=-1, required=True, metavar="ID…")
@click.option("--now", "skip_trash", is_flag=True, help="Skip the trash; this cannot be undone.")
@removal_options
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    sessions: tuple[str, ...],
    skip_trash: bool,
    how: RemovalFlags,
) -> int:
    """Remove sessions by id, or by the start of one if no other begins so; their files go too.

    Delegates that worked for a session go with it, unless they are substantial (trivial_max); in a
    Hermes home all of them go, as in Hermes itself. Other sessions that came from it stay. Files
    of it that a reset put into the archive go as well. You can also name a session that is only in
    the archive.

    A pin does not protect what is named. A session that has not ended does not go, unless its
    process is provably gone: end it first, with `holdfast sessions end`. What goes can be brought
    back with `holdfast undo`. With --now it cannot: then everything that the store, the archive and
    the trash have of it is gone.
    """
    planned = invocation.open_home().plan_delete(sessions, use_trash=not skip_trash)
    refused = _refused(planned.plan)
    _tell(refused, invocation.home_flag)
    code = remove(invocation, planned, how)
    # A session that was named and stays is no success.
    return max(code, HoldfastError.exit_code) if refused else code


def _refused(plan: Plan) -> Sequence[PlanItem]:
    from holdfast.model.item import SESSION

    return [item for item in plan.kept if item.kind == SESSION]


def _tell(refused: Sequence[PlanItem], home_flag: str) -> None:
    """The plan counts what stays; of what somebody named, they want to know which and why."""
    from holdfast.cli.output import note
    from holdfast.policy.lifecycle import NOT_ENDED

    for item in refused:
        why = item.reason.removeprefix("in use: ")
        hint = f" End it: holdfast {home_flag}sessions end {item.id}" if why == NOT_ENDED else ""
        note(f"note: {item.id} stays: {why}.{hint}")

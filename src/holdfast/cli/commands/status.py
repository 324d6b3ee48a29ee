"""`holdfast status`: one screen that says what is here and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress
from holdfast.errors import NotAHomeError

if TYPE_CHECKING:
    from holdfast.config import Settings
    from holdfast.ports import Home


@click.command(cls=Command, example="holdfast status\nholdfast --home ~/agents/one status --json")
@click.pass_obj
def status(invocation: Invocation) -> int:
    """What is on this machine, what it costs, what the policy would free.

    Looks at the home named by --home or $HOLDFAST_HOME, else at every home in its usual place.
    It only reads.
    """
    from holdfast.services.status import status as look

    homes, places = _homes(invocation)
    with progress() as shown:
        found = [
            look(
                home,
                settings.policy(),
                now=invocation.now,
                limits=settings.session_options().limits,
                progress=shown,
            )
            for home, settings in homes
        ]
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(
            {"homes": [each.to_json() for each in found], "looked_at": [str(p) for p in places]}
        )
    else:
        from holdfast.cli.show_status import show_nothing_found, show_status

        for each in found:
            show_status(each, home_flag=invocation.home_flag)
        if not found:
            show_nothing_found(places)
    return 0


def _homes(invocation: Invocation) -> tuple[list[tuple[Home, Settings]], list[Path]]:
    """The homes to show, and the places that were looked at."""
    from holdfast.homes.registry import usual_places

    if invocation.chosen_home is not None:
        return [invocation.open_home()], [invocation.chosen_home]
    places = usual_places(invocation.user_home)
    homes = []
    for place in places:
        try:
            homes.append(invocation.open_home(place))
        except NotAHomeError:
            continue
    return homes, places

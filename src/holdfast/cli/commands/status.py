"""`holdfast status`: one screen that says what is here and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.errors import error_document, print_error
from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation, quoted
from holdfast.cli.progress import progress
from holdfast.errors import HoldfastError, NotAHomeError

if TYPE_CHECKING:
    from holdfast.services.status import HomeStatus


@click.command(cls=Command, example="holdfast status\nholdfast --home ~/agents/one status --json")
@click.pass_obj
def status(invocation: Invocation) -> int:
    """What is on this machine, what it costs, what the policy would free.

    Looks at the home named by --home or $HOLDFAST_HOME, else at every home in its usual place,
    $HERMES_HOME and profiles of Hermes included. It only reads.
    """
    found, failed, places = _look(invocation)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json(
            {
                "homes": [each.to_json() for each in found],
                "failed": [
                    {"home": str(place), **error_document(error)} for place, error in failed
                ],
                "looked_at": [str(place) for place in places],
            }
        )
    else:
        from holdfast.cli.output import say
        from holdfast.cli.show_status import show_nothing_found, show_overview, show_status

        if len(found) > 1:
            show_overview(found)
        for each in found:
            show_status(each, home_flag=_flag_for(invocation, each.inventory.home))
            if each is not found[-1]:
                say()
        if not found and not failed:
            show_nothing_found(places)
    for _, error in failed:
        print_error(error, as_json=False)
    return failed[0][1].exit_code if failed else 0


def _flag_for(invocation: Invocation, home: str) -> str:
    """What a suggested command needs to work on this of several homes."""
    if invocation.chosen_home is not None or Path(home) == invocation.home_path.resolve():
        return invocation.home_flag
    return f"--home {quoted(Path(home))} "


def _look(
    invocation: Invocation,
) -> tuple[list[HomeStatus], list[tuple[Path, HoldfastError]], list[Path]]:
    """The homes to show, those that cannot be, and the places that were looked at."""
    from holdfast.homes.registry import usual_places

    if invocation.chosen_home is not None:
        return [_status(invocation, invocation.chosen_home)], [], [invocation.chosen_home]
    places = usual_places(invocation.user_home, invocation.named_homes)
    found, failed = [], []
    for place in places:
        try:
            found.append(_status(invocation, place))
        except NotAHomeError:
            continue
        except HoldfastError as error:  # one that is damaged does not hide the others
            failed.append((place, error))
    return found, failed, places


def _status(invocation: Invocation, place: Path) -> HomeStatus:
    home = invocation.open_home(place)
    with progress() as shown:
        return home.status(progress=shown)

"""`holdfast fleet`: the machines that share a session store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Group
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import name, print_json, say, table
from holdfast.model.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from holdfast.model.fleet import Fleet, FleetHome


@click.group(cls=Group, example="holdfast fleet status\nholdfast fleet forget old-laptop")
def fleet() -> None:
    """See the machines that share a session store."""


@fleet.command(example="holdfast fleet status\nholdfast fleet status --json")
def status(invocation: Invocation) -> None:
    """Show every machine that shares the store of this home: its homes, what they take on its
    disk, and when it was last heard of and maintained.

    Figures are those that `status` or maintenance last found there; `as of` is their age.
    """
    from holdfast.api.store import fleet_status

    found = fleet_status(invocation.checked_place(invocation.home_path))
    if invocation.json:
        print_json(found.to_json())
    else:
        _show(found)


@fleet.command(example="holdfast fleet forget old-laptop")
@click.argument("machine")
def forget(invocation: Invocation, machine: str) -> None:
    """Leave a machine that will not come back out of `fleet status`.

    Nothing is removed: its sessions and its operations stay. If it is heard of again, it is listed
    again.
    """
    from holdfast.api.store import forget_machine, this_machine

    homes = forget_machine(invocation.checked_place(invocation.home_path), machine)
    if invocation.json:
        print_json({"machine": machine, "homes": [each.home for each in homes]})
    else:
        amount = format_count(len(homes), "home")
        say(f"{machine} with {amount} is not listed any more, unless it is heard of again.")
        if machine == this_machine():
            say("It is this machine: it is listed again as soon as it writes to the store.")


def _show(found: Fleet) -> None:
    amount = f"{format_count(found.sessions, 'session')}, {format_count(found.messages, 'message')}"
    say(name(f"{found.store}: {amount}, {format_bytes(found.bytes)}"))
    if not found.homes and found.forgotten:
        amount = format_count(found.forgotten, "home")
        say(f"{amount} wrote to it and {'is' if found.forgotten == 1 else 'are'} forgotten.")
        say("A home is listed again as soon as its machine is heard of.")
        return
    if not found.homes:
        say("No home has written to it yet. `holdfast maintain` on a machine makes it known.")
        return
    rows = table(
        "machine",
        "home",
        "on disk",
        "as of",
        "maintained",
        "heard of",
        right=("on disk", "as of", "maintained", "heard of"),
        whole=("machine",),
        drops=("as of",),
    )
    for home in found.homes:
        rows.add_row(
            name(home.machine),
            name(home.home),
            "" if home.figures is None else format_bytes(home.figures.bytes),
            _ago(home.figures_age),
            _maintained(home),
            f"{_ago(home.heard)}, gone" if home.gone else _ago(home.heard),
        )
    say(rows)
    total = sum(each.figures.bytes for each in found.homes if each.figures is not None)
    machines = format_count(len({each.machine for each in found.homes}), "machine")
    homes = format_count(len(found.homes), "home")
    say(f"{machines}, {homes}, {format_bytes(total)} on their disks.", "dim")


def _maintained(home: FleetHome) -> str:
    if home.maintained is None:
        return "never"
    return _ago(home.maintained) if home.ok else f"{_ago(home.maintained)}, failed"


def _ago(seconds: float | None) -> str:
    return "" if seconds is None else f"{format_duration(seconds)} ago"

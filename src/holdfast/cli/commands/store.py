"""`holdfast store` and `holdfast fleet`: the database in which several machines keep their
sessions, and these machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.api.store import (
    copy_store,
    fleet_status,
    forget_machine,
    init_store,
    store_sql,
    this_machine,
)
from holdfast.cli.frame import Group
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import name, print_json, say, table
from holdfast.cli.progress import progress
from holdfast.cli.streams import write
from holdfast.errors import HoldfastError
from holdfast.model.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from holdfast.model.fleet import Fleet, FleetHome


@click.group(
    cls=Group,
    example="holdfast config set store.url postgresql://db.example.org/holdfast\n"
    "holdfast store init",
)
def store() -> None:
    """Keep sessions in a PostgreSQL database that many machines use."""


@store.command(
    "init",
    example="holdfast store init\n"
    "holdfast store init --role holdfast_agent\n"
    "holdfast store init --print-sql | psql holdfast",
)
@click.option("--print-sql", is_flag=True, help="Print the statements instead, without connecting.")
@click.option(
    "--role",
    metavar="NAME",
    help="The database user for normal work, who may then read and write rows, and nothing else.",
)
def init(invocation: Invocation, *, print_sql: bool, role: str | None) -> None:
    """Create the tables of the store that `store.url` names, or bring them up to date.

    This is the only command that creates or alters tables, and needs a database user who may do
    that. For all others, a user who may read and write rows is enough. Run it again after an
    upgrade of Holdfast that asks for it.
    """
    place = invocation.checked_place(invocation.home_path)
    made = store_sql(place, role=role) if print_sql else init_store(place, role=role)
    if invocation.json:
        print_json(made.to_json())
    elif print_sql:
        write(made.sql)
    else:
        say(name(f"The store in {made.place} is ready (schema {made.schema})."))


@store.command(
    "copy",
    example="holdfast store copy ~/.holdfast postgresql://db.example.org/holdfast\n"
    "holdfast store copy postgresql://db.example.org/holdfast /backup/sessions.db",
)
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def copy(invocation: Invocation, *, source: str, target: str) -> int:
    """Copy all sessions of a store into an empty one, and compare every byte.

    FROM and TO are a database (postgresql://…), a home, or a file sessions.db. FROM is only read.
    If it is interrupted, run it again: it continues with what is missing. The operation log and the
    trash stay where they are.
    """
    with progress("copying sessions", stoppable=True) as shown:
        done = copy_store(source, target, progress=shown)
    if invocation.json:
        print_json(done.to_json())
    else:
        amount = f"{format_count(done.sessions, 'session')} with "
        amount += format_count(done.messages, "message")
        say(name(f"{done.target} is equal to {done.source}: {amount}, every byte compared."))
        if not done.complete:
            say("The source was changed meanwhile. Stop that, and run the command again:")
            say("only what changed is copied.")
    return 0 if done.complete else HoldfastError.exit_code


@click.group(cls=Group, example="holdfast fleet status\nholdfast fleet forget old-laptop")
def fleet() -> None:
    """List the machines that share a session store."""


@fleet.command(example="holdfast fleet status\nholdfast fleet status --json")
def status(invocation: Invocation) -> None:
    """Show every machine that shares the store of this home: its homes, what they take on its
    disk, and when it was last seen and maintained.

    Figures are those that `status` or maintenance last found there; `as of` is their age.
    """
    found = fleet_status(invocation.checked_place(invocation.home_path))
    if invocation.json:
        print_json(found.to_json())
    else:
        _show_fleet(found)


@fleet.command(example="holdfast fleet forget old-laptop")
@click.argument("machine")
def forget(invocation: Invocation, machine: str) -> None:
    """Stop `fleet status` from listing a machine that is gone.

    Nothing is removed: its sessions and its operations stay. If it is seen again, it is listed
    again.
    """
    homes = forget_machine(invocation.checked_place(invocation.home_path), machine)
    if invocation.json:
        print_json({"machine": machine, "homes": [each.home for each in homes]})
    else:
        amount = format_count(len(homes), "home")
        say(f"{machine} with {amount} is no longer listed, unless it is seen again.")
        if machine == this_machine():
            say("It is this machine, so it is listed again as soon as it writes to the store.")


def _show_fleet(found: Fleet) -> None:
    amount = f"{format_count(found.sessions, 'session')}, {format_count(found.messages, 'message')}"
    say(name(f"{found.store}: {amount}, {format_bytes(found.bytes)}"))
    if not found.homes and found.forgotten:
        amount = format_count(found.forgotten, "home")
        say(f"{amount} wrote to it and {'is' if found.forgotten == 1 else 'are'} forgotten.")
        say("A home is listed again as soon as its machine is seen.")
        return
    if not found.homes:
        say("No home has written to it yet. `holdfast maintain` on a machine adds it.")
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

"""`holdfast store`: the database that machines share for their sessions."""

from __future__ import annotations

import click

from holdfast.cli.frame import Group
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import name, print_json, say
from holdfast.cli.progress import progress
from holdfast.cli.streams import write
from holdfast.errors import HoldfastError
from holdfast.model.text import format_count


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
@click.option(
    "--print-sql", is_flag=True, help="Print the statements instead, and connect to nothing."
)
@click.option(
    "--role",
    metavar="NAME",
    help="The database user of normal work, who may then read and write rows, and nothing else.",
)
def init(invocation: Invocation, *, print_sql: bool, role: str | None) -> None:
    """Create the tables of the store that `store.url` names, or bring them up to date.

    This is the only command that creates or alters tables; it needs a database user who may. All
    others need one who may read and write rows. Run it again after an upgrade of Holdfast that
    asks for it.
    """
    from holdfast.api.store import init_store, store_sql

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
    If it is interrupted, run it again: it goes on with what is missing. The operation log and the
    trash stay where they are.
    """
    from holdfast.api.store import copy_store

    with progress("copying sessions", stoppable=True) as shown:
        done = copy_store(source, target, progress=shown)
    if invocation.json:
        print_json(done.to_json())
    else:
        amount = f"{format_count(done.sessions, 'session')} with "
        amount += format_count(done.messages, "message")
        say(name(f"{done.target} holds what {done.source} holds: {amount}, every byte compared."))
        if not done.complete:
            say("Somebody wrote to the source meanwhile. Stop that, and run the command again:")
            say("only what changed is copied.")
    return 0 if done.complete else HoldfastError.exit_code

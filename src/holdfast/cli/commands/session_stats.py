"""`holdfast sessions stats`: what the sessions of a home add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.progress import progress

if TYPE_CHECKING:
    from holdfast.model.session import Session
    from holdfast.services.status import HomeStatus

_LARGEST = 5


@click.command("stats", cls=Command, example="holdfast sessions stats --json")
@click.pass_obj
def command(invocation: Invocation) -> int:
    """Count sessions by source, age and size; show what the database and the files take."""
    from holdfast.model.session import SessionFilter, SessionOrder
    from holdfast.services.status import status

    home, settings = invocation.open_home()
    with progress() as shown:
        seen = status(
            home,
            settings.policy(),
            now=invocation.now,
            limits=settings.session_options().limits,
            progress=shown,
        )
    store = home.session_store()
    largest: list[Session] = []
    if store is not None:
        largest = list(store.find(SessionFilter(), order_by=SessionOrder.BYTES, limit=_LARGEST))
    if invocation.json:
        from holdfast.cli.output import print_json

        document = seen.to_json()
        document["largest"] = [session.to_json() for session in largest]
        print_json(document)
    else:
        _show(seen, largest, invocation.home_flag)
    return 0


def _show(seen: HomeStatus, largest: list[Session], home_flag: str) -> None:
    from rich.text import Text

    from holdfast.cli.output import name, say, table
    from holdfast.cli.show_plan import kind_name
    from holdfast.cli.show_status import show_next, show_shares
    from holdfast.model.stats import Share
    from holdfast.model.units import format_bytes, format_count

    store = seen.store
    if store is None:
        say("There is no session store in this home.")
    else:
        sessions = f"{format_count(store.sessions, 'session')} ({store.open_sessions:,} open)"
        messages = format_count(store.messages, "message")
        used = f"{store.tokens:,} tokens, cost {store.cost:.2f}"
        say(Text(f"{sessions}, {messages}, {used}", style="bold"))
        say()
        show_shares("source", store.by_source, "sessions")
        show_shares("last active", store.by_age, "sessions")
        show_shares("messages", store.by_size, "sessions")
    disk = [Share(name=kind_name(s.name), count=s.count, bytes=s.bytes) for s in seen.by_kind]
    if store is not None:
        disk += [
            Share(name="database", count=1, bytes=store.database_bytes - store.free_bytes),
            Share(name="free pages in it", count=0, bytes=store.free_bytes),
            Share(name="write-ahead log", count=1, bytes=store.wal_bytes),
        ]
    show_shares("on the disk", disk)
    if largest:
        rows = table("largest", "messages", "size", "title", right=("messages", "size"))
        for session in largest:
            rows.add_row(
                name(session.id),
                f"{session.message_count:,}",
                format_bytes(session.bytes),
                name(session.title or ""),
            )
        say(rows)
        say()
    show_next(seen, home_flag)

"""What `sessions stats` shows to people: the store now, the disk, what was ever used, a tip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from holdfast.cli.output import name, say, suggest, table
from holdfast.cli.show_plan import kind_name
from holdfast.cli.show_status import show_files, show_shares
from holdfast.cli.show_usage import show_usage
from holdfast.model.session import Session
from holdfast.model.text import format_bytes, format_count
from holdfast.model.usage import Share, StoreStats
from holdfast.services.stats import HomeStats


def show_stats(seen: HomeStats, home_flag: str) -> None:
    if seen.store is None:
        say("There is no session store in this home.")
    else:
        _show_store(seen.store)
    show_shares("on the disk", list(_on_the_disk(seen)), "number")
    if seen.largest:
        _show_largest(seen.largest)
    show_files("largest files", seen.largest_files)
    show_usage(seen.costs, home_flag)
    _show_tip(seen, home_flag)


def _show_store(store: StoreStats) -> None:
    sessions = f"{format_count(store.sessions, 'session')} ({store.open_sessions:,} open)"
    messages = format_count(store.messages, "message")
    used = format_count(store.tokens, "token")
    say(Text(f"In the store now: {sessions}, {messages}, {used}", style="bold"))
    say()
    show_shares("source", store.by_source, "sessions")
    show_shares("last active", store.by_age, "sessions")
    show_shares("messages", store.by_size, "sessions")
    show_shares("average message", store.by_average_message, "sessions")


def _on_the_disk(seen: HomeStats) -> Iterator[Share]:
    for share in seen.by_kind:
        yield Share(name=kind_name(share.name), count=share.count, bytes=share.bytes)
    checkpoints = seen.checkpoints
    yield Share(name="checkpoints", count=checkpoints.count, bytes=checkpoints.bytes)
    store = seen.store
    if store is not None:
        yield Share(name="database", count=1, bytes=store.database_bytes - store.free_bytes)
        yield Share(name="free pages in it", count=0, bytes=store.free_bytes)
        yield Share(name="write-ahead log", count=1, bytes=store.wal_bytes)
    yield Share(name="archive", count=seen.inventory.archived, bytes=seen.inventory.archive_bytes)


def _show_largest(largest: Sequence[Session]) -> None:
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


def _show_tip(seen: HomeStats, home_flag: str) -> None:
    tip = seen.tip
    if tip is not None:
        sessions = format_count(tip.sessions, "session is", "sessions are")
        say(
            f"{sessions} {tip.why}: up to {format_bytes(tip.bytes)} of the database, and files "
            "beside it. Have a look first:"
        )
        suggest(f"holdfast {home_flag}{tip.command} --dry-run")
    elif seen.inventory.trash:
        say("No session is old or small enough to go. What was removed is still in the trash:")
        suggest(f"holdfast {home_flag}trash list")
    else:
        say("No session is old or small enough to go. To see what goes when:")
        suggest(f"holdfast {home_flag}config show")

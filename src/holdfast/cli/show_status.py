"""The status screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from holdfast.cli.output import bar, console, name, say, suggest, table, when
from holdfast.cli.show_near import show_near
from holdfast.cli.show_plan import kind_name
from holdfast.model.item import SessionFile
from holdfast.model.text import format_bytes, format_count
from holdfast.model.usage import Share
from holdfast.services.status import HomeStatus

_MOST_SOURCES = 8
_WIDE = 100


def show_overview(found: Sequence[HomeStatus]) -> None:
    """The homes of a machine side by side, one line each."""
    rows = table("home", "agent", "sessions", "size", "policy frees", right=("sessions", "size"))
    for status in found:
        counted = f"{status.store.sessions:,}" if status.store else ""
        freed = format_bytes(status.outlook.bytes) if status.outlook else ""
        rows.add_row(
            name(status.inventory.home, "cyan"),
            _agent(status),
            counted,
            format_bytes(status.inventory.total_bytes),
            freed,
        )
    say(rows)
    say()


def _agent(status: HomeStatus) -> str:
    return status.kind + (f" {status.version}" if status.version else "")


def show_status(status: HomeStatus, *, home_flag: str) -> None:
    inventory = status.inventory
    say(
        Text.assemble(
            (f"{_agent(status)} home ", "bold"),
            name(inventory.home, "bold cyan"),
            (f"  {format_bytes(inventory.total_bytes)}", "bold"),
        )
    )
    say()
    show_shares("what", _what(status), "number")
    if inventory.items:
        show_shares("last active", status.by_age, "items")
        show_shares("source", _main_sources(status.by_source), "items")
    show_near(status.nearness, home_flag)
    _show_large_files(status.large_files, home_flag)
    _show_troubles(status, home_flag)
    show_next(status, home_flag)


def _what(status: HomeStatus) -> list[Share]:
    """The bytes of a home on the disk, by what they are."""
    inventory = status.inventory
    trash_bytes = sum(item.bytes for item in inventory.trash)
    unused = sum(item.bytes for item in inventory.space)
    return [
        *(Share(name=kind_name(s.name), count=s.count, bytes=s.bytes) for s in status.by_kind),
        Share(
            name="trash",
            count=len(inventory.trash),
            bytes=trash_bytes + inventory.loose_trash_bytes,
        ),
        Share(name="unused space", count=0, bytes=unused),
        Share(name="checkpoints", count=status.checkpoints.count, bytes=inventory.checkpoint_bytes),
        Share(name="archive", count=inventory.archived, bytes=inventory.archive_bytes),
        Share(name="operation log", count=0, bytes=inventory.log_bytes),
        Share(name="everything else", count=0, bytes=inventory.rest_bytes),
    ]


def show_shares(title: str, shares: Sequence[Share], counted: str = "files") -> None:
    """One row a share, with a bar for its bytes; rows of nothing at all are left out."""
    total = sum(share.bytes for share in shares)
    width = 30 if console().width >= _WIDE else 20
    rows = table(title, counted, "size", "", right=(counted, "size"))
    rows.columns[0].min_width = 16
    for share in shares:
        if share.count or share.bytes:
            rows.add_row(
                name(share.name),
                f"{share.count:,}" if share.count else "",
                format_bytes(share.bytes),
                bar(share.bytes / total if total else 0.0, width),
            )
    say(rows)
    say()


def show_files(title: str, files: Sequence[SessionFile]) -> None:
    """Single files, the largest first; nothing when there are none."""
    if not files:
        return
    rows = table(title, "size", "last written", right=("size",))
    for each in files:
        rows.add_row(name(each.file), format_bytes(each.bytes), when(each.last_active_at))
    say(rows)
    say()


def _show_large_files(files: Sequence[SessionFile], home_flag: str) -> None:
    show_files("too large", files)
    if files:
        say("Each of these files is larger than one session may be (max_size_mb in [sessions]).")
        say("To remove files of old sessions and keep the sessions, have a look first:")
        suggest(f"holdfast {home_flag}sessions prune --files-only --older-than 7d --dry-run")
        say()


def _main_sources(shares: Sequence[Share]) -> list[Share]:
    shown, rest = list(shares[:_MOST_SOURCES]), shares[_MOST_SOURCES:]
    if rest:
        shown.append(
            Share(
                name=format_count(len(rest), "other"),
                count=sum(share.count for share in rest),
                bytes=sum(share.bytes for share in rest),
            )
        )
    return shown


def _show_troubles(status: HomeStatus, home_flag: str) -> None:
    for operation in status.unfinished:
        say(
            Text(
                f"Operation {operation} is still running, or was interrupted; the next command "
                f"that changes this home settles it. See `holdfast {home_flag}log`.",
                style="yellow",
            )
        )
    for problem in status.problems:
        say(Text.assemble(name(problem.path, "yellow"), (f": {problem.reason}", "yellow")))
    if status.unfinished or status.problems:
        say()


def show_next(status: HomeStatus, home_flag: str) -> None:
    outlook = status.outlook
    if outlook is None:
        say("The policy is empty, so nothing is ever removed. Set one:")
        suggest(f"holdfast {home_flag}config init")
    elif outlook.removals:
        say(
            f"The policy would remove {format_count(outlook.removals, 'item')} and free "
            f"{format_bytes(outlook.bytes)}. Have a look first:"
        )
        suggest(f"holdfast {home_flag}sessions prune --dry-run")
    elif status.inventory.trash:
        say("Nothing more to remove by the policy. What was removed is still in the trash:")
        suggest(f"holdfast {home_flag}trash list")
    elif status.inventory.items:
        say("Everything here is within the policy. To see the policy:")
        suggest(f"holdfast {home_flag}config show")
    elif status.inventory.checkpoint_bytes:
        say("There are no sessions here yet. To see the checkpoints:")
        suggest(f"holdfast {home_flag}checkpoints")
    else:
        say("There are no sessions here yet. To see how Holdfast works:")
        suggest("holdfast demo")


def show_nothing_found(places: Sequence[Path]) -> None:
    say(Text("No agent homes found.", style="bold"))
    say("Looked for:")
    for place in places:
        say(Text.assemble("  ", name(str(place))))
    say()
    say("Name another folder with --home, make one, or see Holdfast at work on a sample:")
    suggest("holdfast --home PATH status")
    suggest("holdfast config init")
    suggest("holdfast demo")

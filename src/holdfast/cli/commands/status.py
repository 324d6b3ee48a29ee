"""`holdfast status`: one screen with what is on the machine and what to do next."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.budget_words import amount_of, day_of, unit_of
from holdfast.api.place import listed_homes
from holdfast.api.values import HomeStatus, Remedy
from holdfast.cli.frame import command
from holdfast.cli.homes import failed_json, tell_unread, with_doctor
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import (
    bar,
    joined,
    name,
    print_json,
    say,
    show_no_sessions,
    styled,
    suggest,
    table,
    when,
    width,
)
from holdfast.cli.progress import progress
from holdfast.cli.show_growth import show_growth
from holdfast.cli.show_machine import (
    PROJECT_LINES,
    agent_label,
    helps_json,
    sessions_in,
    show_in_projects,
    show_machine,
    show_remedy,
    show_threat,
)
from holdfast.errors import HoldfastError
from holdfast.model.figures import Growth
from holdfast.model.guard import Nearness
from holdfast.model.item import SESSION, SessionFile
from holdfast.model.plan_words import kind_name
from holdfast.model.text import format_bytes, format_count, format_duration
from holdfast.model.usage import Share

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome, UnreadHome
    from holdfast.api.values import CheckpointCount
    from holdfast.model.alarm import Alarm

_MOST_SOURCES = 8
#: How many lines an alarm takes.
_ALARM_LINES = 3
#: Parts of the messages about a file or folder that another user owns, or that cannot be read.
_CLOSED = ("cannot be read", "Permission denied")
_WIDE = 100
_MOST = 10
_WIDTH = 10


@command(example="holdfast status\nholdfast --home ~/agents/one status --json")
def status(invocation: Invocation) -> int:
    """Show what is on this machine, what it costs and what the policy would free.

    Looks at the home named by --home or $HOLDFAST_HOME, else at the homes of all agents: in their
    usual places, in $CODEX_HOME and similar variables, in Hermes profiles, and in `homes` from the
    configuration. Several homes get one line each; --home shows one in full. Projects that aider
    shares with another agent are listed too. It changes nothing that agents wrote; it caches what
    it found in the folder .holdfast of each home, so that the next look is quick.
    """
    try:
        seen, unread, places, more, grown = _look(invocation)
    except HoldfastError as error:
        raise with_doctor(error) from None
    alarms = _alarms(invocation)
    going_on = [each for each in alarms if each.active]
    if not invocation.json:
        _show_alarms(going_on)
    if invocation.json:
        print_json(
            {
                "homes": [each.to_json() for _, each in seen],
                "alarms": [each.to_json() for each in alarms],
                "growth": grown.to_json(),
                "helps": helps_json(seen, invocation.home_flag),
                "failed": failed_json(unread),
                "looked_at": [str(place) for place in places],
                "in_projects": [{"home": str(e.path), "agent": e.agent} for e in more],
            }
        )
    elif len(seen) > 1:
        show_machine(
            [(home, each) for home, each in seen if home is not None],
            grown,
            below=(PROJECT_LINES if more else 0) + _ALARM_LINES * len(going_on),
        )
    elif seen:
        show_status(seen[0][1], invocation.now, home_flag=invocation.home_flag)
    elif not unread:
        show_nothing_found(places)
    if more and not invocation.json:
        show_in_projects(more, listed_homes(invocation.user_home, os.environ))
    return tell_unread(unread)


def _alarms(invocation: Invocation) -> Sequence[Alarm]:
    """What grows too fast, if a watcher noticed it."""
    chosen = invocation.chosen_home
    if chosen is None:
        return invocation.machine.alarms()
    return invocation.open_home(chosen).alarms()


def _show_alarms(going_on: Sequence[Alarm]) -> None:
    for each in going_on:
        say(name(each.message, "bold red"))
    if going_on:
        say()


def _look(
    invocation: Invocation,
) -> tuple[
    Sequence[tuple[AgentHome | None, HomeStatus]],
    Sequence[UnreadHome],
    Sequence[Path],
    Sequence[AgentHome],
    Growth,
]:
    """The homes to show, those that cannot be read, the places that were searched, homes in
    projects that are not in the configuration, and how the homes grew together."""
    if invocation.chosen_home is not None:
        home = invocation.open_home(invocation.chosen_home)
        with progress("looking at the home") as shown:
            found = home.status(progress=shown)
        return [(None, found)], (), (invocation.chosen_home,), (), found.growth
    invocation.warn()
    machine = invocation.machine
    with progress("looking at all homes") as shown:
        looked = machine.status(progress=shown)
    if len(looked.seen) == 1 and looked.seen[0][0].path != invocation.home_path.resolve():
        invocation.choose(looked.seen[0][0])  # so that suggested commands name it
    return looked.seen, looked.unread, machine.looked_at, looked.in_projects, looked.growth


def show_status(status: HomeStatus, now: float, *, home_flag: str) -> None:
    inventory = status.inventory
    say(
        joined(
            (f"{agent_label(status.kind, status)} home ", "bold"),
            name(inventory.home, "bold cyan"),
            (f"  {format_bytes(inventory.total_bytes)}", "bold"),
        )
    )
    show_growth(status.growth, log_fits=status.log_fits)
    say()
    show_shares("what", _what(status), "number")
    if inventory.reserve_bytes:
        aside = format_bytes(inventory.reserve_bytes)
        say(f"Plus a reserve of {aside} for a full disk, shared by all homes on it.")
        say()
    if inventory.items:
        show_shares("last active", status.by_age, "items")
        show_shares("source", _main_sources(status.by_source), "items")
    _show_checkpoints(status.checkpoints, now, home_flag)
    show_near(status.nearness, home_flag)
    _show_large_files(status.large_files, home_flag)
    _show_troubles(status, home_flag)
    show_threat(status, home_flag)
    show_next(status, home_flag)


def _show_checkpoints(found: CheckpointCount, now: float, home_flag: str) -> None:
    if found.last_touch is None:
        return
    count = format_count(found.count, "checkpoint")
    projects = format_count(found.projects, "project")
    ago = format_duration(max(0.0, now - found.last_touch))
    told = f"{count} of {projects}, the last used {ago} ago."
    suggest(told, "To see them:", f"holdfast {home_flag}checkpoints")
    say()


def _what(status: HomeStatus) -> list[Share]:
    """The bytes of a home on the disk, by kind."""
    inventory = status.inventory
    unused = sum(item.bytes for item in inventory.space)
    stored = sum(share.bytes for share in status.by_kind if share.name == SESSION)
    others = [share for share in status.by_kind if share.name != SESSION]
    return [
        Share(name=kind_name(SESSION), count=sessions_in(status), bytes=stored),
        *(Share(name=kind_name(s.name), count=s.count, bytes=s.bytes) for s in others),
        Share(
            name="trash",
            count=len(inventory.trash),
            bytes=inventory.trash_bytes,
        ),
        Share(name="unused space", count=0, bytes=unused),
        Share(
            name="checkpoints",
            count=status.checkpoints.count,
            bytes=inventory.checkpoint_bytes - inventory.legacy_bytes,
        ),
        Share(name="older checkpoints", count=0, bytes=inventory.legacy_bytes),
        Share(name="archive", count=inventory.archived, bytes=inventory.archive_bytes),
        Share(
            name="vault",
            count=status.vault.alone if status.vault else 0,
            bytes=inventory.vault_bytes,
        ),
        Share(name="operation log", count=0, bytes=inventory.log_bytes),
        Share(name="empty database", count=0, bytes=inventory.empty_database_bytes),
        Share(name="everything else", count=0, bytes=inventory.rest_bytes),
    ]


def show_shares(title: str, shares: Sequence[Share], counted: str = "files") -> None:
    """Show one row per share, with a bar for its bytes; empty rows are left out."""
    total = sum(share.bytes for share in shares)
    bar_width = 30 if width() >= _WIDE else 20
    rows = table(title, counted, "size", "", right=(counted, "size"), cut=(title,))
    rows.columns[0].min_width = 16
    for share in shares:
        if share.count or share.bytes:
            rows.add_row(
                name(share.name),
                f"{share.count:,}" if share.count else "",
                format_bytes(share.bytes),
                bar(share.bytes / total if total else 0.0, bar_width),
            )
    say(rows)
    say()


def show_files(title: str, files: Sequence[SessionFile]) -> None:
    """Show single files, the largest first; nothing if there are none."""
    if not files:
        return
    rows = table(
        title,
        "size",
        "last written",
        right=("size", "last written"),
        front=(title,),
        drops=("last written",),
    )
    for each in files:
        rows.add_row(name(each.file), format_bytes(each.bytes), when(each.last_active_at))
    say(rows)
    say()


def _show_large_files(files: Sequence[SessionFile], home_flag: str) -> None:
    show_files("too large", files)
    if files:
        say("Each of these files is larger than one session may be (max_size_mb in [sessions]).")
        preview = f"holdfast {home_flag}sessions prune --files-only --older-than 7d --dry-run"
        suggest("", "To see which files of old sessions can go, while the sessions stay:", preview)
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
            f"Operation {operation} is still running, or was interrupted; the next command "
            f"that changes this home settles it. See `holdfast {home_flag}log`.",
            "yellow",
        )
    for problem in status.problems:
        say(joined(name(problem.path, "yellow"), (f": {problem.reason}", "yellow")))
    if any(words in each.reason for each in status.problems for words in _CLOSED):
        suggest("", "To see what is wrong and what to do:", f"holdfast {home_flag}doctor")
    if status.unfinished or status.problems:
        say()


def show_next(status: HomeStatus, home_flag: str) -> None:
    outlook, best = status.outlook, status.freeable.best
    if status.inventory.read_only:
        say("Nothing can be removed here: this home can only be read.")
    elif outlook is None:
        told = "The policy is empty, so nothing is ever removed."
        suggest(told, "To set one:", f"holdfast {home_flag}config init")
    elif outlook.removals or best is Remedy.LEFTOVERS:
        show_remedy(best or Remedy.PRUNE, status, home_flag)
    elif status.inventory.trash:
        told = "The policy has nothing more to remove."
        listing = f"holdfast {home_flag}trash list"
        suggest(told, "What was removed is still in the trash:", listing)
    elif status.inventory.items:
        told = "Nothing here exceeds the policy."
        suggest(told, "To see the policy:", f"holdfast {home_flag}config show")
    elif status.inventory.checkpoint_bytes:
        told = "There are no sessions here yet."
        if status.checkpoints.last_touch is None:
            suggest(told, "To see the checkpoints:", f"holdfast {home_flag}checkpoints")
        else:
            say(told)  # the line about the checkpoints says how to see them
    else:
        show_no_sessions()


def show_nothing_found(places: Sequence[Path]) -> None:
    say("No agent homes found.", "bold")
    say("Looked for:")
    for place in places:
        say(joined("  ", name(str(place))))
    say()
    suggest(
        "",
        "Name another folder with --home, create a home, or try Holdfast on a sample:",
        "holdfast --home FOLDER status",
        "holdfast config init",
        "holdfast demo",
    )


def show_near(nearness: Nearness, home_flag: str) -> None:
    """Show a row for each, the nearest first; nothing if there are none."""
    if nearness.near:
        numbers = ("used", "limit", "share")
        rows = table("near a limit", "what", *numbers, "", right=numbers, whole=("near a limit",))
        rows.columns[0].min_width = 16
        for near in nearness.near[:_MOST]:
            rows.add_row(
                name(near.session if near.session is not None else day_of(near)),
                unit_of(near.what),
                amount_of(near.what, near.used),
                amount_of(near.what, near.limit),
                styled(f"{int(near.share * 100)} %", style="red" if near.share >= 1 else "yellow"),
                bar(min(1.0, near.share), _WIDTH),
            )
        say(rows)
        if more := nearness.near[_MOST:]:
            say(f"and {len(more):,} more", "dim")
        say()
    if nearness.unknown_cost:
        budgets = format_count(nearness.unknown_cost, "cost budget", "cost budgets")
        told = f"{budgets} cannot be enforced: some of the usage has no known cost."
        costs = f"holdfast {home_flag}sessions stats --cost"
        suggest(styled(told, "yellow"), "To see which:", costs)
        say()

"""All homes of a machine on one screen: one line each, the largest first, and what to do."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.api.agent_home import title_of
from holdfast.api.values import Freeable, Remedy, freeable_together
from holdfast.cli import plain
from holdfast.cli.invocation import quoted
from holdfast.cli.output import bar, name, say, suggest, table
from holdfast.cli.show_growth import is_urgent, lines_of, show_growth
from holdfast.cli.streams import state
from holdfast.model.item import SESSION
from holdfast.model.text import format_bytes, format_count
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.values import HomeStatus
    from holdfast.model.figures import Growth
    from holdfast.model.plan import Outlook

    Seen = tuple[AgentHome, HomeStatus]

_NARROW = 6
#: Lines of a screen that are not homes: the header, the sum, what to do, the prompt.
_AROUND = 9
#: The same in the shortest form, which is used if all homes fit only then.
_TIGHT = 5
#: Lines that name projects.
PROJECT_LINES = 4
#: Lines that warn what agents will delete.
_THREAT_LINES = 2
_FEWEST = 5
_MOST_TROUBLES = 3
_NUMBERS = ("sessions", "in use", "size", "leftovers", "in trash", "policy frees")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """The contents of a line. `frees` are bytes that the policy would give back to the file
    system."""

    sessions: int
    in_use: int
    size: int
    leftovers: int
    trash: int
    frees: int


def show_machine(seen: Sequence[Seen], growth: Growth, *, below: int = 0) -> None:
    """Show the homes. On a terminal, those that do not fit on the screen share a line. `below` is
    the number of lines that the caller adds."""
    lines = [(agent_label(home.label, status), _figures(status)) for home, status in seen]
    lines.sort(key=lambda line: line[1].size, reverse=True)
    together = _sum(figures for _, figures in lines)
    troubled = [(home, n) for home, status in seen if (n := _troubles(status))]
    threatened = any(status.threat for _, status in seen)
    below += _THREAT_LINES * threatened
    log_fits = any(status.log_fits for _, status in seen)
    trend = lines_of(growth, log_fits=log_fits)
    most, tight = _most(len(lines), below + trend, len(troubled))
    if most < len(lines) and trend and not is_urgent(growth):
        without = _most(len(lines), below, len(troubled))
        if without[0] == len(lines):  # a line for each home is worth more than the trend
            (most, tight), trend = without, 0
    shown, rest = lines[:most], lines[most:]
    if rest:
        shown.append((f"{len(rest)} more", _sum(figures for _, figures in rest)))
    drops = ("in use", "in trash", "leftovers")
    rows = table("agent", *_NUMBERS, "", right=_NUMBERS, whole=("agent",), drops=drops)
    for label, each in [*shown, ("total", together)]:
        share = each.size / together.size if together.size else 0.0
        last = label == "total"
        rows.add_row(
            name(label, "bold" if last else "cyan"),
            f"{each.sessions:,}",
            f"{each.in_use:,}" if each.in_use else "",
            format_bytes(each.size),
            *(format_bytes(n) if n else "" for n in (each.leftovers, each.trash, each.frees)),
            "" if last else bar(share, _NARROW),
        )
    say(rows)
    if trend:
        show_growth(growth, log_fits=log_fits)
    if not tight:
        say()
    _show_troubles(troubled)
    show_what_helps(seen, tight=tight)
    show_threats(seen)


def show_in_projects(found: Sequence[AgentHome], listed: Sequence[str]) -> None:
    """Show homes in projects of the user, and the command that includes them in the list."""
    agents = ", ".join(sorted({home.title for home in found}))
    shown = ", ".join(str(home.path) for home in found[:_MOST_TROUBLES])
    more = f" and {len(found) - _MOST_TROUBLES:,} more" if found[_MOST_TROUBLES:] else ""
    projects = format_count(len(found), "project")
    say()
    told = f"{agents} was used in {projects} of yours: {shown}{more}."
    homes = " ".join(quoted(path) for path in (*listed, *(str(home.path) for home in found)))
    listing = f"holdfast --home holdfast config set homes {homes}"
    suggest(told, "To see them with the others:", listing)


def _sum(figures: Iterable[_Figures]) -> _Figures:
    found = list(figures)
    fields = _Figures.__slots__
    return _Figures(**{field: sum(getattr(each, field) for each in found) for field in fields})


def _most(homes: int, below: int, troubled: int) -> tuple[int, bool]:
    """How many homes get a line of their own, and whether the rest of the screen has to be in the
    shortest form. A pipe gets all homes."""
    if plain.is_enough():
        return homes, False
    lines = shutil.get_terminal_size().lines - below
    room = max(_FEWEST, lines - _AROUND)
    if homes <= room:
        return homes, False
    if homes <= lines - _TIGHT - min(troubled, _MOST_TROUBLES + 1):
        return homes, True
    return room - 1, False


def _figures(status: HomeStatus) -> _Figures:
    inventory = status.inventory
    return _Figures(
        sessions=sessions_in(status),
        in_use=sum(item.kind == SESSION and item.in_use for item in inventory.items),
        size=inventory.total_bytes,
        leftovers=status.freeable.leftovers,
        trash=inventory.trash_bytes,
        frees=status.outlook.frees if status.outlook else 0,
    )


def sessions_in(status: HomeStatus) -> int:
    """The number of sessions as in a list: including subagents, also those in the file of their
    session."""
    if status.store:
        return status.store.sessions
    return sum(item.kind == SESSION for item in status.inventory.items)


def agent_label(label: str, status: HomeStatus) -> str:
    return label + (f" {status.version}" if status.version else "")


def _show_troubles(troubled: Sequence[tuple[AgentHome, int]]) -> None:
    for home, number in troubled[:_MOST_TROUBLES]:
        count = format_count(number, "problem")
        flag = f"--home {quoted(home.name)}"
        say(name(f"{home.label}: {count}; see holdfast {flag} status", "yellow"))
    if more := troubled[_MOST_TROUBLES:]:
        said = format_count(len(more), "more home")
        say(name(f"{said} with problems; see holdfast status --json", "yellow"))


def _troubles(status: HomeStatus) -> int:
    """The number of problems that need attention. Problems that occur in every home of an agent do
    not."""
    return sum(not each.usual for each in status.problems) + len(status.unfinished)


# --- The one command that gives back most room, in all homes or in one ----------------------------


def helps_json(seen: Sequence[tuple[AgentHome | None, HomeStatus]], home_flag: str) -> Any:
    """For a program: which measure helps, how much it frees, and by which command."""
    found = freeable_together(status.freeable for _, status in seen)
    best = found.best
    if best is None:
        return None
    homes = [(home, status) for home, status in seen if home is not None]
    command = _command(best, homes) if homes else _one_command(best, home_flag)
    return {"what": best.value, "bytes": found.bytes_of(best), "command": command}


def show_what_helps(seen: Sequence[Seen], *, tight: bool) -> None:
    """Show which measure frees most. `tight` is a form of one sentence and a command."""
    found = freeable_together(status.freeable for _, status in seen)
    outlooks = [status.outlook for _, status in seen if status.outlook]
    best = found.best
    if best is Remedy.PRUNE:
        if tight:
            suggest("", "To see what the policy would remove:", _command(best, seen))
        else:
            suggest(would_words(outlooks), "Have a look first:", _command(best, seen))
            if not state.quiet:  # --now is for the command above
                say("What is removed stays in the trash; add --now to free the space at once.")
    elif best is Remedy.TRASH:
        told = f"{format_bytes(found.trash)} is in the trash."
        suggest(told, "To free the space now, for good:", _command(best, seen))
    elif best is Remedy.LEFTOVERS:
        _show_leftovers(seen, found, outlooks, tight=tight)
    elif seen:
        home, _ = max(seen, key=lambda each: each[1].inventory.total_bytes)
        said = "" if tight else "Nothing here exceeds the policy. "
        largest = f"holdfast sessions list --home {quoted(home.name)} --sort size"
        suggest(f"{said}Most of it is in {home.label}.", "To see the largest sessions:", largest)


def show_remedy(remedy: Remedy, status: HomeStatus, home_flag: str) -> None:
    """The same for one home."""
    size = format_bytes(status.freeable.bytes_of(remedy))
    if remedy is Remedy.PRUNE:
        told = would_words([status.outlook] if status.outlook else [])
        hint = "Have a look first:"
    elif remedy is Remedy.TRASH:
        told, hint = f"{size} is in the trash.", "To free the space now, for good:"
    else:
        told = (
            f"{size} is leftovers that no session needs, such as logs, caches and copies of "
            "programs. They stay until you say how long to keep them."
        )
        hint = "To have them pruned after 30 days:"
    suggest(told, hint, _one_command(remedy, home_flag))


def show_threats(seen: Sequence[Seen]) -> None:
    """Warn of agents that will delete sessions soon, with the command that keeps them."""
    found = [(home, status.threat) for home, status in seen if status.threat is not None]
    if not found:
        return
    number = sum(threat.sessions for _, threat in found)
    sessions = format_count(number, "unused session")
    agents = " and ".join(home.label for home, _ in found)
    where = f"--home {quoted(found[0][0].name)}" if len(found) == 1 else "--all-homes"
    told = f"{agents} will soon delete {sessions}."
    hint = f"To keep {'it' if number == 1 else 'them'} anyway:"
    suggest(told, hint, f"holdfast vault on {where}")


def show_threat(status: HomeStatus, home_flag: str) -> None:
    """The same for one home."""
    if status.threat is None:
        return
    days = f"{status.threat.sweep.days:g} days"
    number = status.threat.sessions
    goes = f"{number:,} of them {'goes' if number == 1 else 'go'} within a week"
    told = (
        f"{title_of(status.kind)} deletes sessions not used for {days} "
        f"({status.threat.sweep.setting}); {goes}."
    )
    suggest(told, "To keep what it deletes:", f"holdfast {home_flag}vault on")
    say()


def would_words(outlooks: Sequence[Outlook]) -> str:
    """What the policy would remove, and what that frees: on the disk, and inside databases of
    agents, whose files do not shrink."""
    items = format_count(sum(each.removals for each in outlooks), "item")
    frees = sum(each.frees for each in outlooks)
    in_rows = format_bytes(sum(each.in_rows for each in outlooks))
    databases = sum(bool(each.in_rows) for each in outlooks)
    where = "inside the agent's database" if databases == 1 else "inside agents' databases"
    whose = "whose file does" if databases == 1 else "whose files do"
    free = format_bytes(frees)
    if databases and frees:
        more = f"Another {in_rows} would be freed {where}, {whose} not shrink."
        return f"The policy would remove {items} and free {free}. {more}"
    if databases:
        free = f"{in_rows} {where}, {whose} not shrink"
    return f"The policy would remove {items} and free {free}."


def _show_leftovers(
    seen: Sequence[Seen], found: Freeable, outlooks: Sequence[Outlook], *, tight: bool
) -> None:
    most, home = format_bytes(found.leftovers), _largest(Remedy.LEFTOVERS, seen)
    if tight:
        told = f"{most} is leftovers, most of it in {home.label}."
        suggest(told, "To see what they are:", f"holdfast status --home {quoted(home.name)}")
        return
    told = (
        f"{most} is leftovers that no session needs, such as logs, caches and "
        f"copies of programs, most of it in {home.label}."
    )
    suggest(told, "To see what they are:", f"holdfast status --home {quoted(home.name)}")
    told = "They stay until you say how long to keep them."
    suggest(told, "To have them pruned after 30 days:", _command(Remedy.LEFTOVERS, seen))
    if found.policy:
        suggest(would_words(outlooks), "Have a look first:", _command(Remedy.PRUNE, seen))


def _command(remedy: Remedy, seen: Sequence[Seen]) -> str:
    if remedy is Remedy.LEFTOVERS:
        return _one_command(remedy, f"--home {quoted(_largest(remedy, seen).name)} ")
    homes = [home for home, status in seen if status.freeable.bytes_of(remedy)]
    where = f"--home {quoted(homes[0].name)}" if len(homes) == 1 else "--all-homes"
    return {
        Remedy.PRUNE: f"holdfast sessions prune {where} --dry-run",
        Remedy.TRASH: f"holdfast trash empty {where}",
    }[remedy]


def _one_command(remedy: Remedy, home_flag: str) -> str:
    return {
        Remedy.PRUNE: f"holdfast {home_flag}sessions prune --dry-run",
        Remedy.TRASH: f"holdfast {home_flag}trash empty",
        Remedy.LEFTOVERS: f"holdfast {home_flag}config set sessions.leftovers_retention_days 30",
    }[remedy]


def _largest(remedy: Remedy, seen: Sequence[Seen]) -> AgentHome:
    return max(seen, key=lambda each: each[1].freeable.bytes_of(remedy))[0]

"""All homes of a machine on one screen: a line each, what helps most first, and what to do."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.cli import plain
from holdfast.cli.invocation import quoted
from holdfast.cli.output import bar, name, say, suggest, table
from holdfast.cli.show_growth import is_urgent, lines_of, show_growth
from holdfast.cli.what_helps import show_threats, show_what_helps
from holdfast.model.item import SESSION
from holdfast.model.text import format_bytes, format_count
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.values import HomeStatus
    from holdfast.model.figures import Growth

    Seen = tuple[AgentHome, HomeStatus]

_NARROW = 6
#: Lines of a screen that are not homes: the head, the sum, what to do, the prompt.
_AROUND = 9
#: The same with the fewest words, where only so all homes fit.
_TIGHT = 5
#: Those that name projects.
PROJECT_LINES = 4
#: Those that say what agents will delete.
_THREAT_LINES = 2
_FEWEST = 5
_MOST_TROUBLES = 3
_NUMBERS = ("sessions", "in use", "size", "leftovers", "in trash", "policy frees")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """What a line says. `frees` are bytes that the file system would get back by the policy."""

    sessions: int
    in_use: int
    size: int
    leftovers: int
    trash: int
    frees: int

    @property
    def helps(self) -> tuple[int, int]:
        """By this the homes are sorted: what can be freed, then what is there."""
        return self.frees + self.trash + self.leftovers, self.size


def show_machine(seen: Sequence[Seen], growth: Growth, *, below: int = 0) -> None:
    """On a terminal, the homes that do not fit on the screen share a line. `below` are lines that
    the caller adds."""
    lines = [(agent_label(home.label, status), _figures(status)) for home, status in seen]
    lines.sort(key=lambda line: line[1].helps, reverse=True)
    together = _sum(figures for _, figures in lines)
    troubled = _troubled(seen)
    threatened = any(status.threat for _, status in seen)
    below += _THREAT_LINES * threatened
    trend = lines_of(growth)
    most, tight = _most(len(lines), below + trend, len(troubled))
    if most < len(lines) and trend and not is_urgent(growth):
        without = _most(len(lines), below, len(troubled))
        if without[0] == len(lines):  # a line for each home is worth more
            (most, tight), trend = without, 0
    shown, rest = lines[:most], lines[most:]
    if rest:
        shown.append((f"{len(rest)} more", _sum(figures for _, figures in rest)))
    drops = ("in use", "in trash", "leftovers")
    rows = table("agent", *_NUMBERS, "", right=_NUMBERS, whole=("agent",), drops=drops)
    for label, each in [*shown, ("together", together)]:
        share = each.size / together.size if together.size else 0.0
        last = label == "together"
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
        show_growth(growth)
    if not tight:
        say()
    _show_troubles(troubled)
    show_what_helps(seen, tight=tight)
    show_threats(seen)


def show_in_projects(found: Sequence[AgentHome], listed: Sequence[str]) -> None:
    """Homes in projects of the user, and the command that has them listed with the others."""
    agents = ", ".join(sorted({home.title for home in found}))
    shown = ", ".join(str(home.path) for home in found[:_MOST_TROUBLES])
    more = f" and {len(found) - _MOST_TROUBLES:,} more" if found[_MOST_TROUBLES:] else ""
    projects = format_count(len(found), "project")
    say()
    say(f"{agents} was used in {projects} of yours: {shown}{more}. To see them with the others:")
    homes = " ".join(quoted(path) for path in (*listed, *(str(home.path) for home in found)))
    suggest(f"holdfast --home holdfast config set homes {homes}")


def _sum(figures: Iterable[_Figures]) -> _Figures:
    found = list(figures)
    fields = _Figures.__slots__
    return _Figures(**{field: sum(getattr(each, field) for each in found) for field in fields})


def _most(homes: int, below: int, troubled: int) -> tuple[int, bool]:
    """How many homes get a line of their own, and whether few words are left for the rest of the
    screen. A pipe takes all of them."""
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
    """As a list counts them: with subagents, also those that lie in the file of their session."""
    if status.store:
        return status.store.sessions
    return sum(item.kind == SESSION for item in status.inventory.items)


def agent_label(label: str, status: HomeStatus) -> str:
    return label + (f" {status.version}" if status.version else "")


def _troubled(seen: Sequence[Seen]) -> list[tuple[AgentHome, int]]:
    return [(home, n) for home, status in seen if (n := _troubles(status))]


def _show_troubles(troubled: Sequence[tuple[AgentHome, int]]) -> None:
    for home, number in troubled[:_MOST_TROUBLES]:
        count = format_count(number, "problem")
        flag = f"--home {quoted(home.name)}"
        say(name(f"{home.label}: {count}; see holdfast {flag} status", "yellow"))
    if more := troubled[_MOST_TROUBLES:]:
        said = format_count(len(more), "more home")
        say(name(f"{said} with problems; see holdfast status --json", "yellow"))


def _troubles(status: HomeStatus) -> int:
    """What is so in every home of an agent needs nobody's attention."""
    return sum(not each.usual for each in status.problems) + len(status.unfinished)

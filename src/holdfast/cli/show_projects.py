"""Projects that have checkpoints, and what older layouts left, as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from holdfast.cli.output import console, name, say, table
from holdfast.model.checkpoint import Project, ProjectState
from holdfast.model.item import Item
from holdfast.model.text import format_bytes, format_duration, one_line

_STATES = {
    ProjectState.LIVE: "green",
    ProjectState.STALE: "yellow",
    ProjectState.UNMOUNTED: "yellow",
    ProjectState.MISSING: "red",
}
_COLUMNS = ("project", "state", "checkpoints", "last used", "size")
_NUMBERS = ("checkpoints", "last used", "size")
_GAP = 2
_NARROWEST = 12
_ARCHIVE = "legacy-"


def show_projects(projects: Sequence[Project], now: float, *, limit: int | None) -> None:
    """The last used first, one line each: a path that is too long loses its beginning."""
    ordered = sorted(projects, key=lambda each: -each.last_touch)
    shown = ordered[:limit]
    cells = [
        (
            each.state.value,
            f"{each.checkpoints:,}",
            _ago(now - each.last_touch),
            "" if each.bytes is None else format_bytes(each.bytes),
        )
        for each in shown
    ]
    columns = _COLUMNS if any(row[-1] for row in cells) else _COLUMNS[:-1]
    width = _left_for_paths(columns, cells)
    rows = table(*columns, right=_NUMBERS)
    for column in rows.columns:
        column.no_wrap = True
    for each, (state, *numbers) in zip(shown, cells, strict=True):
        by = f" (by {each.by})" if each.by else ""
        path = Text(from_the_left(each.workdir, width - len(by)) + by)
        rows.add_row(path, Text(state, style=_STATES[each.state]), *numbers[: len(columns) - 2])
    say(rows)
    if len(shown) < len(ordered):
        rest = len(ordered) - len(shown)
        say(Text(f"… and {rest:,} more; --limit {len(ordered)} shows them all.", style="dim"))


def show_older(legacy: Sequence[Item], older: Mapping[str, Project], now: float) -> None:
    """Archives of older layouts, and repositories that were not moved aside yet."""
    rows = table("older layout", "size", "since", "of", right=("size",))
    for column in rows.columns:
        column.no_wrap = True
    for each in sorted(legacy, key=lambda each: -each.last_active_at):
        project = older.get(each.id)
        ago = _ago(now - each.last_active_at)
        since = f"moved {ago}" if each.id.startswith(_ARCHIVE) else f"used {ago}"
        workdir = "" if project is None else from_the_left(project.workdir, console().width // 3)
        rows.add_row(name(each.id), format_bytes(each.bytes), since, workdir)
    say(rows)


def from_the_left(text: str, width: int) -> str:
    """The end of a path if the whole does not fit: `…/work/site`. The end tells two directories
    apart; it begins at a separator where that leaves enough of it."""
    shown = one_line(text)
    if cell_len(shown) <= width:
        return shown
    end = ""
    for character in reversed(shown):
        if cell_len(character + end) >= width:
            break
        end = character + end
    whole = end.find("/")
    return f"…{end[whole:] if 0 <= whole < len(end) // 2 else end}"


def _ago(seconds: float) -> str:
    """A clock that was wrong once does not make it negative."""
    return f"{format_duration(max(0.0, seconds))} ago"


def _left_for_paths(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    others = [
        max([len(title), *(cell_len(row[place]) for row in cells)])
        for place, title in enumerate(columns[1:])
    ]
    return max(_NARROWEST, console().width - sum(others) - _GAP * len(columns))

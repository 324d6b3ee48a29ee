"""Checkpoints, their projects and leftovers of older layouts, as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli import plain
from holdfast.cli.output import name, note, say, say_rest, styled, table, when
from holdfast.cli.take import not_captured_json, short
from holdfast.model.checkpoint import Checkpoint, NotCaptured, Project, ProjectState, Rollback
from holdfast.model.item import Item
from holdfast.model.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from holdfast.api.values import Foreseen
    from holdfast.cli.plain import Line


_FIRST = 10
_STATES = {
    ProjectState.LIVE: "green",
    ProjectState.STALE: "yellow",
    ProjectState.UNMOUNTED: "yellow",
    ProjectState.UNKNOWN: "yellow",
    ProjectState.MISSING: "red",
    ProjectState.ELSEWHERE: "cyan",
}
#: Explanations for states whose names are not clear, and how to find out more.
_MEANINGS = {
    ProjectState.UNMOUNTED: "unmounted: the disk that it was on is not mounted now.",
    ProjectState.UNKNOWN: (
        "unknown: its parent folder is gone too, or no record says where it was, so it may have "
        "been moved. `checkpoints list --all-projects` shows its checkpoints."
    ),
    ProjectState.ELSEWHERE: "elsewhere: on another machine; its checkpoints were fetched.",
}
_COLUMNS = ("project", "state", "checkpoints", "last used", "size")
_NUMBERS = ("checkpoints", "last used", "size")
_ARCHIVE = "legacy-"


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "time": checkpoint.time,
        "reason": checkpoint.reason,
        "session": checkpoint.session,
        "turn": checkpoint.turn,
        "workdir": checkpoint.workdir,
        **({"machine": checkpoint.machine} if checkpoint.machine else {}),
        "name": checkpoint.name,
        "pinned": checkpoint.pinned,
        "files_changed": checkpoint.files_changed,
        "insertions": checkpoint.insertions,
        "deletions": checkpoint.deletions,
    }


def foreseen_json(project: Foreseen) -> dict[str, Any]:
    """What would happen to the files of a project, or why that is unknown."""
    found = project.preview
    return {
        "workdir": project.workdir,
        "written": list(found.written) if found else [],
        "deleted": list(found.deleted) if found else [],
        "kept": not_captured_json(found.kept if found else ()),
        "problem": project.problem or None,
    }


def project_json(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "workdir": project.workdir,
        **({"machine": project.machine} if project.machine else {}),
        "state": project.state.value,
        "checkpoints": project.checkpoints,
        "last_touch": project.last_touch,
        "bytes": project.bytes,
        **({"by": project.by} if project.by else {}),
    }


def show_list(checkpoints: Sequence[Checkpoint], now: float, *, places: bool) -> None:
    """Show one row per checkpoint; with `places` they are of several projects."""
    numbers = ("age", "files", "lines")
    rows = table(
        "id",
        *numbers,
        "why",
        right=numbers,
        whole=("id",),
        drops=("lines", "files"),
        below="where",
    )
    for each in checkpoints:
        rows.add_row(
            short(each.id),
            format_duration(now - each.time),
            f"{each.files_changed:,}",
            lines(each),
            _why(each),
            below=_where(each, places=places),
        )
    say(rows)
    if any(each.pinned for each in checkpoints):
        legend = "📌 is pinned."
        note(legend) if plain.is_piped() else say(legend, "dim")


def lines(checkpoint: Checkpoint) -> Line:
    """`+12 -3`; empty if lines were not counted."""
    if checkpoint.insertions is None or checkpoint.deletions is None:
        return styled("")
    counted = styled(f"+{checkpoint.insertions:,}", style="green")
    return counted.append(f" -{checkpoint.deletions:,}", style="red")


def _why(checkpoint: Checkpoint) -> Line:
    text = styled("📌 " if checkpoint.pinned else "")
    if checkpoint.name:
        text.append_text(name(checkpoint.name, "bold")).append("  ")
    return text.append_text(name(checkpoint.reason))


def _where(checkpoint: Checkpoint, *, places: bool) -> Line:
    where = name(checkpoint.place if places else "", "dim")
    by = [f"session {checkpoint.session}"] if checkpoint.session else []
    by += [f"turn {checkpoint.turn}"] if checkpoint.turn else []
    if where and by:
        where.append("\n")
    return where.append_text(name("  ".join(by), "dim"))


def show_checkpoint(checkpoint: Checkpoint) -> None:
    """Show the facts about one checkpoint."""
    say(name(checkpoint.name or checkpoint.reason, "bold"))
    say(name(checkpoint.id, "dim"))
    facts = [
        ("of", checkpoint.place),
        ("taken", when(checkpoint.time)),
        ("why", checkpoint.reason if checkpoint.name else ""),
        ("session", checkpoint.session or ""),
        ("turn", checkpoint.turn or ""),
        ("pinned", "yes" if checkpoint.pinned else ""),
    ]
    rows = table("what", "which", whole=("what",))
    rows.show_header = False
    for what, which in facts:
        if which:
            rows.add_row(styled(what, style="dim"), name(which))
    files = format_count(checkpoint.files_changed, "file")
    changed = styled(f"{files} since the previous checkpoint  ").append_text(lines(checkpoint))
    rows.add_row(styled("changed", style="dim"), changed)
    say(rows)


def show_not_captured(
    left: Sequence[NotCaptured], *, all_items: bool, title: str = "Not captured"
) -> None:
    """Show which paths were left out and why; nothing if there are none."""
    show_paths(
        f"{title} ({format_count(len(left), 'path')})",
        [name(each.path).append(f"  {each.reason}", style="dim") for each in left],
        style="yellow",
        all_items=all_items,
    )


def show_paths(title: str, paths: Sequence[Line], *, style: str, all_items: bool) -> None:
    """Show a titled list, cut after the first few; nothing if it is empty."""
    if not paths:
        return
    say()
    say(title, f"bold {style}")
    shown = paths if all_items else paths[:_FIRST]
    for path in shown:
        say(styled("  ").append_text(path))
    say_rest(len(paths) - len(shown), "; --all lists them.", indent="  ")


def show_foreseen(workdir: str, foreseen: Rollback, *, all_items: bool) -> None:
    """Show which paths of a project would be restored, modified and deleted, and which are left
    alone."""
    there = [
        path
        for path in foreseen.written
        if os.path.lexists(os.path.join(workdir, path))  # noqa: PTH118 - odd names, quick
    ]
    known_paths = set(there)
    new = [path for path in foreseen.written if path not in known_paths]
    for word, paths, style in (
        ("Restore", new, "green"),
        ("Modify", there, "cyan"),
        ("Delete", list(foreseen.deleted), "red"),
    ):
        title = f"{word} ({len(paths):,})"
        show_paths(title, [name(path) for path in paths], style=style, all_items=all_items)
    show_not_captured(foreseen.kept, all_items=all_items, title="Left alone")


def show_projects(projects: Sequence[Project], now: float, *, limit: int | None) -> None:
    """Show projects, the last used first, one line each: a path that is too long is cut at its
    beginning."""
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
    rows = table(
        *columns,
        right=_NUMBERS,
        whole=("state",),
        front=("project",),
        drops=("checkpoints", "last used", "size"),
    )
    for each, (state, *numbers) in zip(shown, cells, strict=True):
        by = f" (by {each.by})" if each.by else ""
        path = name(each.place + by)
        rows.add_row(path, styled(state, style=_STATES[each.state]), *numbers[: len(columns) - 2])
    say(rows)
    say_rest(len(ordered) - len(shown), f"; --limit {len(ordered)} shows them all.")
    for state, meaning in _MEANINGS.items():
        if any(each.state is state for each in shown):
            say(meaning, "dim")


def show_older(legacy: Sequence[Item], older: Mapping[str, Project], now: float) -> None:
    """Show archives of older layouts, and repositories that were not moved aside yet."""
    rows = table(
        "older layout",
        "size",
        "since",
        "of",
        right=("size",),
        whole=("older layout", "since"),
        front=("of",),
        drops=("since",),
    )
    for each in sorted(legacy, key=lambda each: -each.last_active_at):
        project = older.get(each.id)
        ago = _ago(now - each.last_active_at)
        since = f"moved {ago}" if each.id.startswith(_ARCHIVE) else f"used {ago}"
        workdir = "" if project is None else project.workdir
        rows.add_row(name(each.id), format_bytes(each.bytes), since, name(workdir))
    say(rows)


def _ago(seconds: float) -> str:
    """The age, never negative even if a clock was wrong."""
    return f"{format_duration(max(0.0, seconds))} ago"

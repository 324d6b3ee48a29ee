"""Checkpoints and projects as people and scripts read them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from holdfast.cli.output import name, say, table, when
from holdfast.model.checkpoint import Checkpoint, NotCaptured, Project, Rollback
from holdfast.model.text import format_count, format_duration

SHORT_ID = 12
_FIRST = 10


def short(checkpoint_id: str) -> str:
    """As much of an id as people need to tell it from others."""
    return checkpoint_id[:SHORT_ID]


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "time": checkpoint.time,
        "reason": checkpoint.reason,
        "session": checkpoint.session,
        "turn": checkpoint.turn,
        "workdir": checkpoint.workdir,
        "name": checkpoint.name,
        "pinned": checkpoint.pinned,
        "files_changed": checkpoint.files_changed,
        "insertions": checkpoint.insertions,
        "deletions": checkpoint.deletions,
    }


def not_captured_json(left: Sequence[NotCaptured]) -> list[dict[str, str]]:
    return [{"path": each.path, "reason": each.reason} for each in left]


def project_json(project: Project) -> dict[str, Any]:
    return {
        "id": project.id,
        "workdir": project.workdir,
        "state": project.state.value,
        "checkpoints": project.checkpoints,
        "last_touch": project.last_touch,
        "bytes": project.bytes,
        **({"by": project.by} if project.by else {}),
    }


def show_list(checkpoints: Sequence[Checkpoint], now: float, *, places: bool) -> None:
    """One row a checkpoint; with `places` they are of several projects."""
    rows = table("id", "age", "files", "lines", "why", right=("age", "files", "lines"))
    rows.columns[0].no_wrap = True
    for each in checkpoints:
        rows.add_row(
            short(each.id),
            format_duration(now - each.time),
            f"{each.files_changed:,}",
            lines(each),
            _why(each, places=places),
        )
    say(rows)


def lines(checkpoint: Checkpoint) -> Text:
    """`+12 -3`; nothing where they were not counted."""
    if checkpoint.insertions is None or checkpoint.deletions is None:
        return Text("")
    counted = Text(f"+{checkpoint.insertions:,}", style="green")
    return counted.append(f" -{checkpoint.deletions:,}", style="red")


def _why(checkpoint: Checkpoint, *, places: bool) -> Text:
    text = Text(overflow="fold")
    if checkpoint.pinned:
        text.append("📌 ")
    if checkpoint.name:
        text.append_text(name(checkpoint.name, "bold")).append("  ")
    text.append_text(name(checkpoint.reason))
    beside = [checkpoint.workdir] if places else []
    if checkpoint.session:
        beside.append(f"session {checkpoint.session}")
    if checkpoint.turn:
        beside.append(f"turn {checkpoint.turn}")
    if beside:
        text.append("\n").append_text(name("  ".join(beside), "dim"))
    return text


def show_checkpoint(checkpoint: Checkpoint) -> None:
    """What is known of one checkpoint."""
    say(name(checkpoint.name or checkpoint.reason, "bold"))
    say(name(checkpoint.id, "dim"))
    facts = [
        ("of", checkpoint.workdir),
        ("taken", when(checkpoint.time)),
        ("why", checkpoint.reason if checkpoint.name else ""),
        ("session", checkpoint.session or ""),
        ("turn", checkpoint.turn or ""),
        ("pinned", "yes" if checkpoint.pinned else ""),
    ]
    rows = table("what", "which")
    rows.show_header = False
    for what, which in facts:
        if which:
            rows.add_row(Text(what, style="dim"), name(which))
    files = format_count(checkpoint.files_changed, "file")
    changed = Text(f"{files} against the one before  ").append_text(lines(checkpoint))
    rows.add_row(Text("changed", style="dim"), changed)
    say(rows)


def show_not_captured(
    left: Sequence[NotCaptured], *, all_items: bool, title: str = "Not captured"
) -> None:
    """Which paths were left out and why; nothing when none were."""
    show_paths(
        f"{title} ({format_count(len(left), 'path')})",
        [name(each.path).append(f"  {each.reason}", style="dim") for each in left],
        style="yellow",
        all_items=all_items,
    )


def show_paths(title: str, paths: Sequence[Text], *, style: str, all_items: bool) -> None:
    """A titled list, cut after the first few; nothing when it is empty."""
    if not paths:
        return
    say()
    say(Text(title, style=f"bold {style}"))
    shown = paths if all_items else paths[:_FIRST]
    for path in shown:
        say(Text("  ", overflow="fold").append_text(path))
    if len(shown) < len(paths):
        say(Text(f"  … and {len(paths) - len(shown):,} more; --all lists them.", style="dim"))


def show_foreseen(workdir: str, foreseen: Rollback, *, all_items: bool) -> None:
    """Which paths of a project would come back, change and go, and which are left alone."""
    there = [
        path
        for path in foreseen.written
        if os.path.lexists(os.path.join(workdir, path))  # noqa: PTH118 - odd names, quick
    ]
    known_paths = set(there)
    new = [path for path in foreseen.written if path not in known_paths]
    for word, paths, style in (
        ("Come back", new, "green"),
        ("Change", there, "cyan"),
        ("Go", list(foreseen.deleted), "red"),
    ):
        title = f"{word} ({len(paths):,})"
        show_paths(title, [name(path) for path in paths], style=style, all_items=all_items)
    show_not_captured(foreseen.kept, all_items=all_items, title="Left alone")

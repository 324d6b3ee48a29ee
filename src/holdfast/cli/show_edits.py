"""Changes of names and pins, in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.output import name, say
from holdfast.cli.take import short
from holdfast.model.item import CHECKPOINT
from holdfast.model.plan import EDITS, Action
from holdfast.model.text import format_count

if TYPE_CHECKING:
    from holdfast.api.values import Edited
    from holdfast.model.plan import PlanItem

_FEW = 10


def show_edits(items: Sequence[tuple[PlanItem, Edited | None]], brings: str) -> None:
    """Show what undoing edits would do at this moment. `brings` is the beginning of the
    sentence."""
    going = [(item, seen) for item, seen in items if seen is None or not seen.obstacle]
    staying = [(item, seen.obstacle) for item, seen in items if seen is not None and seen.obstacle]
    takes = brings.replace("bring", "take")
    say(f"{takes} back {format_count(len(going), 'change')}:")
    _list([_change(item, seen.now if seen else item.target, item.version) for item, seen in going])
    if staying:
        say(f"{format_count(len(staying), 'other')} cannot be undone now:")
        _list([f"{_which(item)} {obstacle}." for item, obstacle in staying])


def plan_edits(items: Sequence[PlanItem]) -> None:
    """Show what a redo would change."""
    if items:
        say(f"The plan changes {format_count(len(items), 'item')}:")
        _list([_change(item, item.version, item.target) for item in items])


def tell_edits(items: Sequence[PlanItem]) -> None:
    """Report what undoing edits and ends did."""
    edited = [item for item in items if item.action in (*EDITS, Action.END)]
    _list([f"{_which(item)} {_again(item)}." for item in edited], indent="")


def _list(lines: Sequence[str], indent: str = "  ") -> None:
    for line in lines[:_FEW]:
        say(name(indent + line))
    if len(lines) > _FEW:
        say(f"{indent}… and {len(lines) - _FEW:,} more.")


def _change(item: PlanItem, old: str, new: str) -> str:
    """`Session x 'one' → 'two'`; for a file only its path, because its changes are too long."""
    if item.action is Action.REWRITE:
        return item.id
    if json.loads(old) == json.loads(new):
        return f"{_which(item)} is already {_said(item, new)}"
    return f"{_which(item)} {_said(item, old)} → {_said(item, new)}"


def _which(item: PlanItem) -> str:
    shown = short(item.id) if item.kind == CHECKPOINT else item.id
    return f"{item.kind.capitalize()} {shown}"


def _said(item: PlanItem, value: str) -> str:
    """`'a title'`, `no name`, `pinned`."""
    meant = json.loads(value)
    if item.action is Action.PIN:
        return "pinned" if meant else "not pinned"
    return repr(meant) if meant else f"no {_word(item)}"


def _again(item: PlanItem) -> str:
    if item.action is Action.END:
        return "is open again"
    if item.action is Action.REWRITE:
        return "is as it was before"
    meant = json.loads(item.version)
    if item.action is Action.PIN:
        return "is pinned again" if meant else "is no longer pinned"
    return f"is called {meant!r} again" if meant else f"has no {_word(item)} again"


def _word(item: PlanItem) -> str:
    return "name" if item.kind == CHECKPOINT else "title"

"""What undoing an edit would find: the current value, and which operation to undo first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from holdfast.errors import (
    CannotUndoError,
    HoldfastError,
    UnknownCheckpointError,
    UnknownSessionError,
)
from holdfast.model.item import SESSION
from holdfast.model.operation import LogView, Operation, Removal, TrashEntry, in_words
from holdfast.model.plan import Action, PlanItem
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.ports.home import Home
from holdfast.ports.sessions import SessionStore
from holdfast.spine.outcomes import ALREADY_GONE
from holdfast.value import dataclass

_SEEN = (Action.RENAME, Action.PIN, Action.END)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The current state of what was edited. `now`: its value, as the log writes values. `obstacle`:
    why undoing leaves it alone. `first`: the operation that has to be undone before."""

    now: str
    obstacle: str = ""
    first: str | None = None


def session_value(store: SessionStore, name: str, action: Action) -> str | bool | None:
    return store.pins_of(name)[0] if action is Action.PIN else store.get(name).title


def checkpoint_value(store: CheckpointStore, name: str, action: Action) -> str | bool | None:
    checkpoint = store.get(name)
    return checkpoint.pinned if action is Action.PIN else checkpoint.name


def look_at_edits(
    home: Home, log: LogView, target: Operation, removals: Sequence[Removal]
) -> Mapping[str, Edited]:
    """Return what undoing these edits would find, by key. Raises if none of them can be undone."""
    seen = {each.key: _look(home, log, each) for each in removals if each.item.action in _SEEN}
    stuck = [each for each in removals if each.key in seen and seen[each.key].obstacle]
    if not stuck or len(stuck) < len(removals):
        return seen
    one = stuck[0].item
    more = f", and {len(stuck) - 1:,} more like it" if len(stuck) > 1 else ""
    firsts = {first for each in stuck if (first := seen[each.key].first) is not None}
    if not firsts:
        raise CannotUndoError(
            f"Operation {target.id} cannot be undone: {one.kind} {one.id}{more} "
            f"{seen[stuck[0].key].obstacle}.",
            hint="To undo an earlier operation, give its number: `holdfast log` lists them.",
        )
    last = max(firsts, key=int)
    commands = {each.id: each.command for each in log.operations}
    raise CannotUndoError(
        f"Operation {target.id} cannot be undone yet: {one.kind} {one.id}{more} "
        f"{seen[stuck[0].key].obstacle}.",
        hint=f"Undo operation {last} ({commands[last]}) first: holdfast undo {last}",
    )


def _look(home: Home, log: LogView, removal: Removal) -> Edited:
    item = removal.item
    try:
        now = _value(home, item)
    except (UnknownSessionError, UnknownCheckpointError):
        return _gone(log, item)
    except HoldfastError:  # the undo itself tries, and reports why it cannot
        return Edited(now=item.target)
    if item.action is Action.END or now in (json.loads(item.version), json.loads(item.target)):
        return Edited(now=json.dumps(now))
    later = [
        each.removal.operation
        for each in log.changed
        if _same(each, item)
        and each.removal.item.action is item.action
        and int(each.removal.operation) > int(removal.operation)
    ]
    by = f"by {in_words(later)}" if later else "but not through Holdfast"
    return Edited(
        now=json.dumps(now),
        obstacle=f"was changed again since, {by}",
        first=max(later, key=int, default=None),
    )


def _value(home: Home, item: PlanItem) -> str | bool | None:
    if item.kind == SESSION:
        if (sessions := home.session_store()) is not None:
            return session_value(sessions, item.id, item.action)
    elif (checkpoints := home.checkpoint_store()) is not None:
        return checkpoint_value(checkpoints, item.id, item.action)
    raise HoldfastError(ALREADY_GONE)


def _gone(log: LogView, item: PlanItem) -> Edited:
    for place, entries in (("trash", log.trash), ("archive", log.archived)):
        for each in reversed(entries):
            if _same(each, item):
                by = each.removal.operation
                return Edited(
                    now=item.target,
                    obstacle=f"is in the {place} since operation {by}",
                    first=by,
                )
    return Edited(now=item.target, obstacle="is no longer in this home")


def _same(entry: TrashEntry, item: PlanItem) -> bool:
    return (entry.removal.item.kind, entry.removal.item.id) == (item.kind, item.id)

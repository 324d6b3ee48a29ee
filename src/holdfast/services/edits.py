"""What a person changes about sessions and checkpoints: names, pins and ends. Each command is one
operation, so that it can be undone and done again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.errors import BusyError, HoldfastError, UsageError
from holdfast.model.checkpoint import Checkpoint
from holdfast.model.item import CHECKPOINT, SESSION, Item
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.model.report import Report, Result
from holdfast.model.session import Session, SessionFilter
from holdfast.policy.lifecycle import HELD
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock
from holdfast.ports.sessions import SessionStore
from holdfast.spine.apply import apply


def rename_session(home: Home, session_id: str, title: str | None) -> Sequence[PlanItem]:
    store = _store(home)
    if Action.RENAME not in store.edits:
        store.rename(session_id, title)  # it says why not
    found = store.get(session_id)
    new = store.as_title(title)
    reason = f"called {new!r}" if new else "without its title"
    return [_session(found, Action.RENAME, found.title, new, reason)]


def pin_sessions(home: Home, ids: Sequence[str], *, pinned: bool) -> Sequence[PlanItem]:
    store = _store(home)
    if Action.PIN not in store.edits:
        store.pin(ids[0], pinned)  # it says why not
    reason = "pinned" if pinned else "unpinned"
    return [_session(each, Action.PIN, each.pinned, pinned, reason) for each in map(store.get, ids)]


def end_sessions(home: Home, ids: Sequence[str], reason: str, *, at: float) -> Sequence[PlanItem]:
    """Raises `BusyError` while a process holds one of them. Those that have ended stay as they
    are."""
    if not reason:
        raise UsageError("The reason for ending a session cannot be empty.")
    store = _store(home)
    if Action.END not in store.edits:
        store.end(ids[0], reason, at=at)  # it says why not
    scanned = home.scan(at, wanted=SessionFilter(ids=tuple(ids))).items
    items = {item.id: item for item in scanned if item.kind == SESSION}
    going = [items[each] for each in ids if each in items and not store.get(each).ended]
    for item in going:
        if item.alive == HELD:
            raise BusyError(
                f"Session {item.id} is held by a process; it was left as it is.",
                hint="End it where it is open, or stop that process.",
            )
    return [_ending(item, reason) for item in going]


def rename_checkpoint(found: Checkpoint, new: str | None) -> Sequence[PlanItem]:
    reason = f"called {new!r}" if new else "without its name"
    return [_checkpoint(found, Action.RENAME, found.name, new, reason)]


def pin_checkpoints(found: Sequence[Checkpoint], *, pinned: bool) -> Sequence[PlanItem]:
    reason = "pinned" if pinned else "unpinned"
    return [_checkpoint(each, Action.PIN, each.pinned, pinned, reason) for each in found]


def carry_out_edits(home: Home, items: Sequence[PlanItem], *, command: str, clock: Clock) -> Report:
    """Change what is not yet so, as one operation. Raises for the first that was refused."""
    items = [each for each in items if each.version != each.target]
    plan = Plan(home=str(home.root), command=command, made_at=clock(), items=tuple(items))
    report = apply(plan, home, clock=clock)
    for each in report.outcomes:
        if each.result not in (Result.CHANGED, Result.ENDED):
            what = f"{each.kind.capitalize()} {each.id} was left as it is"
            error = UsageError if each.result is Result.FAILED else HoldfastError
            raise error(f"{what}: {each.reason.rstrip('.')}.")
    return report


def _store(home: Home) -> SessionStore:
    store = home.session_store()
    if store is None:
        raise UsageError(f"{home.root} has no session store.")
    return store


def _session(
    found: Session, action: Action, old: str | bool | None, new: str | bool | None, reason: str
) -> PlanItem:
    return PlanItem(
        kind=SESSION,
        id=found.id,
        source=found.source,
        session=found.id,
        bytes=0,
        last_active_at=found.last_active_at,
        version=json.dumps(old),
        target=json.dumps(new),
        action=action,
        reason=reason,
        undoable=True,
    )


def _checkpoint(
    found: Checkpoint, action: Action, old: str | bool | None, new: str | bool | None, reason: str
) -> PlanItem:
    return PlanItem(
        kind=CHECKPOINT,
        id=found.id,
        source=found.project,
        session=found.session or "",
        bytes=0,
        last_active_at=found.time,
        version=json.dumps(old),
        target=json.dumps(new),
        action=action,
        reason=reason,
        undoable=True,
    )


def _ending(item: Item, reason: str) -> PlanItem:
    return PlanItem(
        kind=SESSION,
        id=item.id,
        source=item.source,
        session=item.session,
        bytes=0,
        last_active_at=item.last_active_at,
        version=item.version,
        target=reason,
        action=Action.END,
        reason=f"ended: {reason}",
        undoable=True,
    )

"""Edits of sessions and checkpoints by the user: names, pins and ends. Each command is one
operation, so that it can be undone and redone."""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.errors import BusyError, HoldfastError, UsageError
from holdfast.model.checkpoint import Checkpoint
from holdfast.model.item import CHECKPOINT, SESSION, Item
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.model.report import Report, Result
from holdfast.model.session import Session, SessionFilter
from holdfast.policy.decision import plan_item
from holdfast.policy.lifecycle import HELD
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock
from holdfast.ports.sessions import SessionStore
from holdfast.services.plans import plan_home_endings
from holdfast.spine.apply import apply
from holdfast.value import replace


def rename_session(home: Home, session_id: str, title: str | None) -> Sequence[PlanItem]:
    store = _store(home)
    if Action.RENAME not in store.edits:
        store.rename(session_id, title)  # raises, with the reason
    found = store.get(session_id)
    new = store.as_title(title)
    reason = f"renamed to {new!r}" if new else "title removed"
    return [_edit(found, Action.RENAME, found.title, new, reason)]


def pin_sessions(home: Home, ids: Sequence[str], *, pinned: bool) -> Sequence[PlanItem]:
    store = _store(home)
    if Action.PIN not in store.edits:
        store.pin(ids[0], pinned)  # raises, with the reason
    pins = {each: store.pins_of(each) for each in ids}
    for name, (_, agent) in pins.items():
        if agent and not pinned:
            raise UsageError(
                f"Session {name} is pinned in {agent} itself, so Holdfast keeps it.",
                hint=f"Unpin it in {agent}.",
            )
    reason = "pinned" if pinned else "unpinned"
    return [
        _edit(each, Action.PIN, pins[each.id][0], pinned, reason) for each in map(store.get, ids)
    ]


def end_sessions(home: Home, ids: Sequence[str], reason: str, *, at: float) -> Sequence[PlanItem]:
    """End sessions. Raises `BusyError` while a process holds one of them. Sessions that have
    already ended are left out."""
    if not reason:
        raise UsageError("The reason for ending a session cannot be empty.")
    store = _store(home)
    if Action.END not in store.edits:
        store.end(ids[0], reason, at=at)  # raises, with the reason
    scanned = home.scan(at, wanted=SessionFilter(ids=tuple(ids))).items
    items = {item.id: item for item in scanned if item.kind == SESSION}
    going = [items[each] for each in ids if each in items and not store.get(each).ended]
    for item in going:
        if item.alive == HELD:
            raise BusyError(
                f"Session {item.id} was not ended: a process holds it open.",
                hint="End it where it is open, or stop that process.",
            )
    return [_ending(item, reason) for item in going]


def end_abandoned(home: Home, *, clock: Clock, command: str) -> Sequence[str]:
    """End abandoned sessions, because their agent never will. The operation is in the log and can
    be undone. Returns their ids."""
    plan, _ = plan_home_endings(home, now=clock(), command=command)
    report = apply(plan, home, clock=clock)
    return [each.id for each in report.outcomes if each.result is Result.ENDED]


def rename_checkpoint(found: Checkpoint, new: str | None) -> Sequence[PlanItem]:
    reason = f"renamed to {new!r}" if new else "name removed"
    return [_edit(found, Action.RENAME, found.name, new, reason)]


def pin_checkpoints(found: Sequence[Checkpoint], *, pinned: bool) -> Sequence[PlanItem]:
    reason = "pinned" if pinned else "unpinned"
    return [_edit(each, Action.PIN, each.pinned, pinned, reason) for each in found]


def carry_out_edits(home: Home, items: Sequence[PlanItem], *, command: str, clock: Clock) -> Report:
    """Make the changes that are still needed, as one operation. Raises for the first one that was
    refused."""
    items = [each for each in items if each.version != each.target]
    plan = Plan(home=str(home.root), command=command, made_at=clock(), items=tuple(items))
    report = apply(plan, home, clock=clock)
    for each in report.outcomes:
        if each.result not in (Result.CHANGED, Result.ENDED):
            what = f"{each.kind.capitalize()} {each.id} was not changed"
            error = UsageError if each.result is Result.FAILED else HoldfastError
            raise error(f"{what}: {each.reason.rstrip('.')}.")
    return report


def _store(home: Home) -> SessionStore:
    store = home.session_store()
    if store is None:
        raise UsageError(f"{home.root} has no session store.")
    return store


def _edit(
    found: Session | Checkpoint,
    action: Action,
    old: str | bool | None,
    new: str | bool | None,
    reason: str,
) -> PlanItem:
    if isinstance(found, Session):
        kind, source, session, at = SESSION, found.source, found.id, found.last_active_at
    else:
        kind, source, session, at = CHECKPOINT, found.project, found.session or "", found.time
    return PlanItem(
        kind=kind,
        id=found.id,
        source=source,
        session=session,
        bytes=0,
        last_active_at=at,
        version=json.dumps(old),
        target=json.dumps(new),
        action=action,
        reason=reason,
        undoable=True,
    )


def _ending(item: Item, reason: str) -> PlanItem:
    ending = plan_item(item, Action.END, f"ended: {reason}", undoable=True)
    return replace(ending, bytes=0, target=reason)

"""End sessions that their agent never will: abandoned ones, and those that a person ends."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import BusyError, UsageError
from holdfast.model.item import SESSION
from holdfast.model.report import Result
from holdfast.model.session import Session, SessionFilter
from holdfast.policy.lifecycle import HELD
from holdfast.ports import Clock, Home
from holdfast.services.plans import plan_home_endings
from holdfast.spine.apply import apply


def end_abandoned(home: Home, *, clock: Clock, command: str) -> Sequence[str]:
    """End abandoned sessions, in the log and undoable. Returns their ids."""
    plan, _ = plan_home_endings(home, now=clock(), command=command)
    report = apply(plan, home, clock=clock)
    return [each.id for each in report.outcomes if each.result is Result.ENDED]


def end_by_hand(home: Home, session_id: str, reason: str, *, at: float) -> Session:
    """End a session because a person says so; raises `BusyError` while a process holds it."""
    if not reason:
        raise UsageError("The reason for ending a session cannot be empty.")
    store = home.session_store()
    if store is None:
        raise UsageError(f"{home.root} has no session store.")
    found = home.scan(at, wanted=SessionFilter(ids=(session_id,))).items
    if any(item.kind == SESSION and item.alive == HELD for item in found):
        raise BusyError(
            f"Session {session_id} is held by a process; it was left as it is.",
            hint="End it where it is open, or stop that process.",
        )
    return store.end(session_id, reason, at=at)

"""A plan for sessions that somebody named, by id or by the start of one."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import UsageError
from holdfast.model.plan import Plan
from holdfast.model.session import SessionFilter
from holdfast.policy.named import plan_named
from holdfast.ports import Home


def plan_delete(
    home: Home, ids: Sequence[str], *, now: float, command: str, undoable: bool = True
) -> Plan:
    """Remove these sessions with their files. Living ones are kept, and the plan says why."""
    store = home.session_store()
    if store is None:
        raise UsageError(f"{home.root} has no session store, and so no sessions to delete.")
    named = list(dict.fromkeys(store.resolve(each) for each in ids))
    inventory = home.scan(now, wanted=SessionFilter(ids=tuple(named)))
    return plan_named(
        named, inventory, now, command=command, reason="deleted by name", undoable=undoable
    )

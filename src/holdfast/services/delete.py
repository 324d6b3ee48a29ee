"""A plan for sessions that somebody named, by id or by the start of one."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import UsageError
from holdfast.model.plan import Plan
from holdfast.model.session import SessionFilter
from holdfast.policy.lineage import Along
from holdfast.policy.named import plan_named
from holdfast.policy.rules import TRIVIAL_MAX
from holdfast.ports import Home


def plan_delete(
    home: Home,
    ids: Sequence[str],
    *,
    now: float,
    command: str,
    undoable: bool = True,
    trivial_max: int = TRIVIAL_MAX,
) -> Plan:
    """Remove these sessions with their files. Living ones are kept, and the plan says why.

    Their delegates go along: those of at most `trivial_max` messages, or all of
    them in the home of an agent that deletes them all itself.
    """
    store = home.session_store()
    if store is None:
        raise UsageError(f"{home.root} has no session store, and so no sessions to delete.")
    named = list(dict.fromkeys(store.resolve(each) for each in ids))
    wanted = (*named, *store.delegates_of(named))
    inventory = home.scan(now, wanted=SessionFilter(ids=wanted))
    return plan_named(
        named,
        inventory,
        now,
        command=command,
        reason="deleted by name",
        undoable=undoable,
        along=Along(trivial_max=None if store.deletes_every_delegate else trivial_max),
    )

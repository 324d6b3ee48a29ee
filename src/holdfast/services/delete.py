"""A plan for sessions that somebody named, by id or by the start of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.errors import StorageError, UnknownSessionError, UsageError
from holdfast.model.item import ARCHIVED, SESSION, Item
from holdfast.model.plan import Plan
from holdfast.model.session import SessionFilter
from holdfast.policy.decision import Along
from holdfast.policy.named import plan_named
from holdfast.policy.rules import TRIVIAL_MAX
from holdfast.ports import Home, SessionStore


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

    Names that only the archive knows mean what is there. A session in the store goes with the files
    that were archived of it; an archived session of the same id, which an import replaced, is
    another one and stays. Without `undoable` all of that goes, and what the trash has of it: they
    are gone for good, everywhere.
    """
    store = home.session_store()
    bundles = _bundles(home, needed=not undoable)
    if store is None and not bundles:
        raise UsageError(f"{home.root} has no session store, and so no sessions to delete.")
    named = list(dict.fromkeys(_resolved(home, store, each) for each in ids))
    wanted = (*named, *(() if store is None else store.delegates_of(named)))
    inventory = home.scan(now, wanted=SessionFilter(ids=wanted))
    stored = {item.id for item in inventory.items if item.kind == SESSION}
    known = {item.id for item in inventory.items}
    more = [
        replace(item, owned=item.session in stored)
        for item in bundles
        if item.session in wanted and item.id not in known
        if not (undoable and item.kind == ARCHIVED and item.session in stored)
    ]
    inventory = replace(inventory, items=(*inventory.items, *more))
    every = store is not None and store.deletes_every_delegate
    return plan_named(
        named,
        inventory,
        now,
        command=command,
        reason="deleted by name",
        undoable=undoable,
        along=Along(trivial_max=None if every else trivial_max),
    )


def _bundles(home: Home, *, needed: bool) -> Sequence[Item]:
    """What the archive holds. Without it, what is removed for good would not be gone everywhere."""
    try:
        return home.archive.items()
    except StorageError:
        if needed:
            raise
        return ()


def _resolved(home: Home, store: SessionStore | None, prefix: str) -> str:
    """The session that this names in the store; else in the archive."""
    if store is None:
        return home.archive.resolve(prefix)
    try:
        return store.resolve(prefix)
    except UnknownSessionError:
        try:
            return home.archive.resolve(prefix)
        except (UnknownSessionError, StorageError):
            pass
        raise

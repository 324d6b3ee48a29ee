"""The figures of a home, which are recorded after maintenance and shown as a trend."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from holdfast.errors import EmptyPolicyError
from holdfast.model.figures import HomeFigures, Tally
from holdfast.model.item import (
    ARCHIVED_FILES,
    LEFTOVER,
    REQUEST_DUMP,
    SESSION,
    TRANSCRIPT,
    Inventory,
    Item,
    SessionFile,
)
from holdfast.model.maintenance import Marker
from holdfast.model.plan import Outlook
from holdfast.model.session import SessionFilter
from holdfast.policy.planner import outlook
from holdfast.policy.rules import Policy
from holdfast.policy.session_limits import SessionLimits
from holdfast.ports.home import Home
from holdfast.ports.runs import Progress

_NOTHING = Outlook(removals=0, bytes=0)
#: The maximum number of too large files to list; more would not help.
_MOST = 10


def look(
    home: Home,
    policy: Policy,
    *,
    now: float,
    inventory: Inventory | None = None,
    marker: Marker | None = None,
    progress: Progress | None = None,
) -> HomeFigures:
    """Compute the figures of a home. `inventory` is a scan of the whole home, if there already is
    one; `marker` is that of a maintenance run that is about to end."""
    seen = home.scan(now, progress) if inventory is None else inventory
    would = what_policy_would(policy, seen, now) or _NOTHING
    store = home.session_store()
    # The store's count includes subagents, even those inside their session's file.
    sessions = count_sessions(seen) if store is None else store.count(SessionFilter())
    return figures_of(
        home,
        seen,
        now=now,
        sessions=sessions,
        reclaimable=would.frees,
        marker=marker,
    )


def what_policy_would(policy: Policy, inventory: Inventory, now: float) -> Outlook | None:
    """Return what the policy would remove; None if it has no rule. In a read-only home that is
    nothing, because no run may change it."""
    try:
        would = outlook(policy, inventory, now)
    except EmptyPolicyError:
        would = None
    return _NOTHING if inventory.read_only else would


def count_sessions(inventory: Inventory) -> int:
    return sum(item.kind == SESSION for item in inventory.items)


def figures_of(
    home: Home,
    inventory: Inventory,
    *,
    now: float,
    sessions: int,
    reclaimable: int,
    marker: Marker | None = None,
) -> HomeFigures:
    """The figures of the part of a home that is on this machine's disks."""
    by_kind: dict[str, int] = {}
    for item in inventory.items:
        by_kind[item.kind] = by_kind.get(item.kind, 0) + item.bytes
    leftovers = by_kind.pop(LEFTOVER, 0)
    archived = by_kind.pop(ARCHIVED_FILES, 0)
    elsewhere = home.bytes_elsewhere(inventory)
    of_sessions = min(elsewhere, by_kind.get(SESSION, 0))
    done = home.maintenance_gate.read() if marker is None else marker
    room = home.disk_room()
    counts = home.tallies
    return HomeFigures(
        at=now,
        bytes=max(0, inventory.total_bytes - elsewhere),
        session_bytes=sum(by_kind.values()) - of_sessions,
        checkpoint_bytes=inventory.checkpoint_bytes,
        trash_bytes=max(0, inventory.trash_bytes - (elsewhere - of_sessions)),
        vault_bytes=inventory.vault_bytes,
        archive_bytes=inventory.archive_bytes + archived,
        leftover_bytes=leftovers,
        sessions=sessions,
        reclaimable_bytes=reclaimable,
        disk_free=None if room is None else room.free,
        disk_size=None if room is None else room.size,
        maintained_at=done.finished_at,
        maintenance_ok=None if done.finished_at is None else done.ok,
        refusals=counts.total(Tally.REFUSALS),
        hook_failures=counts.total(Tally.HOOK_FAILURES),
        alarms=counts.total(Tally.ALARMS),
    )


def largest_files(items: Iterable[Item], most: int) -> tuple[SessionFile, ...]:
    """The largest files of sessions, the largest first."""
    files = (item for item in items if item.kind in (TRANSCRIPT, REQUEST_DUMP))
    found = heapq.nsmallest(most, files, key=lambda item: (-item.bytes, item.id))
    return tuple(map(SessionFile.of, found))


def too_large(items: Iterable[Item], limits: SessionLimits) -> tuple[SessionFile, ...]:
    """Files that have reached the limit of one session (`max_size_mb`), the largest first.

    The limit on messages does not cover them: another agent writes its files itself, and a request
    dump repeats a whole conversation.
    """
    if not limits.max_bytes:
        return ()
    return largest_files((each for each in items if each.bytes >= limits.max_bytes), _MOST)

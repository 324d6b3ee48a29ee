"""The largest files of sessions, and those that are larger than a session may be."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from holdfast.model.item import REQUEST_DUMP, TRANSCRIPT, Item, SessionFile
from holdfast.policy.session_limits import SessionLimits

#: A longer list would not help.
_MOST = 10


def largest_files(items: Iterable[Item], most: int) -> tuple[SessionFile, ...]:
    """The largest first."""
    found = heapq.nsmallest(most, _files(items), key=lambda item: (-item.bytes, item.id))
    return tuple(map(SessionFile.of, found))


def too_large(items: Iterable[Item], limits: SessionLimits) -> tuple[SessionFile, ...]:
    """Files that have reached the limit of one session (`max_size_mb`), the largest first.

    The limit on messages does not see them: another agent writes its files itself, and a request
    dump repeats a whole conversation.
    """
    if not limits.max_bytes:
        return ()
    return largest_files((each for each in items if each.bytes >= limits.max_bytes), _MOST)


def _files(items: Iterable[Item]) -> Iterator[Item]:
    return (item for item in items if item.kind in (TRANSCRIPT, REQUEST_DUMP))

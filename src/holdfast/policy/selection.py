"""Which of the scanned items a run is about. The others are not part of its plan."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.item import SESSION, SPACE, TRASH, Item
from holdfast.model.session import SessionFilter
from holdfast.value import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Kinds, of which None is all, and which sessions.

    Stored sessions are chosen by the store. Their files follow them, and so does the space that
    they leave. Trash is of every kind, but of the source it came from.
    """

    kinds: frozenset[str] | None = None
    sessions: SessionFilter = field(default_factory=SessionFilter)

    def of(self, items: Iterable[Item]) -> tuple[Item, ...]:
        orphans = _could_be_wanted(self.sessions)
        return tuple(item for item in items if self._has(item, orphans=orphans))

    def _has(self, item: Item, *, orphans: bool) -> bool:
        if item.kind == TRASH:
            return self._is_of_source(item)
        if item.owned or item.kind in (SESSION, SPACE):
            return self._is_of_kind(SESSION)
        return orphans and self._is_of_kind(item.kind) and self._is_wanted(item)

    def _is_of_kind(self, kind: str) -> bool:
        return self.kinds is None or kind in self.kinds

    def _is_of_source(self, item: Item) -> bool:
        return self.sessions.sources is None or item.source in self.sessions.sources

    def _is_wanted(self, item: Item) -> bool:
        """Of a file without a row, only source and time are known. Bounds are exclusive, as they
        are for rows."""
        before, after = self.sessions.active_before, self.sessions.active_after
        return (
            self._is_of_source(item)
            and (before is None or item.last_active_at < before)
            and (after is None or item.last_active_at > after)
        )


def _could_be_wanted(wanted: SessionFilter) -> bool:
    """Whether files without a row can match: title, model and end are known only from rows."""
    rest = replace(wanted, sources=None, active_before=None, active_after=None)
    return rest == SessionFilter()

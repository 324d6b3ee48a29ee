"""Which of the scanned items a run looks at; the others are not part of its plan at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model.item import TRASH, Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """None selects all. Trash is of every kind, but of the source it came from."""

    kinds: frozenset[str] | None = None
    sources: frozenset[str] | None = None

    def of(self, items: Iterable[Item]) -> tuple[Item, ...]:
        return tuple(
            item
            for item in items
            if (self.kinds is None or item.kind == TRASH or item.kind in self.kinds)
            and (self.sources is None or item.source in self.sources)
        )

"""A file of a session, as the list of large files shows it."""

from __future__ import annotations

from typing import Any

from holdfast.model.item import Item
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile:
    """`file` is its path in the home, `session` the id in its name, whether or not the store has
    it."""

    file: str
    kind: str
    session: str
    source: str
    bytes: int
    last_active_at: float

    @classmethod
    def of(cls, item: Item) -> SessionFile:
        return cls(
            file=item.id,
            kind=item.kind,
            session=item.session,
            source=item.source,
            bytes=item.bytes,
            last_active_at=item.last_active_at,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "kind": self.kind,
            "session": self.session,
            "source": self.source,
            "bytes": self.bytes,
            "last_active_at": self.last_active_at,
        }

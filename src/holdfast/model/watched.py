"""What watching a directory reported, and what was done about it."""

from __future__ import annotations

from typing import Any

from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPaths:
    """Paths that may have changed, with everything below them, relative to the directory.

    `lost` says why the list is incomplete; then only a scan of the whole tree can tell.
    """

    paths: frozenset[str] = frozenset()
    lost: str = ""

    def __bool__(self) -> bool:
        return bool(self.paths or self.lost)

    def __or__(self, other: ChangedPaths) -> ChangedPaths:
        return ChangedPaths(paths=self.paths | other.paths, lost=self.lost or other.lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a watch did. `looks` is how often it had to scan the whole tree."""

    taken: int = 0
    unchanged: int = 0
    failed: int = 0
    looks: int = 0
    last: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "taken": self.taken,
            "unchanged": self.unchanged,
            "failed": self.failed,
            "full_looks": self.looks,
            "last": self.last,
        }

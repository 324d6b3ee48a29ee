"""What one scan of a home found."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.model.item import Item
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that the scan could not read, or left alone on purpose."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything seen, and everything that could not be seen.

    `space` is what stores could give back without losing anything; `other_bytes` what lies in the
    home beside all of these: state files, the archive, the operation log, checkpoints, which have
    a scan of their own. `checkpoint_bytes`, `archive_bytes`, `log_bytes` and `loose_trash_bytes`,
    which is trash that no operation knows, are parts of it; `archived` is the number of bundles in
    the archive that no item stands for. `database_bytes` is the file of the session store with its
    write-ahead log; sessions and space stand for it. In the home of another agent what has no name
    (`rest_bytes`) is that agent's: `rest_is_foreign`.
    """

    home: str
    scanned_at: float
    items: tuple[Item, ...]
    trash: tuple[Item, ...] = ()
    space: tuple[Item, ...] = ()
    problems: tuple[Problem, ...] = ()
    other_bytes: int = 0
    checkpoint_bytes: int = 0
    archive_bytes: int = 0
    archived: int = 0
    log_bytes: int = 0
    loose_trash_bytes: int = 0
    database_bytes: int = 0
    rest_is_foreign: bool = False

    @property
    def everything(self) -> tuple[Item, ...]:
        return self.items + self.trash + self.space

    @property
    def total_bytes(self) -> int:
        return sum(item.bytes for item in self.everything) + self.other_bytes

    def archive_json(self) -> dict[str, int]:
        return {"count": self.archived, "bytes": self.archive_bytes}

    @property
    def rest_bytes(self) -> int:
        """Bytes that belong to no named part."""
        named = self.checkpoint_bytes + self.archive_bytes + self.log_bytes + self.loose_trash_bytes
        return self.other_bytes - named

    @property
    def overhead(self) -> Mapping[str, int]:
        """What counts against the cap on everything besides items and trash, in words.

        The archive and the checkpoints have caps of their own, so they do not: every byte counts
        once. What another agent keeps is not ours to bound.
        """
        found = {
            "the operation log": self.log_bytes,
            "trash that no operation knows": self.loose_trash_bytes,
            "everything else in the home": 0 if self.rest_is_foreign else self.rest_bytes,
        }
        return {name: size for name, size in found.items() if size}

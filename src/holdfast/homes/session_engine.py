"""What it takes to move sessions out of a store and back: the part that depends on its format.

Who removes, archives and ends sessions knows order, copies and kills; an engine knows rows. Where
it is given a connection, it is inside the caller's transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from holdfast.errors import StorageError
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.ports import Clock
from holdfast.services.exchange.fields import AWAITED_PARENT
from holdfast.spine.outcomes import ALREADY_GONE
from holdfast.stores.sqlite import moves, space
from holdfast.stores.sqlite.bundle import BundleFolder, Copied
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.leases import LifeSigns
from holdfast.stores.sqlite.moves import End, Found
from holdfast.stores.sqlite.sessions import SqliteSessionStore

#: Messages in one transaction: some tens of milliseconds, also where each leaves the index.
MOST_MESSAGES = 800
#: The same where the index is begun anew, and has none of them.
MOST_UNINDEXED = 5_000
#: The search index is begun anew when more than this share of the messages goes, and what stays
#: is indexed again in a moment.
_MOST_GOES = 2 / 3
_FEW_STAY = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What became of sessions that were to come back: why some could not be put back, and what of
    others is not as it was. Both by id."""

    refused: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


class SessionEngine(Protocol):
    """The rows of one store."""

    @property
    def database(self) -> Database: ...

    def prepare(self, items: Sequence[PlanItem]) -> int:
        """Make ready for a run that removes these; the most messages for one transaction."""

    def bundles(self, folder: Path) -> BundleFolder:
        """Where undo copies go, in the format of this store."""

    def look(self, db: sqlite3.Connection, ids: Sequence[str]) -> Mapping[str, Found]:
        """Those of these sessions that are there, with their life."""

    def delete(self, db: sqlite3.Connection, numbers: Sequence[int]) -> None: ...

    def put_back(
        self, db: sqlite3.Connection, copies: sqlite3.Connection, ids: Collection[str]
    ) -> Returned:
        """Put sessions back from their copies."""

    def is_copied(self, db: sqlite3.Connection, found: Found, copied: Copied) -> bool:
        """Whether a session is the one that was copied, and not another that took its id."""

    def ends(self, db: sqlite3.Connection, ids: Sequence[str]) -> Mapping[str, End]:
        """Those of these sessions that are there, with their ends."""

    def set_end(
        self, db: sqlite3.Connection, numbers: Sequence[int], at: float | None, reason: str | None
    ) -> None:
        """Give sessions an end, or take it from them; nothing else of them changes."""

    def rest(self) -> None:
        """Between two transactions."""

    def give_back(self) -> None:
        """Give what the store does not use back to the file system."""


#: None when the home has no store.
Engines = Callable[[], SessionEngine | None]


class SqliteEngine:
    """Holdfast's own store."""

    def __init__(self, store: SqliteSessionStore, clock: Clock, life: LifeSigns) -> None:
        self._store = store
        self._clock = clock
        self._life = life
        self.database: Database = store.database

    def prepare(self, items: Sequence[PlanItem]) -> int:
        """Begin the search index anew where nearly everything goes."""
        most = MOST_MESSAGES
        messages, used = self._store.extent()
        share = sum(item.bytes for item in items) / max(1, used)
        if share > _MOST_GOES and messages * (1 - share) < _FEW_STAY:
            with suppress(StorageError):  # a full disk has no room for it; it only saves time
                space.renew_index(self.database)
                most = MOST_UNINDEXED
        # What is in the log must be in the file before a transaction can fill the disk: otherwise
        # the file could not grow, nor the log be emptied.
        self.rest()
        return most

    def bundles(self, folder: Path) -> BundleFolder:
        return BundleFolder(folder)

    def look(self, db: sqlite3.Connection, ids: Sequence[str]) -> Mapping[str, Found]:
        return moves.look(db, ids, now=self._clock(), life=self._life)

    def delete(self, db: sqlite3.Connection, numbers: Sequence[int]) -> None:
        moves.delete(db, numbers, awaiting=AWAITED_PARENT)

    def put_back(
        self, db: sqlite3.Connection, copies: sqlite3.Connection, ids: Collection[str]
    ) -> Returned:
        return Returned(notes=moves.put_back(db, copies, ids, awaiting=AWAITED_PARENT))

    def is_copied(self, db: sqlite3.Connection, found: Found, copied: Copied) -> bool:
        return moves.is_same(db, found, started_at=copied.started_at, first=copied.first_message)

    def ends(self, db: sqlite3.Connection, ids: Sequence[str]) -> Mapping[str, End]:
        return moves.ends(db, ids)

    def set_end(
        self, db: sqlite3.Connection, numbers: Sequence[int], at: float | None, reason: str | None
    ) -> None:
        moves.set_end(db, numbers, at, reason)

    def rest(self) -> None:
        space.rest(self.database)

    def give_back(self) -> None:
        space.give_back(self.database)


def runs(
    batch: Sequence[Removal], found: Mapping[str, Found], most: int = MOST_MESSAGES
) -> Iterator[Sequence[Removal]]:
    """Parts of a batch with few messages each; a session is never cut."""
    run: list[Removal] = []
    messages = 0
    for each in batch:
        there = found.get(each.item.id)
        more = there.messages if there else 0
        if run and messages + more > most:
            yield run
            run, messages = [], 0
        run.append(each)
        messages += more
    if run:
        yield run


def obstacle(removal: Removal, found: Mapping[str, Found]) -> str | None:
    """Why a session may not go as things are."""
    there = found.get(removal.item.id)
    return ALREADY_GONE if there is None else there.obstacle(removal.item)

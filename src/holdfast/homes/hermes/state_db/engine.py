"""The rows of Hermes, for whoever removes, archives or ends sessions."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from holdfast.homes.hermes.state_db import life, moves, space
from holdfast.homes.hermes.state_db.bundle import HermesBundleFolder
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.homes.hermes.state_db.life import Signs
from holdfast.homes.hermes.state_db.moves import AwaitedParents
from holdfast.homes.hermes.state_db.sessions import HermesSessionStore
from holdfast.homes.hermes.state_db.space import SearchRenewal
from holdfast.model.plan import PlanItem
from holdfast.model.stored_session import Copied, End, Found, Returned
from holdfast.ports import Clock
from holdfast.stores.sqlite.bundle import opened
from holdfast.stores.sqlite.moves import DatabaseEngine

#: Messages in one transaction: some tenths of a second where each leaves the search tables.
_MOST_INDEXED = 400
#: The same where they left the search tables before. An undo brings them back in such portions, and
#: then each goes through the triggers: Hermes must not wait longer than it has patience for.
_MOST_UNINDEXED = 2_000
#: Hermes asks for the lock in ever longer pauses, up to a tenth of a second: a moment for it.
_PAUSE = 0.03
#: A log that grows as it likes takes some megabytes; others want to write too.
_LITTLE_ROOM = 64 * 1024 * 1024


class HermesEngine(DatabaseEngine):
    """Sessions of one Hermes home, out of its database and back."""

    def __init__(
        self, store: HermesSessionStore, root: Path, state: Path, clock: Clock, after: float
    ) -> None:
        super().__init__(store.database, clock)
        self.database: HermesDatabase = store.database
        self._store = store
        self._root = root
        self._clock = clock
        self._after = after
        self._awaited = AwaitedParents(state)
        self.search = SearchRenewal(store.database, state)
        self._to_go: Sequence[str] = ()

    def prepare(self, items: Sequence[PlanItem]) -> int:
        self.finish_search()
        self.rest()
        going = [item.id for item in items]
        if not self.search.is_worth_it(going):
            return _MOST_INDEXED
        self._to_go = going
        return _MOST_UNINDEXED

    def finish_search(self) -> None:
        """Bring into the search tables what a run, or one that was killed, left out of them."""
        self._to_go = ()
        self.search.finish()

    def copies(self, folder: Path) -> HermesBundleFolder:
        return HermesBundleFolder(folder, self.database.schema)

    def copy(self, folder: Path, going: Sequence[Found], first: int, last: int) -> Path:
        with self.database.read() as db:
            return self.copies(folder).write(db, [each.number for each in going], first, last)

    def look(self, ids: Sequence[str]) -> Mapping[str, Found]:
        signs = self.signs()
        with self.database.read() as db:
            return moves.look(db, self.database.schema, ids, now=self._clock(), signs=signs)

    def signs(self) -> Signs:
        with self.database.read() as db:
            return life.look(
                self._root,
                self.database.path,
                db,
                self.database.schema,
                now=self._clock(),
                after=self._after,
            )

    def delete(self, going: Sequence[Found]) -> None:
        schema, numbers = self.database.schema, [each.number for each in going]
        with self.database.write() as db:
            if self._to_go:
                # Not before the first removal: its intent is in the log by now, so that whoever
                # settles a killed run knows that something is to be finished here.
                to_go, self._to_go = self._to_go, ()
                self.search.renew(db, to_go)
            chosen = "s.number IN (SELECT value FROM json_each(?))"
            self._store.ledger.note(db, schema, chosen, json.dumps(numbers))
            moves.delete(db, schema, numbers)

    def put_back(self, bundle: Path, ids: Collection[str]) -> Returned:
        schema = self.database.schema
        with self.database.write() as db, opened(bundle) as copies:
            return Returned(refused=moves.put_back(db, schema, copies, ids, self._awaited))

    def relate(self, parents: Mapping[str, str], children: Mapping[str, list[str]]) -> None:
        with self.database.write() as db:
            moves.relate(db, parents, children, self._awaited)

    def is_copied(self, found: Found, copied: Copied) -> bool:
        with self.database.read() as db:
            return moves.is_same(
                db, found, started_at=copied.started_at, first=copied.first_message
            )

    def ends(self, ids: Sequence[str]) -> Mapping[str, End]:
        with self.database.read() as db:
            return moves.ends(db, self.database.schema, ids)

    def set_end(self, chosen: Sequence[End], at: float | None, reason: str | None) -> None:
        with self.database.write() as db:
            moves.set_end(db, [each.number for each in chosen], at, reason)

    def rest(self) -> None:
        """Let Hermes have a turn if it runs, and do not let the log take the last room."""
        if self.database.is_awaited():
            time.sleep(_PAUSE)
        if shutil.disk_usage(self.database.path.parent).free < _LITTLE_ROOM:
            self.database.truncate_log()

    def give_back(self) -> None:
        self.finish_search()
        space.give_back(self.database)

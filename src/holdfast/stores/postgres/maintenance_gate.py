"""Maintenance of homes that share a store: one machine at a time. What each one did is recorded in
the store, where the others see it."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.model.maintenance import Marker
from holdfast.stores import home_identity
from holdfast.stores.maintenance_marker import NO_MARKER, FileMaintenanceGate, document, marker_of
from holdfast.stores.postgres.operation_log import alone, join
from holdfast.value import replace

if TYPE_CHECKING:  # psycopg is an extra
    from holdfast.stores.postgres.database import Database, Db

LOCK = 0x686F6C66
#: Another machine may be about to finish, but a host must not wait for a whole run.
_WAIT = 2.0
_log = logging.getLogger("holdfast")


class PostgresMaintenanceGate:
    """Each home has a marker of its own, because it has files of its own to maintain. A
    notification about the store counts for all homes."""

    def __init__(self, database: Callable[[], Database], state: Path) -> None:
        self._database = database
        self._state = state
        self._here = FileMaintenanceGate(state)

    @contextlib.contextmanager
    def entered(self, holder: str) -> Iterator[None]:
        with (
            self._here.entered(holder),
            alone(self._database(), LOCK, "maintenance", holder, wait=_WAIT),
        ):
            join(self._database(), home_identity.joined(self._state)[0], self._state)
            yield

    def watching(self, holder: str) -> AbstractContextManager[None]:
        return self._here.watching(holder)

    def read(self) -> Marker:
        own, others = Marker(), Marker()
        names = home_identity.names(self._state)
        rows = self._database().query("SELECT id, marker FROM members WHERE marker IS NOT NULL")
        for name, text in rows:
            found = _parsed(name, text)
            if name in names:
                own = max(own, found, key=lambda each: each.finished_at or 0.0)
            others = replace(others, told={**others.told, **found.told})
        return replace(own, told={**others.told, **own.told})

    def write(self, marker: Marker) -> None:
        database, names = self._database(), home_identity.joined(self._state)
        join(database, names[0], self._state)

        def note(db: Db) -> None:
            db.execute(
                "UPDATE members SET marker = %s, maintained_at = now() WHERE id = %s",
                (json.dumps(document(marker)), names[0]),
            )
            # Rows of killed processes, which will not ask about their last commit any more.
            db.execute("DELETE FROM commits WHERE at < now() - interval '7 days'")

        database.run(note)
        _catch_up(database)


def _catch_up(database: Database) -> None:
    """Index pending messages. This is no step of a plan, because plans are about removals. The run
    is over and recorded; if this fails, the next run does it."""
    from holdfast.stores.postgres import search_index  # noqa: PLC0415 - psycopg is an extra

    try:
        search_index.catch_up_all(database)
    except HoldfastError as error:
        _log.warning("the search index was not brought up to date: %s", error)


def _parsed(name: str, text: str) -> Marker:
    try:
        return marker_of(json.loads(text))
    except NO_MARKER as error:
        _log.warning("the maintenance of %s cannot be read and counts as never: %s", name, error)
        return Marker()

"""Holdfast's own home.

config.toml          settings
sessions.db          sessions and messages, unless the settings name a store elsewhere
sessions/            transcripts and request dumps
checkpoints/         states of projects
archive/             sessions that left the store
operations/          the operation log, and the lock for changing the home
trash/               undo copies, by operation
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.homes.home import Home
from holdfast.homes.kind import KIND
from holdfast.homes.options import USUAL, HomeOptions
from holdfast.homes.own_store import OwnContents, PostgresContents, own_contents
from holdfast.model.item import SESSION
from holdfast.value import replace

if TYPE_CHECKING:  # loaded on first use: a list of sessions does without them
    from holdfast.homes.archive.bundles import Replacing
    from holdfast.model.item import Inventory
    from holdfast.ports.runs import Clock, OperationLog
    from holdfast.ports.sessions import SessionStore
    from holdfast.ports.upkeep import MaintenanceGate
    from holdfast.stores.postgres.database import Database
    from holdfast.stores.trash_paths import TrashFolder


class HoldfastHome(Home):
    """A home of kind `holdfast`: the kind that hosts write their sessions to."""

    kind = KIND
    _contents: OwnContents

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock,
        idle: float | None = None,
        options: HomeOptions = USUAL,
    ) -> None:
        if idle is not None:
            options = replace(options, idle=idle)
        super().__init__(root, own_contents, clock=clock, options=options)

    def _own_log(self, trash: TrashFolder, options: HomeOptions) -> OperationLog:
        """Homes that share a store share its log: what one machine removed from the store, any
        other can restore."""
        if not options.store:
            return super()._own_log(trash, options)
        from holdfast.stores.postgres.operation_log import PostgresOperationLog

        return PostgresOperationLog(self._database, self.state, finish=self._finish)

    @property
    def maintenance_gate(self) -> MaintenanceGate:
        if not self.ground.options.store:
            return super().maintenance_gate
        from holdfast.stores.postgres.maintenance_gate import PostgresMaintenanceGate

        return PostgresMaintenanceGate(self._database, self.state)

    def note_figures(self, inventory: Inventory) -> None:
        if not self.ground.options.store:
            return
        from holdfast.model.fleet import Figures
        from holdfast.stores import home_identity
        from holdfast.stores.postgres import fleet

        figures = Figures(
            bytes=max(0, inventory.total_bytes - self.bytes_elsewhere(inventory)),
            checkpoint_bytes=inventory.checkpoint_bytes,
            archive_bytes=inventory.archive_bytes,
        )
        with suppress(HoldfastError):  # a home that is only being read may not be writable
            fleet.note(self._database(), home_identity.names(self.state), figures)

    def bytes_elsewhere(self, inventory: Inventory) -> int:
        """The bytes of sessions in a shared store, and of their trash: they are on its server."""
        if not self.ground.options.store:
            return 0
        shared = sum(each.bytes for each in inventory.items if each.kind == SESSION)
        return shared + self.own.trash_bytes()

    def _database(self) -> Database:
        """The database that homes share."""
        assert isinstance(self.own, PostgresContents)  # noqa: S101 - for the type checker
        return self.own.store().database

    @property
    def own(self) -> OwnContents:
        """The store and the operations on it."""
        return self._contents

    def create_session_store(self) -> SessionStore:
        """The session store, created if there is none."""
        return self.own.create()

    def replacing(self, command: str) -> AbstractContextManager[Replacing]:
        """Used by an import that replaces sessions: the replaced ones go to the archive."""
        from holdfast.homes.archive.bundles import replacing

        archive = self.home_archive
        clock = self.ground.clock
        return replacing(self, archive.folder, archive.packer, command=command, clock=clock)

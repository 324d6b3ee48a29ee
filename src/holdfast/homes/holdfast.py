"""Holdfast's own home.

config.toml          settings
sessions/            transcripts and request dumps
operations/          the operation log, and the lock of whoever changes the home
trash/               undo copies, by operation
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.homes import artifact_scan
from holdfast.homes.artifact_scan import Life
from holdfast.homes.artifacts import ArtifactKeeper
from holdfast.homes.checkup import HomeCheckup
from holdfast.homes.session_keeper import SessionKeeper
from holdfast.homes.trash_keeper import TrashKeeper
from holdfast.model.inventory import Inventory, Problem
from holdfast.model.item import REQUEST_DUMP, SESSION, TRANSCRIPT, TRASH
from holdfast.ports import Clock, Keeper, Progress
from holdfast.stores import processes
from holdfast.stores.files import allocated_bytes
from holdfast.stores.operation_log import FileOperationLog
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.stores.trash_folder import TrashFolder

KIND = "holdfast"
DEFAULT_FOLDER = ".holdfast"
DATABASE = "sessions.db"
SIGNS = (DATABASE, "operations", "config.toml", artifact_scan.FOLDER)


def recognise(root: Path) -> bool:
    return any((root / sign).exists() for sign in SIGNS)


class HoldfastHome:
    """A home of kind `holdfast`. Opening and scanning it create nothing."""

    kind = KIND

    def __init__(self, root: Path, *, clock: Clock, idle: float) -> None:
        self.root = root
        self._clock = clock
        self._store: SqliteSessionStore | None = None
        trash = root / "trash"
        self.log = FileOperationLog(root / "operations", trash)
        self._idle = idle
        artifacts = ArtifactKeeper(
            root, TrashFolder(trash), clock, Life(idle=idle, ended=self._session_ended)
        )
        sessions = SessionKeeper(self.session_store, TrashFolder(trash), clock, processes.is_dead)
        self._keepers: dict[str, Keeper] = {
            SESSION: sessions,
            TRANSCRIPT: artifacts,
            REQUEST_DUMP: artifacts,
        }
        self._keepers[TRASH] = TrashKeeper(lambda: self.log.read().trash, self.keeper)

    def keeper(self, kind: str) -> Keeper:
        try:
            return self._keepers[kind]
        except KeyError:
            raise UsageError(f"{self.root} holds no items of kind {kind!r}.") from None

    def scan(self, now: float, progress: Progress | None = None) -> Inventory:
        known = self._known_sessions()
        found = artifact_scan.scan(self.root, now, Life(idle=self._idle, ended=known.get), progress)
        log = self.log.read()
        beside, problems = _beside(self.root)
        return Inventory(
            home=str(self.root),
            scanned_at=now,
            items=found.items,
            trash=tuple(entry.as_item() for entry in log.trash),
            problems=(*found.problems, *problems, *log.problems),
            other_bytes=found.other_bytes + beside,
        )

    def session_store(self) -> SqliteSessionStore | None:
        """The session store, opened once; None when there is none. Creates nothing."""
        path = self.root / DATABASE
        if self._store is None and path.exists():
            self._store = SqliteSessionStore(path, create=False)
        return self._store

    def create_session_store(self) -> SqliteSessionStore:
        """The session store, made when there is none."""
        if self._store is None:
            self._store = SqliteSessionStore(self.root / DATABASE)
        return self._store

    def checkup(self) -> HomeCheckup:
        """How to look this home over, and to mend it."""
        return HomeCheckup(self.root, DATABASE, self.log, TrashFolder(self.root / "trash"))

    def _session_ended(self, session_id: str) -> bool | None:
        return self._known_sessions((session_id,)).get(session_id)

    def _known_sessions(self, ids: tuple[str, ...] | None = None) -> Mapping[str, bool]:
        """Whether sessions with a row have ended, by id."""
        store = self.session_store()
        return {} if store is None else store.ends(ids)


def _beside(root: Path) -> tuple[int, list[Problem]]:
    """The bytes of everything that is neither a session file nor trash."""
    total = 0
    problems: list[Problem] = []

    def unreadable(error: OSError) -> None:
        problems.append(Problem(path=str(error.filename), reason=str(error.strerror)))

    for folder, folders, files in os.walk(root, onerror=unreadable):
        if Path(folder) == root:
            # Counted by their own scans; a link of that name is not followed.
            folders[:] = [name for name in folders if name not in (artifact_scan.FOLDER, "trash")]
        for name in files:
            try:
                total += allocated_bytes(Path(folder, name).lstat())
            except FileNotFoundError:
                continue
    return total, problems

"""Sessions of the store as items: taken out into a bundle, and put back from it.

The undo copy is a gzip file of two JSON lines: the session as an export writes it, and what an
export leaves out (who its children were, when it was last active).

Write-order rule: the bundle is on the disk before the rows go, and goes after they are back.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, UnknownSessionError
from holdfast.model.item import SESSION, Item
from holdfast.model.lease import Holder
from holdfast.model.operation import Removal
from holdfast.model.report import Outcome, Result
from holdfast.model.session import Session
from holdfast.ports import Clock
from holdfast.services.exchange.importing import import_sessions
from holdfast.services.exchange.jsonl import session_line
from holdfast.stores.files import allocated_bytes, make_private_dir, replace
from holdfast.stores.sqlite.importing import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.stores.trash_folder import TrashFolder

_LEVEL = 6
_UNREADABLE = (OSError, EOFError, zlib.error, ValueError, KeyError)


def as_item(session: Session) -> Item:
    """A session as something a policy can judge."""
    return Item(
        kind=SESSION,
        id=session.id,
        source=session.source,
        session=session.id,
        bytes=session.bytes,
        last_active_at=session.last_active_at,
        version=version(session),
        pinned=session.pinned,
        alive=None if session.ended else "it has not ended",
    )


def version(session: Session) -> str:
    """Changes with every message, end, title and pin."""
    facts = (session.message_count, session.last_active_at, session.ended_at, session.title)
    return json.dumps([*facts, session.pinned])


class SessionKeeper:
    """Keeps the sessions of a store."""

    def __init__(
        self,
        store: Callable[[], SqliteSessionStore | None],
        trash: TrashFolder,
        clock: Clock,
        is_dead: Callable[[Holder], bool],
    ) -> None:
        self._store = store
        self._trash = trash
        self._clock = clock
        self._is_dead = is_dead

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._guarded(self._remove_or_clean_up, removal) for removal in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._guarded(self._settle, removal) for removal in batch]

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._guarded(self._discard, removal) for removal in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._guarded(self._bring_back, removal) for removal in batch]

    def _remove(self, store: SqliteSessionStore, removal: Removal) -> Outcome:
        with store.transaction():
            try:
                session = store.get(removal.item.id)
            except UnknownSessionError:
                return _end(removal, Result.SKIPPED, "already gone")
            obstacle = self._obstacle(store, session, removal)
            if obstacle:
                return _end(removal, Result.SKIPPED, obstacle)
            path = self._trash.path(removal)
            make_private_dir(path.parent)
            replace(path, _bundle(store, session))
            store.delete(session.id)
        return self._gone(removal, path)

    def _remove_or_clean_up(self, store: SqliteSessionStore, removal: Removal) -> Outcome:
        try:
            return self._remove(store, removal)
        except (OSError, HoldfastError):
            if store.ends((removal.item.id,)):  # it kept its rows: the copy would only confuse
                self._trash.path(removal).unlink(missing_ok=True)
                self._trash.drop_if_empty(removal.operation)
            raise

    def _obstacle(
        self, store: SqliteSessionStore, session: Session, removal: Removal
    ) -> str | None:
        """Asked inside the transaction that removes it: nobody can come in between."""
        if version(session) != removal.item.version:
            return "changed since the plan was made"
        if not session.ended:
            return "in use: it has not ended"
        holders = [lease.holder for lease in store.leases_of(session.id) if not lease.released]
        if any(not self._is_dead(holder) for holder in holders):
            return "in use: a process holds it"
        return None

    def _gone(self, removal: Removal, path: Path) -> Outcome:
        if not removal.item.undoable:
            return self._drop(removal, path)
        return _end(removal, Result.REMOVED, in_trash=allocated_bytes(path.stat()))

    def _settle(self, store: SqliteSessionStore, removal: Removal) -> Outcome:
        path = self._trash.path(removal)
        if store.ends((removal.item.id,)):
            path.unlink(missing_ok=True)  # killed before the rows went: as if it never began
            return _end(removal, Result.SKIPPED, "the run ended before its turn")
        if path.exists():
            return self._gone(removal, path)
        if removal.item.undoable:
            return _end(removal, Result.FAILED, "gone, and not through Holdfast")
        return _end(removal, Result.REMOVED)

    def _discard(self, _: SqliteSessionStore, removal: Removal) -> Outcome:
        path = self._trash.path(removal)
        if not path.exists():
            return _end(removal, Result.REMOVED, "its trash copy was gone already")
        return self._drop(removal, path)

    def _drop(self, removal: Removal, path: Path) -> Outcome:
        freed = allocated_bytes(path.stat())
        path.unlink()
        self._trash.drop_if_empty(removal.operation)
        return _end(removal, Result.REMOVED, freed=freed)

    def _bring_back(self, store: SqliteSessionStore, removal: Removal) -> Outcome:
        path = self._trash.path(removal)
        is_there = bool(store.ends((removal.item.id,)))
        if not path.exists():
            if is_there and version(store.get(removal.item.id)) == removal.item.version:
                return _end(removal, Result.BROUGHT_BACK)  # a killed undo had come this far
            return _end(removal, Result.DAMAGED, "its copy is no longer in the trash")
        try:
            line, beside = _unpack(path)
        except _UNREADABLE:
            return _end(removal, Result.DAMAGED, f"its copy in the trash was changed: {path}")
        if is_there and version(store.get(removal.item.id)) != removal.item.version:
            return _end(removal, Result.FAILED, "its place is taken; the copy stays in the trash")
        if not is_there:
            with store.transaction():
                report = import_sessions(
                    SqliteImport(store), io.BytesIO(line), replace=False, now=self._clock()
                )
                if report.refused:
                    return _end(removal, Result.DAMAGED, report.refused[0].text)
                store.adopt(removal.item.id, beside["children"], beside["last_active_at"])
        path.unlink()
        self._trash.drop_if_empty(removal.operation)
        return _end(removal, Result.BROUGHT_BACK)

    def _guarded(
        self, step: Callable[[SqliteSessionStore, Removal], Outcome], removal: Removal
    ) -> Outcome:
        store = self._store()
        if store is None:
            return _end(removal, Result.FAILED, "there is no session store in this home")
        try:
            return step(store, removal)
        except (OSError, HoldfastError) as error:
            reason = error.message if isinstance(error, HoldfastError) else str(error.strerror)
            return _end(removal, Result.FAILED, reason)


def _bundle(store: SqliteSessionStore, session: Session) -> bytes:
    line = "".join(session_line(session, store.messages(session.id)))
    beside = {
        "children": [child.id for child in store.children(session.id)],
        "last_active_at": session.last_active_at,
    }
    text = line + json.dumps(beside) + "\n"
    return gzip.compress(text.encode("utf-8"), _LEVEL, mtime=0)


def _unpack(path: Path) -> tuple[bytes, dict[str, Any]]:
    line, beside = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    facts = json.loads(beside)
    return line, {"children": list(facts["children"]), "last_active_at": facts["last_active_at"]}


def _end(
    removal: Removal, result: Result, reason: str = "", *, freed: int = 0, in_trash: int = 0
) -> Outcome:
    return Outcome(
        kind=removal.item.kind,
        id=removal.item.id,
        result=result,
        reason=reason,
        bytes_freed=freed,
        bytes_in_trash=in_trash,
    )

"""Sessions of the store as items: taken out into bundles, and put back from them.

A batch is worked off in runs of some sessions, each in a transaction of its own, so that nobody who
writes to the store waits long.

Write-order rule: the bundle is on the disk before the rows go, and goes after they are back.
"""

from __future__ import annotations

import errno
import itertools
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from sqlite3 import Error as SqliteError

from holdfast.errors import BusyError, DamageError, FullDiskError, HoldfastError, StorageError
from holdfast.homes.bundle_shares import freed_by, shared
from holdfast.homes.session_engine import Engines, Returned, SessionEngine
from holdfast.homes.session_runs import MOST_MESSAGES, obstacle, runs
from holdfast.model.item import SESSION, Item
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.model.session import Session
from holdfast.stores.files import storage_errors
from holdfast.stores.sqlite import bundle
from holdfast.stores.sqlite.bundle import BundleFolder, Copied
from holdfast.stores.sqlite.moves import Found
from holdfast.stores.trash_folder import TrashFolder

#: Where bundles lie in the trash of an operation.
FOLDER = "sessions"

#: A copy has no search index, so it takes less than half of what its sessions do.
_COPY_PART = 2
#: What the log takes for one run, at most, in bytes.
_MOST_LOG = 4_000_000
_COPYING = "write an undo copy to the trash"
_FULL = "The disk is nearly full: there is no room to keep undo copies of these sessions."
_WITHOUT_COPIES = "Free some space, or remove without undo copies: --now."
_NOT_REACHED = "the run ended before its turn"
_NO_STORE = "there is no session store in this home"


def bundles(trash: TrashFolder, operation: str) -> Path:
    """Where the sessions that an operation removed lie."""
    return trash.folder(operation) / FOLDER


def as_item(session: Session) -> Item:
    """A session as something a policy can judge."""
    return Item(
        kind=SESSION,
        id=session.id,
        source=session.source,
        session=session.id,
        bytes=session.bytes,
        last_active_at=session.last_active_at,
        version=session.version,
        pinned=session.pinned,
        alive=None if session.ended else "it has not ended",
        messages=session.message_count,
        titled=session.title is not None,
    )


class SessionKeeper:
    """Keeps the sessions of a store."""

    def __init__(self, engine: Engines, trash: TrashFolder) -> None:
        self._engine = engine
        self._trash = trash
        self._most = MOST_MESSAGES
        self._no_room = False

    def prepare(self, items: Sequence[PlanItem]) -> None:
        engine = self._engine()
        if engine is None:
            return
        self._no_room = not _have_room(engine.database.path, items)
        if not self._no_room:  # otherwise nothing goes, and what is made ready only takes room
            self._most = engine.prepare(items)

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._worked_off(batch, self._remove)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._worked_off(batch, self._settle)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._worked_off(batch, self._discard)

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._worked_off(batch, self._bring_back)

    # --- Out --------------------------------------------------------------------------------------

    def _remove(self, store: SessionEngine, batch: Sequence[Removal]) -> Iterator[Outcome]:
        with store.database.read() as db:
            found = store.look(db, _ids(batch))
        for run in runs(batch, found, self._most):
            yield from self._remove_what_fits(store, run, found)

    def _remove_what_fits(
        self, store: SessionEngine, run: Sequence[Removal], found: Mapping[str, Found]
    ) -> Sequence[Outcome]:
        """A transaction takes about as much room in the log as it deletes: on a disk that is nearly
        full less of it may fit. Copies are another matter: nobody said to go without them."""
        try:
            outcomes = list(self._remove_run(store, run, found))
        except StorageError:
            if len(run) == 1 or any(each.item.undoable for each in run):
                raise
            middle = len(run) // 2
            outcomes = []
            for half in (run[:middle], run[middle:]):
                store.database.truncate_log()
                outcomes += self._remove_what_fits(store, half, found)
        store.rest()
        return outcomes

    def _remove_run(
        self, store: SessionEngine, run: Sequence[Removal], found: Mapping[str, Found]
    ) -> Iterator[Outcome]:
        going = [each for each in run if obstacle(each, found) is None]
        copied = [each for each in going if each.item.undoable]
        kept_in: Path | None = None
        try:
            kept_in = self._copy(store, copied, found) if copied else None
            with _full_disk_errors(copied):
                obstacles = self._delete(store, going)
        except (SqliteError, HoldfastError):
            if kept_in is not None:
                kept_in.unlink(missing_ok=True)  # the rows are there: a copy would only confuse
            self._drop_if_empty(store, run[0])
            raise
        stayed = {name for name, why in obstacles.items() if why}
        if kept_in is not None and stayed:
            kept_in = self._folder(store, run[0]).without(kept_in, stayed)
        gone = [each.item.id for each in copied if each.item.id not in stayed]
        in_trash = shared(kept_in, {name: found[name].bytes for name in gone})
        for each in run:
            name = each.item.id
            why = obstacles[name] if name in obstacles else obstacle(each, found)
            if why:
                yield each.end(Result.SKIPPED, why)
            else:
                yield each.end(Result.REMOVED, in_trash=in_trash.get(name, 0))

    def _copy(
        self, store: SessionEngine, going: Sequence[Removal], found: Mapping[str, Found]
    ) -> Path:
        if self._no_room:
            raise StorageError(_FULL, hint=_WITHOUT_COPIES)
        numbers = [found[each.item.id].number for each in going]
        with store.database.read() as db, _copy_errors():
            folder = self._folder(store, going[0])
            return folder.write(db, numbers, going[0].number, going[-1].number)

    def _delete(self, store: SessionEngine, going: Sequence[Removal]) -> Mapping[str, str | None]:
        """Why each of these stayed, or None. Asked again inside the transaction that removes them:
        nobody can come in between."""
        if not going:
            return {}
        with store.database.write() as db:
            found = store.look(db, _ids(going))
            obstacles = {each.item.id: obstacle(each, found) for each in going}
            store.delete(db, [found[name].number for name, why in obstacles.items() if not why])
        return obstacles

    # --- After a kill -----------------------------------------------------------------------------

    def _settle(self, store: SessionEngine, batch: Sequence[Removal]) -> Iterator[Outcome]:
        """A row that is there was not reached, unless another session has taken its id since."""
        folder = self._folder(store, batch[0])
        folder.clear_unfinished()
        copies, in_trash = _copies(folder, batch)
        with store.database.read() as db:
            found = store.look(db, _ids(batch))
            untouched = {
                name
                for name, there in found.items()
                if name not in copies or store.is_copied(db, there, copies[name])
            }
        for path in folder.holding(_numbers(batch)):
            folder.without(path, untouched)
        self._drop_if_empty(store, batch[0])
        for each in batch:
            name = each.item.id
            if name in untouched:
                yield each.end(Result.SKIPPED, _NOT_REACHED)
            elif name in copies or not each.item.undoable:
                yield each.end(Result.REMOVED, in_trash=in_trash.get(name, 0))
            else:
                yield each.end(Result.FAILED, "gone, and not through Holdfast")

    # --- For good ---------------------------------------------------------------------------------

    def _discard(self, store: SessionEngine, batch: Sequence[Removal]) -> Iterator[Outcome]:
        folder = self._folder(store, batch[0])
        gone = {each.item.id for each in batch}
        freed: dict[str, int] = {}
        for path in folder.holding(_numbers(batch)):
            freed |= freed_by(folder, path, gone)
        self._drop_if_empty(store, batch[0])
        for each in batch:
            why = "" if each.item.id in freed else "its trash copy was gone already"
            yield each.end(Result.REMOVED, why, freed=freed.get(each.item.id, 0))

    # --- Back -------------------------------------------------------------------------------------

    def _bring_back(self, store: SessionEngine, batch: Sequence[Removal]) -> Iterator[Outcome]:
        outcomes: dict[str, Outcome] = {}
        by_number = {each.number: each for each in batch}
        for path, numbers in self._folder(store, batch[0]).holding(_numbers(batch)).items():
            for outcome in self._from_bundle(store, path, [by_number[each] for each in numbers]):
                outcomes[outcome.id] = outcome
            store.rest()
        nowhere = [each for each in batch if each.item.id not in outcomes]
        outcomes |= {each.id: each for each in self._put_back(store, None, nowhere, {})}
        self._drop_if_empty(store, batch[0])
        for each in batch:
            yield outcomes[each.item.id]

    def _from_bundle(
        self, store: SessionEngine, path: Path, removals: Sequence[Removal]
    ) -> Sequence[Outcome]:
        try:
            bundle.check(path)
            with bundle.opened(path) as copies:
                inside = {copied.id: copied for copied in bundle.contents(copies)}
        except (DamageError, SqliteError, OSError):
            why = f"its copy in the trash was changed: {path}"
            return [each.end(Result.DAMAGED, why) for each in removals]
        outcomes = self._put_back(store, path, removals, inside)
        back = {each.id for each in outcomes if each.result is Result.BROUGHT_BACK}
        if back & inside.keys():
            self._folder(store, removals[0]).without(path, back)  # after the rows are back
        return outcomes

    def _put_back(
        self,
        store: SessionEngine,
        path: Path | None,
        removals: Sequence[Removal],
        inside: Mapping[str, Copied],
    ) -> Sequence[Outcome]:
        with store.database.write() as db:
            found = store.look(db, _ids(removals))
            # Another session may look the same: an import brings the same times and counts.
            others = {
                name
                for name, there in found.items()
                if name in inside and not store.is_copied(db, there, inside[name])
            }
            outcomes = [_back(each, found, inside, others) for each in removals]
            missing = [
                each.id
                for each in outcomes
                if each.result is Result.BROUGHT_BACK and each.id not in found
            ]
            returned = Returned()
            if path is not None and missing:
                with bundle.opened(path) as copies:
                    returned = store.put_back(db, copies, missing)
        return [
            _returned(each, outcome, returned)
            for each, outcome in zip(removals, outcomes, strict=True)
        ]

    # --- Together ---------------------------------------------------------------------------------

    def _folder(self, store: SessionEngine, removal: Removal) -> BundleFolder:
        return store.bundles(bundles(self._trash, removal.operation))

    def _drop_if_empty(self, store: SessionEngine, removal: Removal) -> None:
        self._folder(store, removal).drop_if_empty()
        self._trash.drop_if_empty(removal.operation)

    def _worked_off(
        self,
        batch: Sequence[Removal],
        step: Callable[[SessionEngine, Sequence[Removal]], Iterator[Outcome]],
    ) -> Sequence[Outcome]:
        """What a step says of each; what it did not come to has failed, for the reason it gave."""
        store = self._engine()
        if store is None:
            return [each.end(Result.FAILED, _NO_STORE) for each in batch]
        outcomes: list[Outcome] = []
        for _, alike in itertools.groupby(batch, key=lambda each: each.operation):
            group = list(alike)
            done: list[Outcome] = []
            try:
                done.extend(step(store, group))
            except BusyError:
                raise  # each batch to come would wait as long; the next run settles this one
            except (HoldfastError, OSError, SqliteError) as error:
                store.database.truncate_log()  # the operation log needs room too
                done += [each.end(Result.FAILED, _words(error)) for each in group[len(done) :]]
            outcomes += done
        return outcomes


def _have_room(path: Path, items: Sequence[PlanItem]) -> bool:
    """Whether undo copies fit the disk, with the log of a transaction beside them. A run that finds
    out half-way has written copies and a log by then, and leaves even less room."""
    copied = sum(item.bytes for item in items if item.undoable)
    needed = copied // _COPY_PART + min(copied // _COPY_PART, _MOST_LOG)
    return shutil.disk_usage(path.parent).free >= needed


@contextmanager
def _copy_errors() -> Iterator[None]:
    """Nothing goes without its copy, unless somebody says that it may."""
    try:
        with storage_errors(_COPYING):
            yield
    except (StorageError, SqliteError) as error:
        if not _is_full(error):
            raise
        raise StorageError(
            f"Cannot {_COPYING}: the disk is full.",
            hint=_WITHOUT_COPIES,
        ) from error


@contextmanager
def _full_disk_errors(copied: Sequence[Removal]) -> Iterator[None]:
    """Deleting takes room too, until it is through. Without the copies there is more."""
    try:
        yield
    except FullDiskError as error:
        if not copied:
            raise
        raise StorageError(_FULL, hint=_WITHOUT_COPIES) from error


def _is_full(error: Exception) -> bool:
    if isinstance(error.__cause__, OSError):
        return error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


def _copies(
    folder: BundleFolder, batch: Sequence[Removal]
) -> tuple[Mapping[str, Copied], Mapping[str, int]]:
    """What the bundles of a batch hold, and what each session takes there."""
    copies: dict[str, Copied] = {}
    in_trash: dict[str, int] = {}
    for path in folder.holding(_numbers(batch)):
        with suppress(DamageError, SqliteError), bundle.opened(path) as opened:
            inside = {copied.id: copied for copied in bundle.contents(opened)}
            copies |= inside
            in_trash |= shared(path, dict.fromkeys(inside, 1))
    return copies, in_trash


def _words(error: Exception) -> str:
    if isinstance(error, HoldfastError):
        return error.message if error.hint is None else f"{error.message} {error.hint}"
    return str(getattr(error, "strerror", None) or error)


def _back(
    removal: Removal,
    found: Mapping[str, Found],
    inside: Collection[str],
    others: Collection[str],
) -> Outcome:
    """What a look says becomes of a session that is to come back. `others` have the id of one that
    is in the trash."""
    there = found.get(removal.item.id)
    is_other = removal.item.id in others
    if there is not None and there.version == removal.item.version and not is_other:
        return removal.end(Result.BROUGHT_BACK)  # a killed undo had come this far
    if removal.item.id not in inside:
        return removal.end(Result.DAMAGED, "its copy is no longer in the trash")
    if there is not None:
        return removal.end(Result.FAILED, "its place is taken; the copy stays in the trash")
    return removal.end(Result.BROUGHT_BACK)


def _returned(removal: Removal, outcome: Outcome, returned: Returned) -> Outcome:
    if outcome.id in returned.refused:
        return removal.end(Result.FAILED, returned.refused[outcome.id])
    if outcome.id in returned.notes:
        return removal.end(Result.BROUGHT_BACK, returned.notes[outcome.id])
    return outcome


def _numbers(batch: Sequence[Removal]) -> list[int]:
    return [each.number for each in batch]


def _ids(batch: Sequence[Removal]) -> list[str]:
    return [each.item.id for each in batch]

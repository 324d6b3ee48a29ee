"""Moves sessions out of a store and back, in bundles: undo copies of several sessions each.

A batch is processed in runs of some sessions, each in its own transaction, so that no writer waits
long.

Write-order rule: the bundle is on the disk before the rows are deleted, and is removed after they
are restored.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from holdfast.errors import BusyError, DamageError, FullDiskError, HoldfastError, StorageError
from holdfast.model.item import SESSION, Item
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import IN_PLACE, Moved, Presence, damaged, failed, stayed, unseen
from holdfast.model.session import Session
from holdfast.model.stored_session import EVERYTHING, MOST_MESSAGES, Copied, Found, Returned
from holdfast.ports.sessions import SessionCopies, SessionEngine, SessionEngines
from holdfast.spine.keeper import in_a_word
from holdfast.spine.outcomes import (
    ALREADY_GONE,
    CHANGED,
    COPY_MISSING,
    NO_SESSION_STORE,
    PLACE_TAKEN,
    copy_changed,
)
from holdfast.stores.disk import disk_room
from holdfast.stores.files import storage_errors
from holdfast.stores.threads import in_threads
from holdfast.stores.trash_paths import TrashFolder
from holdfast.value import dataclass, replace

#: The folder of the bundles in the trash of an operation.
FOLDER = "sessions"

#: A copy has no search index, so it takes less than half of the space of its sessions.
_COPY_PART = 2
#: Messages removed from a search index per transaction, which is how long other writers wait.
AT_ONCE = 200
#: The same for messages that are in no search index.
_UNINDEXED_AT_ONCE = 5_000
#: Messages in one bundle if the whole store is emptied: an undo restores one bundle per
#: transaction.
_MOST_COPIED = 10_000
#: The most that one run adds to the WAL, in bytes.
_MOST_LOG = 4_000_000
_COPYING = "write an undo copy to the trash"
#: From so many sessions on, space is given back while their files move: that takes longer.
_MANY = 500
_FULL = "The disk is nearly full: there is no space for undo copies of these sessions."
_WITHOUT_COPIES = "Free some space, or remove without undo copies: --now."
_Answer = TypeVar("_Answer")


def bundles(trash: TrashFolder, operation: str) -> Path:
    """The folder of the sessions that an operation removed."""
    return trash.folder(operation) / FOLDER


def as_item(session: Session) -> Item:
    """A session as an item for policies."""
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


@dataclass(frozen=True, slots=True)
class _Seen:
    """The sessions of the batch seen last, and the state of the store before that."""

    found: Mapping[str, Found] = MappingProxyType({})
    state: object = None


class SessionMover:
    """Moves the sessions of a store into bundles in the trash and back."""

    def __init__(self, engine: SessionEngines, trash: TrashFolder) -> None:
        self._engine = engine
        self._trash = trash
        self._most = MOST_MESSAGES
        self._coming = 0
        self._no_room = False
        self._seen = _Seen()

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        self._most, self._coming = MOST_MESSAGES, len(items)
        engine = self._engine()
        if engine is None:
            return None
        self._no_room = not _have_room(engine.place, items)
        if not self._no_room:  # otherwise nothing is removed, and this only uses space
            self._most = engine.prepare(items)
        return len(items) if self._most == EVERYTHING else None

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        return self._worked_off(batch, self._look, unseen)

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Nothing to do: `drop` makes the copies, run by run, so that a failing run does not affect
        the copies of the others."""
        return [Moved()] * len(batch)

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._worked_off(batch, self._drop, failed)

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._worked_off(batch, self._put_back, failed)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._worked_off(batch, self._discard, failed)

    def _look(self, store: SessionEngine, batch: Sequence[Removal]) -> Iterator[Presence]:
        folder = self._folder(store, batch[0])
        folder.clear_unfinished()  # copies that a killed run did not finish
        self._drop_if_empty(store, batch[0])
        copies = _Copies.of(folder, batch)
        with store.reading():
            state, found = store.state(), store.look(_ids(batch))
            # Another session may look the same: an import may bring the same times and counts.
            others = {
                name
                for name, there in found.items()
                if name in copies.inside and not store.is_copied(there, copies.inside[name])
            }
        self._seen = _Seen(found, state)
        for each in batch:
            name, there = each.item.id, found.get(each.item.id)
            obstacle = "" if there is None else there.obstacle(each.item) or ""
            if there is not None and not (obstacle or copies.inside or copies.damaged):
                yield IN_PLACE
                continue
            yield Presence(
                here=there is not None,
                copied=name in copies.inside or each.number in copies.damaged,
                ours=name not in others,
                changed=there is not None and there.version != each.item.version,
                obstacle=obstacle,
                damage=copies.damaged.get(each.number, ""),
                bytes=copies.bytes.get(name, 0),
            )

    # --- Removing ---------------------------------------------------------------------------------

    def _drop(self, store: SessionEngine, batch: Sequence[Removal]) -> Iterator[Moved]:
        # The result of `look` is enough for copying: the transaction that removes them looks again.
        seen, self._seen = self._seen, _Seen()
        if not all(each.item.id in seen.found for each in batch):
            seen = _Seen(store.look(_ids(batch)))
        # Without a bundle a longer run gains nothing, unless it empties the store.
        longer = self._empties(batch) or any(each.item.undoable for each in batch)
        for run in runs(batch, seen.found, self._most if longer else self._at_once):
            yield from self._drop_what_fits(store, run, seen)
        if self._empties(batch) and len(batch) >= _MANY:
            store.begin_to_give_back()  # while their files move

    @property
    def _at_once(self) -> int:
        return at_once(self._most)

    def _empties(self, run: Sequence[Removal]) -> bool:
        """True if a run is everything that was announced, and may be removed at once. A part of it
        may not: emptying a store is fast, removing half of it is not."""
        return self._most == EVERYTHING and len(run) == self._coming

    def _drop_what_fits(
        self, store: SessionEngine, run: Sequence[Removal], seen: _Seen
    ) -> Sequence[Moved]:
        """Remove a run, in halves if it does not fit: a transaction needs about as much WAL space
        as it deletes, and a nearly full disk may have less. With undo copies this is not done: the
        caller did not ask to leave them out."""
        try:
            moved = list(self._drop_run(store, run, seen))
        except StorageError:
            if len(run) == 1 or any(each.item.undoable for each in run):
                raise
            middle = len(run) // 2
            moved = []
            for half in (run[:middle], run[middle:]):
                store.truncate_log()
                moved += self._drop_what_fits(store, half, seen)
        store.rest()
        return moved

    def _drop_run(
        self, store: SessionEngine, run: Sequence[Removal], seen: _Seen
    ) -> Iterator[Moved]:
        found = seen.found
        going = [each for each in run if obstacle(each, found) is None]
        copied = [each for each in going if each.item.undoable]
        kept_in: dict[Path, Sequence[Removal]] = {}
        obstacles: dict[str, str | None] = {}
        failure = ""
        empties = self._empties(run)
        try:
            parts = [*runs(copied, found, min(_MOST_COPIED, store.most_copied))]
            self._copy_all(store, parts, found, kept_in)
            with _full_disk_errors(copied):
                for part in runs(going, found, EVERYTHING if empties else self._at_once):
                    obstacles |= self._delete(store, part, seen, empties=empties)
                    store.rest()
        except HoldfastError as error:
            obstacles |= _gone(store, [each for each in going if each.item.id not in obstacles])
            if None not in obstacles.values():
                for path in kept_in:
                    # The rows are still there: a copy would only confuse.
                    self._folder(store, run[0]).drop(path)
                self._drop_if_empty(store, run[0])
                raise
            if isinstance(error, BusyError):
                raise  # the copies stay: the run that settles this one sees what was removed
            failure = in_a_word(error)
        folder = self._folder(store, run[0])
        not_reached = {each.item.id for each in going} - obstacles.keys()
        stayed_there = not_reached | {name for name, why in obstacles.items() if why}
        in_trash: dict[str, int] = {}
        for path, part in kept_in.items():
            gone = [name for name in _ids(part) if name not in stayed_there]
            left = path if len(gone) == len(part) else folder.without(path, stayed_there)
            in_trash |= _shared(folder, left, {name: found[name].bytes for name in gone})
        for each in run:
            name = each.item.id
            if name in not_reached:
                yield failed(failure)
                continue
            why = obstacles[name] if name in obstacles else obstacle(each, found)
            copy = Moved(copied=name in in_trash, bytes=in_trash.get(name, 0))
            yield stayed(why) if why else copy

    def _copy_all(
        self,
        store: SessionEngine,
        parts: Sequence[Sequence[Removal]],
        found: Mapping[str, Found],
        kept_in: dict[Path, Sequence[Removal]],
    ) -> None:
        """Copy each part into a bundle. If the store supports it, the next bundle is written while
        one is flushed. Copies made before an error are in `kept_in`, too."""

        def keep(part: Sequence[Removal]) -> None:
            kept_in[self._copy(store, part, found)] = part

        in_threads(keep, parts, store.copiers)

    def _copy(
        self, store: SessionEngine, going: Sequence[Removal], found: Mapping[str, Found]
    ) -> Path:
        if self._no_room:
            raise StorageError(_FULL, hint=_WITHOUT_COPIES)
        folder = bundles(self._trash, going[0].operation)
        leaving = [found[each.item.id] for each in going]
        with _copy_errors():
            return store.copy(folder, leaving, going[0].number, going[-1].number)

    def _delete(
        self,
        store: SessionEngine,
        going: Sequence[Removal],
        seen: _Seen,
        *,
        empties: bool,
    ) -> Mapping[str, str | None]:
        """Return why each of these stayed, or None. Checked again inside the transaction that
        removes them, so no other process can interfere. If the store is unchanged since they were
        seen, that result is used."""
        if not going:
            return {}
        found = seen.found
        with store.transaction(empties=empties):
            unchanged = seen.state is not None and store.state() == seen.state
            now = found if unchanged else store.look(_ids(going))
            obstacles = {each.item.id: obstacle(each, now) for each in going}
            for name in obstacles.keys() & now.keys():
                if now[name].number != found[name].number:  # another session: it has no copy
                    obstacles[name] = CHANGED
            store.delete(
                [now[name] for name, why in obstacles.items() if not why],
                for_good=not any(each.item.undoable for each in going),
            )
        return obstacles

    # --- Discarding -------------------------------------------------------------------------------

    def _discard(self, store: SessionEngine, batch: Sequence[Removal]) -> Iterator[Moved]:
        folder = self._folder(store, batch[0])
        gone = {each.item.id for each in batch}
        freed: dict[str, int] = {}
        for path in folder.holding(_numbers(batch)):
            freed |= _freed_by(folder, path, gone)
        self._drop_if_empty(store, batch[0])
        for each in batch:
            name = each.item.id
            yield Moved(copied=name in freed, bytes=freed.get(name, 0))

    # --- Restoring --------------------------------------------------------------------------------

    def _put_back(self, store: SessionEngine, batch: Sequence[Removal]) -> Iterator[Moved]:
        moved: dict[int, Moved] = {}
        by_number = {each.number: each for each in batch}
        held = self._folder(store, batch[0]).holding(_numbers(batch))
        coming = {path: [by_number[each] for each in numbers] for path, numbers in held.items()}
        ids = {path: _ids(removals) for path, removals in coming.items()}
        try:
            with closing(store.made_ready(ids)) as ready:
                for path in ready:
                    moved |= self._all_from(store, path, coming.pop(path))
                    store.rest()
            self._drop_if_empty(store, batch[0])
        except BusyError:
            raise  # as in `_worked_off`
        except (HoldfastError, OSError) as error:
            # Sessions restored before the error stay restored.
            for removals in coming.values():
                moved |= _none_of(removals, error)
        for each in batch:
            yield moved.get(each.number) or damaged(COPY_MISSING)

    def _all_from(
        self, store: SessionEngine, path: Path, removals: Sequence[Removal]
    ) -> Mapping[int, Moved]:
        """The results for the sessions of a bundle. A failure does not stop later bundles."""
        try:
            return self._from_bundle(store, path, removals)
        except BusyError:
            raise  # as in `_worked_off`
        except (HoldfastError, OSError) as error:
            store.truncate_log()
            return _none_of(removals, error)

    def _from_bundle(
        self, store: SessionEngine, path: Path, removals: Sequence[Removal]
    ) -> Mapping[int, Moved]:
        folder = self._folder(store, removals[0])
        try:
            folder.check(path)
            inside = {copied.id: copied for copied in folder.contents(path)}
        except (DamageError, OSError):
            return {each.number: damaged(copy_changed(path)) for each in removals}
        with store.transaction():
            found = store.look(_ids(removals))
            wanted = {each.item.id: each.item.version for each in removals}
            taken = {
                name
                for name, there in found.items()
                if there.version != wanted[name]
                or (name in inside and not store.is_copied(there, inside[name]))
            }
            coming = [name for name in wanted if name in inside and name not in found]
            back = store.put_back(path, coming) if coming else Returned()
        moved = {each.number: _returned(each.item.id, inside, taken, back) for each in removals}
        gone = {each.item.id for each in removals if moved[each.number].done}
        try:  # only after the rows are back
            if gone and gone.issuperset(inside):
                folder.drop(path)
            elif gone:
                folder.without(path, gone)
        except (HoldfastError, OSError) as error:
            # The copy stays in the list of the trash: a later undo removes it, and so does emptying
            # the trash.
            note = f"its copy stays in the trash: {in_a_word(error)}"
            return {
                each: replace(one, reason=note, in_part=True) if one.done else one
                for each, one in moved.items()
            }
        return moved

    # --- Helpers ----------------------------------------------------------------------------------

    def _folder(self, store: SessionEngine, removal: Removal) -> SessionCopies:
        return store.copies(bundles(self._trash, removal.operation))

    def _drop_if_empty(self, store: SessionEngine, removal: Removal) -> None:
        self._folder(store, removal).drop_if_empty()
        self._trash.drop_if_empty(removal.operation)

    def _worked_off(
        self,
        batch: Sequence[Removal],
        step: Callable[[SessionEngine, Sequence[Removal]], Iterator[_Answer]],
        refuse: Callable[[str], _Answer],
    ) -> Sequence[_Answer]:
        """Run a step for each operation of a batch; items that it did not reach are refused with
        its error."""
        store = self._engine()
        if store is None:
            return [refuse(NO_SESSION_STORE) for _ in batch]
        answers: list[_Answer] = []
        for _, alike in itertools.groupby(batch, key=lambda each: each.operation):
            group = list(alike)
            done: list[_Answer] = []
            try:
                done.extend(step(store, group))
            except BusyError:
                raise  # every further batch would wait as long; the next run settles this one
            except (HoldfastError, OSError) as error:
                store.truncate_log()  # the operation log needs room too
                why = in_a_word(error)
                done += [refuse(why) for _ in group[len(done) :]]
            answers += done
        return answers


def _have_room(path: Path | None, items: Sequence[PlanItem]) -> bool:
    """True if the disk has space for undo copies, and for the WAL of a transaction next to them. A
    run that fails half-way has already written copies and a WAL, and leaves even less space."""
    if path is None:
        return True
    copied = sum(item.bytes for item in items if item.undoable)
    needed = copied // _COPY_PART + min(copied // _COPY_PART, _MOST_LOG)
    room = disk_room(path.parent)
    return room is None or room.free >= needed


def runs(
    batch: Sequence[Removal], found: Mapping[str, Found], most: int = MOST_MESSAGES
) -> Iterator[Sequence[Removal]]:
    """Split a batch into runs with few messages each; a session is never split."""
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


def at_once(most: int) -> int:
    """Messages per transaction, for `most` messages per run. Only a search index makes deleting
    slow."""
    if most == EVERYTHING:
        return _UNINDEXED_AT_ONCE
    return AT_ONCE if most <= MOST_MESSAGES else most


def _gone(store: SessionEngine, going: Sequence[Removal]) -> Mapping[str, str | None]:
    """Which of these sessions were removed before an error: a commit may have succeeded although
    the flush after it failed. If that cannot be determined, this raises, and the copies stay."""
    there = store.look(_ids(going))
    return {name: None for name in _ids(going) if name not in there}


def obstacle(removal: Removal, found: Mapping[str, Found]) -> str | None:
    """Why a session must stay in the current state."""
    there = found.get(removal.item.id)
    return ALREADY_GONE if there is None else there.obstacle(removal.item)


@contextmanager
def _copy_errors() -> Iterator[None]:
    """Nothing is removed without its copy, unless the user asked for that."""
    try:
        with storage_errors(_COPYING):
            yield
    except StorageError as error:
        if not _is_full(error):
            raise
        raise StorageError(
            f"Cannot {_COPYING}: the disk is full.",
            hint=_WITHOUT_COPIES,
        ) from error


@contextmanager
def _full_disk_errors(copied: Sequence[Removal]) -> Iterator[None]:
    """Deleting needs space, too, until it is committed. Without copies there is more."""
    try:
        yield
    except FullDiskError as error:
        if not copied:
            raise
        raise StorageError(_FULL, hint=_WITHOUT_COPIES) from error


def _is_full(error: StorageError) -> bool:
    cause = error.__cause__
    no_room = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
    return no_room or isinstance(error, FullDiskError)


@dataclass(frozen=True, slots=True)
class _Copies:
    """The sessions in the bundles of a batch, and their sizes there. `damaged` maps numbers whose
    copies cannot be read to the reason."""

    inside: Mapping[str, Copied]
    bytes: Mapping[str, int]
    damaged: Mapping[int, str]

    @classmethod
    def of(cls, folder: SessionCopies, batch: Sequence[Removal]) -> _Copies:
        copies: dict[str, Copied] = {}
        in_trash: dict[str, int] = {}
        damage: dict[int, str] = {}
        for path, numbers in folder.holding(_numbers(batch)).items():
            try:
                inside = {copied.id: copied for copied in folder.contents(path)}
            except (DamageError, OSError):
                damage |= dict.fromkeys(numbers, copy_changed(path))
                continue
            copies |= inside
            in_trash |= _shared(folder, path, dict.fromkeys(inside, 1))
        return cls(copies, in_trash, damage)


def _none_of(removals: Sequence[Removal], error: HoldfastError | OSError) -> Mapping[int, Moved]:
    return {each.number: failed(in_a_word(error)) for each in removals}


def _returned(
    name: str, inside: Collection[str], taken: Collection[str], returned: Returned
) -> Moved:
    if name in taken:
        return failed(PLACE_TAKEN)
    if name not in inside:
        return damaged(COPY_MISSING)
    if name in returned.refused:
        return failed(returned.refused[name])
    return Moved(reason=returned.notes.get(name, ""))


def _shared(
    folder: SessionCopies, path: Path | None, weights: Mapping[str, int]
) -> Mapping[str, int]:
    """The size of a bundle, divided by weight; the parts add up to the whole."""
    if path is None or not weights:
        return {}
    return _parts(folder.size(path), weights)


def _parts(whole: int, weights: Mapping[str, int]) -> Mapping[str, int]:
    total = sum(weights.values()) + len(weights)
    parts = {name: whole * (weight + 1) // total for name, weight in weights.items()}
    parts[next(iter(parts))] += whole - sum(parts.values())
    return parts


def _freed_by(folder: SessionCopies, path: Path, gone: Collection[str]) -> Mapping[str, int]:
    """Remove copies from a bundle; return the freed bytes, divided among them."""
    before = folder.size(path)
    try:
        leaving = [copied.id for copied in folder.contents(path) if copied.id in gone]
    except DamageError:
        leaving = list(gone)  # nothing in it can be saved
        path.unlink()
        left = None
    else:
        if not leaving:
            return {}
        left = folder.without(path, leaving)
    freed = before - (folder.size(left) if left else 0)
    return _parts(max(0, freed), dict.fromkeys(leaving, 1))


def _numbers(batch: Sequence[Removal]) -> list[int]:
    return [each.number for each in batch]


def _ids(batch: Sequence[Removal]) -> list[str]:
    return [each.item.id for each in batch]

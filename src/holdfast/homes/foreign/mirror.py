"""What we remember of another agent's sessions. All of it is a cache: deleting it loses nothing.

    <state>/index/units.json    what each session's files said, and their version
    <state>/index/sessions.db   messages, for search; made when first asked for

The index has a bound. The sessions that were used last are in it, and it says which are not.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import BusyError, DamageError, HoldfastError, SchemaError, StorageError
from holdfast.homes.agents.json_lines import UNREADABLE
from holdfast.homes.foreign.notes import Notes, Seen
from holdfast.model.item import Problem
from holdfast.model.session import Session
from holdfast.model.text import format_bytes, format_count
from holdfast.ports.formats import Format
from holdfast.ports.runs import Progress
from holdfast.stores.files import make_private_dir
from holdfast.stores.sqlite.mirror import LEFT_OUT, Fed, MirrorStore
from holdfast.value import replace

#: What the index may take on the disk. Beyond it, the sessions that were used longest ago leave.
MOST_BYTES = 2 * 1024**3
#: What is stored in one transaction of the index. A larger session is stored piece by piece.
_BATCH = 50
_BATCH_BYTES = 32 * 1024**2

SessionOf = Callable[[Seen], Session]


class Mirror:
    """Keeps the cache of one home in step with it. One that is not `lasting` goes when the home is
    closed: nothing is ever written into a project of the user."""

    def __init__(self, folder: Path, form: Format, root: Path, *, lasting: bool = True) -> None:
        self._folder = folder
        self._lasting = lasting
        self._format = form
        self._root = root
        self._store: MirrorStore | None = None
        self._elsewhere: Path | None = None
        self.notes = Notes(folder / "units.json", lasting=lasting)

    # --- Index ------------------------------------------------------------------------------------

    def refresh(
        self,
        seen: Mapping[str, Seen],
        session_of: SessionOf,
        progress: Progress | None = None,
    ) -> None:
        """Bring the index up to date with what a look has found. What is left when somebody stops
        it is done the next time."""
        store = self.store()
        there = store.fed()
        gone = [name for name in there if name not in seen]
        if gone:
            self._forget(store, gone, there)
            there = store.fed()
        stale = [each for name, each in seen.items() if _needs_feeding(each, there.get(name))]
        for each in seen.values():
            fed = there.get(each.unit.id)
            if fed is not None and fed.version == each.version and fed.ended == bool(each.alive):
                store.set_ended(session_of(each))
        if stale:
            self._feed(store, stale, session_of, there, progress)
        store.catch_up()

    def feed(self, seen: Seen, session: Session) -> None:
        """Store one session, whatever the bound."""
        store = self.store()
        if _needs_feeding(seen, store.fed([seen.unit.id]).get(seen.unit.id)):
            self._feed_one(store, seen, session, {})

    def _feed(
        self,
        store: MirrorStore,
        stale: Sequence[Seen],
        session_of: SessionOf,
        there: Mapping[str, Fed],
        progress: Progress | None = None,
    ) -> None:
        """The latest first, so that what does not fit is the oldest. Each batch is kept: a run that
        is killed goes on where it was."""
        known: dict[str, object] = dict(there)
        done_before = 0
        for batch in _batches(_parents_first(stale)):
            if progress is not None:
                if progress.stop_requested():
                    return
                progress.step(f"indexing {self._format.facts.agent}", done_before, len(stale))
            done_before += len(batch)
            oldest = min(each.unit.active for each in batch)
            if store.used_bytes() > MOST_BYTES and not store.make_room(oldest):
                store.leave_out([(each.unit.id, each.version, each.unit.active) for each in batch])
                continue
            large = len(batch) == 1 and batch[0].bytes > _BATCH_BYTES
            with contextlib.nullcontext() if large else store.transaction():
                done = store.fed([each.unit.id for each in batch])  # by another process meanwhile
                for each in batch:
                    if _needs_feeding(each, done.get(each.unit.id)):
                        self._feed_one(store, each, session_of(each), known)
                    known[each.unit.id] = True

    def _feed_one(
        self, store: MirrorStore, each: Seen, session: Session, known: Mapping[str, object]
    ) -> None:
        if session.parent_id not in known:  # the index may hold a child alone
            session = replace(session, parent_id=None, relation=None)
        try:
            said = each.messages(self._format, self._root)
            store.feed(session, said, version=each.version, most_bytes=MOST_BYTES)
        except (BusyError, DamageError):
            raise
        except UNREADABLE as error:
            # One session that cannot be read costs itself, until it changes.
            why = error.message if isinstance(error, HoldfastError) else str(error)
            if isinstance(error, OSError):
                why = error.strerror or why
            store.leave_out(
                [(each.unit.id, each.version, each.unit.active)], f"cannot be read: {why}"
            )

    def forget_all_but(self, ids: Collection[str]) -> None:
        """What left the home leaves the index at once, to the last word."""
        if self._elsewhere is None and self.database.exists():
            store = self.store()
            there = store.fed()
            self._forget(store, [each for each in there if each not in ids], there)

    def _forget(self, store: MirrorStore, gone: Sequence[str], there: Mapping[str, Fed]) -> None:
        if not gone:
            return
        store.forget(gone)
        if any(each.why == LEFT_OUT for each in there.values()):
            store.reconsider()  # there is room again
        store.purge()

    def problems(self) -> Sequence[Problem]:
        """What a search of the index does not find, in words."""
        found = []
        store = self.store()
        left_out = 0
        for name, fed in store.fed(partly=True).items():
            if fed.why == LEFT_OUT:
                left_out += 1
            else:
                found.append(Problem(path=name, reason=fed.why))
        if left_out:
            reason = (
                f"{format_count(left_out, 'older session')} not searched: "
                f"the index is full ({format_bytes(MOST_BYTES)})"
            )
            found.append(Problem(path=str(self.database), reason=reason))
        if self._elsewhere is not None and self._lasting:
            reason = "nothing can be written here, so each search reads every session again"
            found.append(Problem(path=str(self._folder), reason=reason))
        return found

    def store(self) -> MirrorStore:
        """The index, made again when it is damaged or from another version. Where nothing can be
        written, it lies in a temporary folder as long as this home is open."""
        if self._store is None:
            try:
                self._store = self._opened()
            except (DamageError, SchemaError):
                self.clear()
                self._store = self._opened()
        return self._store

    def _opened(self) -> MirrorStore:
        agent = self._format.facts.agent
        if self._lasting:
            try:
                make_private_dir(self._folder)
                return MirrorStore(self.database, agent)
            except (DamageError, SchemaError, BusyError):
                raise
            except (OSError, StorageError):
                pass  # a home that can only be read
        self._elsewhere = Path(tempfile.mkdtemp(prefix="holdfast-"))
        return MirrorStore(self.database, agent)

    @property
    def lasts(self) -> bool:
        """Whether what is in the index now is there for the next process, too."""
        if self._lasting:
            self.store()
        return self._lasting and self._elsewhere is None

    @property
    def database(self) -> Path:
        return (self._elsewhere or self._folder) / "sessions.db"

    def clear(self) -> None:
        """Remove everything. The next look and the next search make it again."""
        self.close()
        if self._folder.exists():
            shutil.rmtree(self._folder)

    def close(self) -> None:
        store, self._store = self._store, None
        elsewhere, self._elsewhere = self._elsewhere, None
        self.notes.save()
        self.notes.forget()
        if store is not None:
            store.close()
        if elsewhere is not None:
            shutil.rmtree(elsewhere, ignore_errors=True)


def _needs_feeding(seen: Seen, fed: Fed | None) -> bool:
    """A name that is not valid text, which only a file can have, is left out: no database can hold
    it."""
    new = fed is None or fed.version != seen.version
    return new and not any("\ud800" <= each <= "\udfff" for each in seen.unit.id)


def _batches(seen: Iterable[Seen]) -> Iterator[list[Seen]]:
    """By number and by size; a large session is a batch by itself."""
    batch: list[Seen] = []
    size = 0
    for each in seen:
        if batch and (len(batch) == _BATCH or size + each.bytes > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += each.bytes
    if batch:
        yield batch


def _parents_first(seen: Sequence[Seen]) -> Iterable[Seen]:
    """The latest first, but a child after its parent. Sessions that are each other's parents come
    in any order."""
    by_id = {each.unit.id: each for each in seen}
    done: dict[str, Seen] = {}
    for each in sorted(seen, key=lambda one: one.unit.active, reverse=True):
        chain: dict[str, Seen] = {}
        current: Seen | None = each
        while current is not None and current.unit.id not in done and current.unit.id not in chain:
            chain[current.unit.id] = current
            current = by_id.get(current.unit.parent)
        for link in reversed(chain.values()):
            done[link.unit.id] = link
    return done.values()

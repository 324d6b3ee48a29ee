"""Our cache of another agent's sessions: deleting it loses nothing.

    <state>/index/units.json    the units and versions of the last look
    <state>/index/sessions.db   messages for search; created on first use

The index has a size limit. It holds the most recently used sessions, and reports which ones are
missing.
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

#: The limit on the index. Beyond it, the least recently used sessions are dropped.
MOST_BYTES = 2 * 1024**3
#: The size of one transaction of the index. A larger session is stored piece by piece.
_BATCH = 50
_BATCH_BYTES = 32 * 1024**2

SessionOf = Callable[[Seen], Session]


class Mirror:
    """Keeps the cache of one home up to date. A cache that is not `lasting` is deleted when the
    home is closed: nothing is ever written into a user's project."""

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
        """Bring the index up to date with a look. If the user stops it, the rest is done next
        time."""
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
        """Index one session, regardless of the limit."""
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
        """Latest first, so that the oldest are left out if the limit is reached. Each batch is
        committed: after a kill, the next run continues there."""
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
                done = store.fed([each.unit.id for each in batch])  # by another process
                for each in batch:
                    if _needs_feeding(each, done.get(each.unit.id)):
                        self._feed_one(store, each, session_of(each), known)
                    known[each.unit.id] = True

    def _feed_one(
        self, store: MirrorStore, each: Seen, session: Session, known: Mapping[str, object]
    ) -> None:
        if session.parent_id not in known:  # the index may have a child without its parent
            session = replace(session, parent_id=None, relation=None)
        try:
            said = each.messages(self._format, self._root)
            store.feed(session, said, version=each.version, most_bytes=MOST_BYTES)
        except (BusyError, DamageError):
            raise
        except UNREADABLE as error:
            # A session that cannot be read is left out until it changes; the others are not
            # affected.
            why = error.message if isinstance(error, HoldfastError) else str(error)
            if isinstance(error, OSError):
                why = error.strerror or why
            store.leave_out(
                [(each.unit.id, each.version, each.unit.active)], f"cannot be read: {why}"
            )

    def forget_all_but(self, ids: Collection[str]) -> None:
        """Remove sessions that have left the home from the index, including their words."""
        if self._elsewhere is None and self.database.exists():
            store = self.store()
            there = store.fed()
            self._forget(store, [each for each in there if each not in ids], there)

    def _forget(self, store: MirrorStore, gone: Sequence[str], there: Mapping[str, Fed]) -> None:
        if not gone:
            return
        store.forget(gone)
        if any(each.why == LEFT_OUT for each in there.values()):
            store.reconsider()  # there is space again
        store.purge()

    def problems(self) -> Sequence[Problem]:
        """Why a search of the index may be incomplete."""
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
        """The index, recreated if it is damaged or has another version. If nothing can be written
        here, it is in a temporary folder as long as this home is open."""
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
                pass  # a read-only home
        self._elsewhere = Path(tempfile.mkdtemp(prefix="holdfast-"))
        return MirrorStore(self.database, agent)

    @property
    def lasts(self) -> bool:
        """True if the next process will find the current index, too."""
        if self._lasting:
            self.store()
        return self._lasting and self._elsewhere is None

    @property
    def database(self) -> Path:
        return (self._elsewhere or self._folder) / "sessions.db"

    def clear(self) -> None:
        """Remove everything. The next look and the next search recreate it."""
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
    """An id that is not valid Unicode, which only a file name can produce, is left out: no database
    can store it."""
    new = fed is None or fed.version != seen.version
    return new and not any("\ud800" <= each <= "\udfff" for each in seen.unit.id)


def _batches(seen: Iterable[Seen]) -> Iterator[list[Seen]]:
    """Batches by number and size; a large session is a batch of its own."""
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
    """Latest first, but a child after its parent. Sessions in a cycle of parents come in any
    order."""
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

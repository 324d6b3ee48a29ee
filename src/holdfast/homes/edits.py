"""Changes in place: renaming and pinning a session or a checkpoint, and adding our entries to the
settings files of other programs.

There is no undo copy: the log records the change, which is all an undo needs. A value that matches
neither its state before nor its state after was changed by another program, and is left alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from _thread import get_ident
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from holdfast.errors import (
    BusyError,
    HoldfastError,
    StorageError,
    UnknownCheckpointError,
    UnknownSessionError,
)
from holdfast.model.item import CHECKPOINT, SESSION
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.model.rewrite import Rewrite, hard_linked, identity
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.ports.runs import Doer
from holdfast.ports.sessions import SessionStore
from holdfast.spine.keeper import in_a_word, one_by_one
from holdfast.spine.outcomes import ALREADY_GONE, CHANGED, NOT_REACHED
from holdfast.spine.undo_edit import checkpoint_value, session_value
from holdfast.stores import processes
from holdfast.stores.files import PRIVATE_FILE, entries_of, read_file, sync_dir, write_all

_StoreT = TypeVar("_StoreT")
#: Marks our temporary files next to another program's file, which may have its own.
_MARK = ".holdfast-"
_TEMPORARY = re.compile(rf"{re.escape(_MARK)}(\d{{1,10}})-\d+\.tmp", re.ASCII)
_SINCE = "it was changed again since, and keeps its new value"
_REWRITTEN_SINCE = (
    "the file was changed since; remove Holdfast's entries with `holdfast disconnect`"
)


class Edit(Generic[_StoreT]):
    """Changes one value: `read` returns it, `write` replaces it."""

    def __init__(
        self,
        store: Callable[[], _StoreT | None],
        read: Callable[[_StoreT, str], Any],
        write: Callable[[_StoreT, str, Any], object],
        together: Callable[[_StoreT], AbstractContextManager[object]] = lambda _: nullcontext(),
    ) -> None:
        self._store = store
        self._read = read
        self._write = write
        self._together = together

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """An edit needs no preparation."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._do)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """The current value shows how far a killed run got."""
        return self._each(
            batch,
            lambda store, each: (
                each.end(Result.CHANGED)
                if self._read(store, each.item.id) == json.loads(each.item.target)
                else each.end(Result.SKIPPED, NOT_REACHED)
            ),
        )

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._undo)

    def _do(self, store: _StoreT, removal: Removal) -> Outcome:
        item = removal.item
        if self._read(store, item.id) != json.loads(item.version):
            return removal.end(Result.SKIPPED, "changed since the plan was made")
        self._write(store, item.id, json.loads(item.target))
        return removal.end(Result.CHANGED)

    def _undo(self, store: _StoreT, removal: Removal) -> Outcome:
        item = removal.item
        old, now = json.loads(item.version), self._read(store, item.id)
        if now == old:
            return removal.end(Result.BROUGHT_BACK, "it already had its old value")
        if now != json.loads(item.target):
            return removal.end(Result.FAILED, _SINCE)
        self._write(store, item.id, old)
        return removal.end(Result.BROUGHT_BACK)

    def _each(
        self, batch: Sequence[Removal], step: Callable[[_StoreT, Removal], Outcome]
    ) -> Sequence[Outcome]:
        store = self._store()
        if store is None:
            return [each.end(Result.SKIPPED, ALREADY_GONE) for each in batch]
        return [self._one(store, each, step) for each in batch]

    def _one(
        self, store: _StoreT, removal: Removal, step: Callable[[_StoreT, Removal], Outcome]
    ) -> Outcome:
        try:
            with self._together(store):
                return step(store, removal)
        except BusyError:
            raise  # the next run settles it
        except (UnknownSessionError, UnknownCheckpointError):
            return removal.end(Result.FAILED, "it has been removed since; undo that first")
        except HoldfastError as error:
            return removal.end(Result.FAILED, in_a_word(error))


def edits(
    sessions: Callable[[], SessionStore | None], checkpoints: Callable[[], CheckpointStore | None]
) -> Mapping[tuple[str, Action], Doer]:
    """The doers that rename and pin in a home."""
    return {
        (SESSION, Action.RENAME): Edit(
            sessions,
            lambda store, name: session_value(store, name, Action.RENAME),
            lambda store, name, title: store.rename(name, title),
            lambda store: store.transaction(),
        ),
        (SESSION, Action.PIN): Edit(
            sessions,
            lambda store, name: session_value(store, name, Action.PIN),
            lambda store, name, pinned: store.pin(name, pinned),
            lambda store: store.transaction(),
        ),
        (CHECKPOINT, Action.RENAME): Edit(
            checkpoints,
            lambda store, name: checkpoint_value(store, name, Action.RENAME),
            lambda store, name, new: store.rename(store.get(name), new),
        ),
        (CHECKPOINT, Action.PIN): Edit(
            checkpoints,
            lambda store, name: checkpoint_value(store, name, Action.PIN),
            lambda store, name, pinned: store.pin(store.get(name), pinned),
        ),
    }


# --- Files of other programs ----------------------------------------------------------------------


class Rewriter:
    """The doer for items of kind `setting`."""

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """A rewrite needs no preparation."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _each(batch, _rewrite)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _each(batch, _settle_rewrite)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return _each(batch, _write_back)


def _each(batch: Sequence[Removal], step: Callable[[Removal], Outcome]) -> Sequence[Outcome]:
    """Process items one at a time, so that a failure does not affect the others."""
    outcomes: list[Outcome] = []
    for removal in batch:
        refuse = partial(removal.end, Result.FAILED)
        outcomes += one_by_one([removal], step, refuse)
    return outcomes


def _rewrite(removal: Removal) -> Outcome:
    change = _change(removal)
    content = _content(change.path)
    if identity(content) != change.before:
        return removal.end(Result.SKIPPED, CHANGED)
    _put(change, change.applied(content or b"") if change.after else None)
    return removal.end(Result.CHANGED)


def _settle_rewrite(removal: Removal) -> Outcome:
    """The content shows how far a killed run got, because it is replaced atomically."""
    change = _change(removal)
    _sweep(Path(os.path.realpath(change.path)))
    if identity(_content(change.path)) == change.after:
        return removal.end(Result.CHANGED)
    return removal.end(Result.SKIPPED, NOT_REACHED)


def _write_back(removal: Removal) -> Outcome:
    change = _change(removal)
    _sweep(Path(os.path.realpath(change.path)))
    content = _content(change.path)
    if identity(content) == change.before:
        return removal.end(Result.BROUGHT_BACK)  # a killed undo got this far
    if identity(content) != change.after:
        return removal.end(Result.FAILED, _REWRITTEN_SINCE)
    _put(change, change.reverted(content or b"") if change.before else None)
    return removal.end(Result.BROUGHT_BACK)


def _change(removal: Removal) -> Rewrite:
    return Rewrite.of(removal.item.id, removal.item.version, removal.item.target)


def _content(path: str) -> bytes | None:
    """None also for a link to nothing: writing creates its target."""
    try:
        return read_file(os.path.realpath(path))
    except FileNotFoundError:
        return None


def _put(change: Rewrite, content: bytes | None) -> None:
    """Replace a file atomically and keep its mode. None removes the file, and the folders that were
    created for it. A link stays a link, as in a dotfiles folder: its target is replaced."""
    real = Path(os.path.realpath(change.path))
    _sweep(real)
    with suppress(FileNotFoundError):
        if real.stat().st_nlink > 1:
            raise StorageError(hard_linked(real))
    if content is None:
        real.unlink(missing_ok=True)
        sync_dir(real.parent)
        for each in reversed(change.folders):
            with suppress(OSError):  # another program has put a file there
                Path(each).rmdir()
        return
    for each in change.folders:
        with suppress(FileExistsError):
            Path(each).mkdir()
    mode = real.stat().st_mode & 0o777 if real.exists() else PRIVATE_FILE
    temporary = real.with_name(f".{real.name}{_MARK}{os.getpid()}-{get_ident()}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # `_sweep` then sees that it is in use
        write_all(fd, content)
        with suppress(OSError):
            os.fchmod(fd, mode)
        os.fsync(fd)
        temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    sync_dir(real.parent)


def _sweep(real: Path) -> None:
    """Remove temporary files that killed runs left next to another program's file: each is a copy
    of its content. A file that is still being written is locked. If the process named in it is
    alive, the file stays even when unlocked: that process may be about to lock it."""
    with suppress(OSError):
        for entry in entries_of(real.parent):
            if not entry.name.startswith(f".{real.name}{_MARK}"):
                continue
            found = _TEMPORARY.fullmatch(entry.name.removeprefix(f".{real.name}"))
            if found and not _is_another(int(found[1])):
                with suppress(OSError):
                    _remove_unlocked(Path(entry.path))


def _is_another(process: int) -> bool:
    """True if this id belongs to another, running process."""
    return process != os.getpid() and processes.exists(process)


def _remove_unlocked(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(fd)

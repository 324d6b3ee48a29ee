"""Renaming and pinning: one value of a session or a checkpoint changes in its place.

There is no undo copy: the log has the value before and after, and that is all an undo needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from holdfast.errors import BusyError, HoldfastError, UnknownCheckpointError, UnknownSessionError
from holdfast.model.item import CHECKPOINT, SESSION
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.ports.runs import Doer
from holdfast.ports.sessions import SessionStore
from holdfast.spine.edited import checkpoint_value, session_value
from holdfast.spine.keeper import in_a_word
from holdfast.spine.outcomes import ALREADY_GONE, NOT_REACHED

_StoreT = TypeVar("_StoreT")
_SINCE = "it was changed again since; that stays"


class Edit(Generic[_StoreT]):
    """Changes one value: `read` gives it, `write` replaces it."""

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
        """An edit needs nothing."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._each(batch, self._do)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """The value says how far a killed run came."""
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
            return removal.end(Result.BROUGHT_BACK, "it was already as before")
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
    """Who renames and pins in a home."""
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

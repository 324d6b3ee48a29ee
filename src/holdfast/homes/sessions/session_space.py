"""Reclaims the space that removed sessions left in their store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from holdfast.errors import BusyError, HoldfastError
from holdfast.model.operation import Removal
from holdfast.model.report import Outcome, Result
from holdfast.ports.sessions import SessionEngines
from holdfast.spine.outcomes import ALREADY_GONE


class SessionSpace:
    """Free pages and the write-ahead log of the session store. The freed bytes are what the file
    system reports: the size of the store before the run, less the store and its undo copies after
    it. `copies` returns the folder of an operation's undo copies."""

    def __init__(self, engine: SessionEngines, copies: Callable[[str], Path]) -> None:
        self._engine = engine
        self._copies = copies
        self._before: int | None = None

    def measure(self) -> None:
        store = self._engine()
        self._before = None if store is None else store.footprint()

    def give_back(self, removal: Removal) -> Outcome:
        store = self._engine()
        if store is None:
            return removal.end(Result.SKIPPED, ALREADY_GONE)
        before = store.footprint() if self._before is None else self._before
        self._before = None
        try:
            store.give_back()
        except BusyError as error:
            return removal.end(Result.SKIPPED, error.message)  # the next run frees it
        except HoldfastError as error:
            store.truncate_log()  # the operation log needs room too
            return removal.end(Result.FAILED, error.message)
        copied = store.copies(self._copies(removal.operation)).bytes()
        freed = before - store.footprint() - copied
        # If the copies take more than the rows freed, the home is larger until they are discarded.
        more = min(copied, max(0, -freed))
        return removal.end(Result.RECLAIMED, freed=max(0, freed), of_rows=more)

"""Ends sessions of a store as an operation in its log, which can be undone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from holdfast.errors import BusyError, HoldfastError
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.model.session import EndReason
from holdfast.model.stored_session import End, Found
from holdfast.policy.lifecycle import HELD
from holdfast.ports.runs import Clock
from holdfast.ports.sessions import SessionEngine, SessionEngines
from holdfast.spine.outcomes import ALREADY_GONE, NO_SESSION_STORE, NOT_REACHED

_Step = Callable[[SessionEngine, Sequence[Removal]], Sequence[Outcome]]


class EndSessions:
    """Ends sessions at the current time: abandoned ones or, with the end reason as `target`, those
    that a user names. There is no undo copy: only the end changes, and the log records the state
    before."""

    def __init__(self, engine: SessionEngines, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Ending needs no preparation."""

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._in_one_transaction(batch, self._end)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._in_one_transaction(batch, self._settle)

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._in_one_transaction(batch, self._reopen)

    def _end(self, store: SessionEngine, batch: Sequence[Removal]) -> Sequence[Outcome]:
        # Checked again inside the transaction: a session may be in use again, or may have ended.
        names = _ids(batch)
        found, ends = store.look(names), store.ends(names)
        outcomes = [_judged(each, found, ends) for each in batch]
        going: dict[str, list[End]] = defaultdict(list)
        for each, outcome in zip(batch, outcomes, strict=True):
            if outcome.result is Result.ENDED:
                going[_reason(each)].append(ends[each.item.id])
        for reason, chosen in going.items():
            store.set_end(chosen, self._clock(), reason)
        return outcomes

    def _settle(self, store: SessionEngine, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """The rows show how far a killed run got: a session with our end was ended by it."""
        ends = store.ends(_ids(batch))
        return [
            each.end(Result.ENDED)
            if _is_ours(each, ends.get(each.item.id))
            else each.end(Result.SKIPPED, NOT_REACHED)
            for each in batch
        ]

    def _reopen(self, store: SessionEngine, batch: Sequence[Removal]) -> Sequence[Outcome]:
        ends = store.ends(_ids(batch))
        ours = [each for each in batch if _is_ours(each, ends.get(each.item.id))]
        store.set_end([ends[each.item.id] for each in ours], None, None)
        return [_reopened(each, ends.get(each.item.id)) for each in batch]

    def _in_one_transaction(self, batch: Sequence[Removal], step: _Step) -> Sequence[Outcome]:
        store = self._engine()
        if store is None:
            return [each.end(Result.FAILED, NO_SESSION_STORE) for each in batch]
        try:
            with store.transaction():
                return step(store, batch)
        except BusyError:
            raise  # every further batch would wait as long
        except HoldfastError as error:
            return [each.end(Result.FAILED, error.message) for each in batch]


def _judged(removal: Removal, found: Mapping[str, Found], ends: Mapping[str, End]) -> Outcome:
    name = removal.item.id
    if name not in found or name not in ends:
        return removal.end(Result.SKIPPED, ALREADY_GONE)
    obstacle = found[name].obstacle_to_ending(removal.item, held=HELD)
    if obstacle is None and ends[name].reason is not None:
        obstacle = "it has an end reason, but has not ended"  # an undo could not restore that
    return removal.end(Result.SKIPPED if obstacle else Result.ENDED, obstacle or "")


def _is_ours(removal: Removal, end: End | None) -> bool:
    """True if the session's end is from this operation. If it was reopened and continued, its last
    activity is later."""
    return (
        end is not None
        and end.ended_at is not None
        and end.reason == _reason(removal)
        and end.last_active_at == removal.item.last_active_at
    )


def _reopened(removal: Removal, end: End | None) -> Outcome:
    if end is None:
        gone = "it has been removed from the store since; undo that first"
        return removal.end(Result.FAILED, gone)
    if end.ended_at is None:
        changed = end.last_active_at != removal.item.last_active_at
        return removal.end(Result.BROUGHT_BACK, "it is already open again" if changed else "")
    if _is_ours(removal, end):
        return removal.end(Result.BROUGHT_BACK)
    return removal.end(Result.FAILED, "it was reopened and ended again since; the new end is kept")


def _reason(removal: Removal) -> str:
    return removal.item.target or EndReason.ABANDONED.value


def _ids(batch: Sequence[Removal]) -> list[str]:
    return [each.item.id for each in batch]

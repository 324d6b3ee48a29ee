"""What neither Hermes's checkpoint store nor ours needs: giving its space back."""

from __future__ import annotations

from holdfast.errors import BusyError, HoldfastError
from holdfast.homes.hermes.repository.layout import HermesLayout
from holdfast.homes.hermes.repository.reclaim import reclaim
from holdfast.model.operation import Removal
from holdfast.model.report import Outcome, Result
from holdfast.ports import Clock, Space
from holdfast.spine.keeper import in_a_word


class HermesCheckpointSpace:
    """Gives back space of both stores; `own` is that of ours."""

    def __init__(self, layout: HermesLayout, own: Space, clock: Clock) -> None:
        self._layout = layout
        self._own = own
        self._clock = clock

    def measure(self) -> None:
        """Reclaiming measures by itself."""

    def give_back(self, removal: Removal) -> Outcome:
        own = self._own.give_back(removal)
        if not self._layout.exists():
            return own
        try:
            done = reclaim(self._layout, now=self._clock(), holder="checkpoints prune")
        except BusyError as error:
            return removal.end(Result.SKIPPED, error.message, freed=own.bytes_freed)
        except HoldfastError as error:
            return removal.end(Result.FAILED, in_a_word(error), freed=own.bytes_freed)
        ours = own.reason if own.result is not Result.SKIPPED else ""
        note = "; ".join(each for each in (done.note, ours) if each)
        if own.result is Result.FAILED:
            return removal.end(Result.FAILED, note, freed=done.freed + own.bytes_freed)
        return removal.end(Result.RECLAIMED, note, freed=done.freed + own.bytes_freed)

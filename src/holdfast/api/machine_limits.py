"""What holds for a machine as a whole: its limits, its disks, and the budget of all homes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.agent_home import HomeRef, own_folder
from holdfast.api.disks import Disk, disks_of
from holdfast.api.machine_homes import MachineHomes
from holdfast.api.place import Place, usual_places_of
from holdfast.errors import HoldfastError
from holdfast.homes.kind import OWN
from holdfast.homes.registry import kind_of
from holdfast.model.argument_checks import checked

if TYPE_CHECKING:  # a list of sessions loads as little as it can
    from holdfast.api.budget import MachineBudget
    from holdfast.config.guardian import GuardianSettings
    from holdfast.model.alarm import Alarm
    from holdfast.ports.runs import Progress


@checked
class MachineLimits(MachineHomes):
    """The methods that keep all homes together within their limits."""

    def own_place(self) -> Place | None:
        """Holdfast's own home, whose configuration applies to the machine; None if there is none.
        If this is restricted to one home and that is Holdfast's own, it is that home."""
        only = self._only
        picked = only is not None and (kind := kind_of(only)) is not None and kind.name == OWN.name
        usual = usual_places_of(self._user_home, self._environ)[OWN.name]
        root = only if only is not None and picked else usual
        if not root.is_dir():
            return None
        return Place(root, clock=self._clock, command=self._command, environ=self._overrides)

    @property
    def guardian(self) -> GuardianSettings:
        """The limits of the machine; none if the configuration is wrong, which is reported when
        that home is opened."""
        from holdfast.config.guardian import GuardianSettings  # noqa: PLC0415 - no list needs it

        return self._guardian or GuardianSettings(alarm_mb_per_minute=0, reserve_mb=0)

    def look_for_homes(self) -> None:
        super().look_for_homes()
        self.__dict__.pop("_guardian", None)

    @cached_property
    def _guardian(self) -> GuardianSettings | None:
        """Read once, so that an error in it is logged only once; None in that case."""
        from holdfast.config.reader import load  # noqa: PLC0415 - as in `Place.settings`

        try:
            own = self.own_place()
            path = None if own is None else own.config_file
            return load(path, self._overrides or {}).guardian
        except HoldfastError as error:
            import logging  # noqa: PLC0415 - a list of sessions loads as little as it can

            message = f"the limits of this machine are unknown: {error.message}"
            logging.getLogger("holdfast").log(logging.ERROR, message)
            return None

    def set_aside(self) -> Sequence[Path]:
        """Reserve `reserve_mb` on the disk of each home, for when the disk is full. Returns the
        folders in which this call made a reserve."""
        from holdfast.stores.disk_reserve import set_aside  # noqa: PLC0415 - no list needs it

        if self._guardian is None:
            return ()  # the configuration is unknown: keep what is set aside
        found = [state for home in self.homes if (state := own_folder(home)) is not None]
        return set_aside(found, self.guardian.reserve_bytes)

    def plan_budget(self, *, progress: Progress | None = None) -> MachineBudget:
        """What would be removed so that all homes together fit the budget, `max_total_size_mb` in
        [guardian]. Nothing if no budget is set."""
        from holdfast.api.budget import BudgetKeeper  # noqa: PLC0415 - no list needs it

        return BudgetKeeper(self, progress).plan()

    def keep_budget(self, *, progress: Progress | None = None) -> MachineBudget:
        """Make room so that all homes together fit the budget. Removals are in the log of their
        home, and `undo` brings back what went to the trash."""
        from holdfast.api.budget import BudgetKeeper  # noqa: PLC0415 - no list needs it

        return BudgetKeeper(self, progress).keep()

    def disks(self, homes: HomeRef | Iterable[HomeRef] | None = None) -> Sequence[Disk]:
        """The disks of all homes, or of these, with their free space, the least free space
        first."""
        return disks_of(self._chosen(homes))

    def alarms(self) -> Sequence[Alarm]:
        """What grew too fast in any home while `maintain --watch` ran: first what still grows, then
        the latest. Reads one small file in each home."""
        looked = self._ask(lambda home: home.alarms())
        found = [alarm for _, alarms in looked.seen for alarm in alarms]
        return sorted(found, key=lambda each: (not each.active, -each.last_at))

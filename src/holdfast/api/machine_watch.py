"""The watcher: maintenance of every home when it is due, and an alarm when something grows.

It checks the free space of the disks every two seconds, and sleeps in between. Anything heavier is
done in rounds over the homes, in a child process: a home that fails does not affect the others.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.api.growth_watch import TICK, GrowthWatch
from holdfast.api.in_child import AtOnce, Working
from holdfast.config import Stamp, stamp_of
from holdfast.errors import BusyError, HoldfastError, StorageError
from holdfast.homes.growth_look import MachineEyes, Tops
from holdfast.homes.registry import state_folder
from holdfast.model.alarm import Alarm
from holdfast.model.figures import Tally
from holdfast.model.maintenance import LookedAfter, Round
from holdfast.model.text import format_bytes
from holdfast.policy.maintenance_due import RETRY, next_run
from holdfast.ports.runs import Progress
from holdfast.stores.alarm_file import AlarmFile
from holdfast.stores.counters import FileTallies
from holdfast.stores.disk_reserve import NAME as RESERVE
from holdfast.stores.maintenance_marker import FileMaintenanceGate
from holdfast.value import dataclass, field, replace

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine
    from holdfast.model.maintenance import MaintenanceResult
    from holdfast.ports.runs import Clock

HOLDER = "maintain --watch"
#: How often to look for new homes.
_HOMES_EVERY = 120.0
#: How often to check whether a configuration was changed.
_CONFIGS_EVERY = 10.0
#: How often to go through all homes although nothing is due; and the minimum ratio of that interval
#: to the processor time of a round.
_ROUND_EVERY, _TIMES = 3_600.0, 4_000
#: How often to record what still grows.
_NOTE_EVERY = 60.0
_CONFIG = "config.toml"
_ONE_WATCHES = "One watcher is enough. To replace the one that is running, stop it first."
_log = logging.getLogger("holdfast")


class Stop(Progress, Protocol):
    """Ends a watch: a progress whose stop request also interrupts `sleep`."""

    def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """The callbacks of a watch. `started` is called for each home that is watched from now on,
    `looked_after` after each run of maintenance, `grows` for alarms, `more` with other lines for
    the log. `in_words` describes what a run did, and is called in the child."""

    in_words: Callable[[MaintenanceResult], str]
    started: Callable[[Path], None] = lambda _: None
    looked_after: Callable[[LookedAfter], None] = lambda _: None
    grows: Callable[[Alarm], None] = lambda _: None
    more: Callable[[str], None] = lambda _: None


def watch(
    machine: Machine,
    stop: Stop,
    listener: Listener,
    *,
    clock: Clock,
    force: bool = False,
    work: Callable[[Callable[[], bytes]], Working] = AtOnce,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Maintain the homes of a machine until `stop` is requested: each home whenever it is due, and
    after its configuration changes. New homes are found.

    Only one process at a time may watch a home. Raises `BusyError` if another process watches all
    of them. `force` runs maintenance the first time even if it is not due. `work` starts a round:
    `Child` runs it in a child process.
    """
    with contextlib.ExitStack() as locks:
        watching = _Watching(machine, stop, listener, clock, monotonic, work, locks)
        watching.find(must=True)
        watching.run(force=force)


@dataclass(slots=True)
class _Watching:
    """The state of a watch."""

    machine: Machine
    stop: Stop
    listener: Listener
    clock: Clock
    monotonic: Callable[[], float]
    work: Callable[[Callable[[], bytes]], Working]
    locks: contextlib.ExitStack
    states: dict[Path, Path] = field(default_factory=dict)
    gone: set[Path] = field(default_factory=set)
    configs: dict[Path, Stamp | None] = field(default_factory=dict)
    troubles: dict[Path, str] = field(default_factory=dict)
    round_after: float = 0.0
    found_at: float = 0.0
    looked_at: float = 0.0
    noted_at: float = 0.0
    round: Working | None = None
    telling: list[Working] = field(default_factory=list)
    #: The alarms that were counted, by path and start time.
    counted: set[tuple[str, float]] = field(default_factory=set)
    eyes: MachineEyes = field(init=False)
    growth: GrowthWatch = field(init=False)
    due: float = field(init=False)

    def __post_init__(self) -> None:
        self.eyes = MachineEyes(clock=self.clock, monotonic=self.monotonic)
        self.growth = GrowthWatch(self.eyes, 0.0)
        self.due = self.clock()

    def run(self, *, force: bool) -> None:
        try:
            while not self.stop.stop_requested():
                self._collect()
                self._tell_gone()
                if self.monotonic() - self.found_at >= _HOMES_EVERY:
                    self.find()
                if self.round is None and (self._is_due() or force):
                    self._start(force=force)
                    force = False
                    continue  # collect the result of `AtOnce` before sleeping
                self._look()
                left = self.due - self.clock() if self.round is None else TICK
                self.stop.sleep(max(0.0, min(left, TICK)))
        finally:
            self._finish()

    def find(self, *, must: bool = False) -> None:
        """Take the homes that no other process watches. A new home is due at once."""
        self.found_at = self.monotonic()
        self.machine.look_for_homes()
        busy: BusyError | None = None
        taken: list[tuple[Path, str]] = []
        homes = self.machine.homes
        for home in homes:
            if home.path in self.states:
                self.configs.setdefault(home.path, None)  # it may have come back
                continue
            try:
                self._take(home)
            except BusyError as error:
                busy = BusyError(error.message, hint=_ONE_WATCHES)
                taken.append((home.path, error.message))
            except (HoldfastError, OSError) as error:
                self._say_once(home.path, getattr(error, "message", str(error)))
        for unread in self.machine.unread:
            self._say_once(unread.path, unread.error.message)
        if must and busy is not None and not self.states:
            raise busy  # one error for all homes
        for path, trouble in taken:
            self._say_once(path, trouble)
        for gone in self.states.keys() - {home.path for home in homes}:
            # We keep its lock until the end: the folder may come back.
            self.configs.pop(gone, None)

    def _take(self, home: AgentHome) -> None:
        state = state_folder(home.path)
        if state != home.path and state.is_symlink():
            raise StorageError(f"{state} is a link")
        self.locks.enter_context(FileMaintenanceGate(state).watching(HOLDER))
        AlarmFile(state).end_all(self.clock())  # left by a killed watcher
        self.states[home.path] = state
        self.configs[home.path] = stamp_of(state / _CONFIG)
        self.due = min(self.due, self.clock())
        self.listener.started(home.path)

    def _tell_gone(self) -> None:
        gone = {home for home in self.states if not os.path.isdir(home)}  # noqa: PTH112 - every two seconds
        for home in sorted(gone - self.gone):
            self.listener.more(f"{home} is gone; it is watched again if it comes back")
        for home in sorted(self.gone - gone):
            self.listener.more(f"{home} is back")
        self.gone = gone

    def _say_once(self, home: Path, trouble: str) -> None:
        if self.troubles.get(home) != trouble:
            self.troubles[home] = trouble
            _log.warning("not watching %s: %s", home, trouble)

    # --- Rounds -----------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        changed = False
        if self.monotonic() - self.looked_at >= _CONFIGS_EVERY:
            self.looked_at = self.monotonic()
            now = {home: stamp_of(self.states[home] / _CONFIG) for home in self.configs}
            changed = now != self.configs
            self.configs = now
        return bool(self.states) and (
            changed or self.clock() >= self.due or self.monotonic() >= self.round_after > 0
        )

    def _start(self, *, force: bool) -> None:
        mine = tuple(self.states)
        in_words = self.listener.in_words
        self.round = self.work(
            lambda: round_of(
                self.machine, mine, in_words, progress=self.stop, clock=self.clock, force=force
            ).to_bytes()
        )

    def _collect(self) -> None:
        """Read the results of the children that have ended."""
        self.telling = [each for each in self.telling if each.poll() is None]
        done = None if self.round is None else self.round.poll()
        if done is None:
            return
        self.round = None
        self.round_after = self.monotonic() + max(_ROUND_EVERY, _TIMES * done.cost)
        if done.result is None:
            self.due = self.clock() + RETRY
            return
        made = Round.of(done.result)
        self.due = min([each.due for each in made.homes], default=self.clock() + RETRY)
        self.growth.limit = made.alarm_rate
        self.eyes.watch(
            [
                Tops(home=each.home, folders=each.folders, programs=each.programs, state=each.state)
                for each in made.homes
            ]
        )
        for each in made.homes:
            self.listener.looked_after(each)
        for line in made.more:
            self.listener.more(line)

    # --- Growth -----------------------------------------------------------------------------------

    def _look(self) -> None:
        try:
            alarms = self.growth.look(self.clock())
        except Exception:  # noqa: BLE001 - a failed look at growth must not end maintenance
            _log.exception("the check for fast growth failed")
            return
        if self.growth.active and self.monotonic() - self.noted_at >= _NOTE_EVERY:
            self._note(list(self.growth.active.values()))
        if not alarms:
            return
        for alarm in alarms:
            self.listener.grows(alarm)
        self._note(alarms)
        self.telling.append(self.work(lambda: _tell(self.machine, alarms, self.stop)))

    def _note(self, alarms: Sequence[Alarm]) -> None:
        self.noted_at = self.monotonic()
        for home, state in self.states.items():
            mine = [each for each in alarms if each.home == str(home)]
            if mine and home.is_dir():  # a deleted home must not be recreated
                AlarmFile(state).note(mine, self.clock())
                for each in mine:
                    if each.active and (each.path, each.first_at) not in self.counted:
                        self.counted.add((each.path, each.first_at))
                        FileTallies(state).add(Tally.ALARMS)
        active = {(each.path, each.first_at) for each in self.growth.active.values()}
        self.counted &= active  # forget alarms that have ended

    def _finish(self) -> None:
        """End active alarms, because growth is no longer watched, and wait until a running round
        stops between two batches."""
        now = self.clock()
        self._note([replace(each, ended_at=now) for each in self.growth.active.values()])
        if self.round is not None:
            self.round.stop()
        while self.round is not None:
            self._collect()
            if self.round is not None:
                time.sleep(0.05)


def round_of(
    machine: Machine,
    watched: Sequence[Path],
    in_words: Callable[[MaintenanceResult], str],
    *,
    progress: Stop,
    clock: Clock,
    force: bool = False,
) -> Round:
    """Run maintenance of these homes, each if it is due."""
    machine.look_for_homes()
    done: list[LookedAfter] = []
    for home in machine.homes:
        if progress.stop_requested():
            break
        if home.path in watched:
            done.append(_looked_after(machine, home, in_words, progress, clock, force=force))
    more: tuple[str, ...] = ()
    if not progress.stop_requested():
        more = (*_budget(machine, progress), *_reserve(machine))
    made = Round(homes=tuple(done), alarm_rate=machine.guardian.alarm_rate, more=more)
    machine.close()
    return made


def _reserve(machine: Machine) -> tuple[str, ...]:
    made = [each / RESERVE for each in machine.set_aside()]
    return tuple(
        f"reserved {format_bytes(each.stat().st_size)} in case the disk fills up: {each}"
        for each in made
    )


def _budget(machine: Machine, progress: Stop) -> tuple[str, ...]:
    """Make room if the homes exceed their common budget; return lines for the log."""
    try:
        found = machine.keep_budget(progress=progress)
    except (HoldfastError, OSError) as error:
        return (f"could not make room for the budget of all homes: {error}",)
    return tuple(
        f"budget of all homes: {each.home}: "
        + (
            f"failed: {each.error}"
            if each.report is None
            else f"{each.report.removed:,} removed, {format_bytes(each.report.bytes_freed)} freed, "
            f"{format_bytes(each.report.bytes_in_trash)} in the trash"
        )
        for each in found.homes
    )


def _looked_after(
    machine: Machine,
    home: AgentHome,
    in_words: Callable[[MaintenanceResult], str],
    progress: Stop,
    clock: Clock,
    *,
    force: bool,
) -> LookedAfter:
    from holdfast.services.maintain import failed  # noqa: PLC0415 - a child needs it, not a watch

    started_at = clock()
    folders: tuple[str, ...] = (str(home.path),)
    programs: tuple[str, ...] = ()
    try:
        opened = machine.open(home)
        folders, programs = opened.written_to()
        result = opened.maintain(force=force, progress=progress)
        if not result.ran:  # maintenance does the following itself
            with contextlib.suppress(BusyError):  # the next round comes in an hour
                opened.refresh_vault(progress=progress)
            opened.record_figures(progress=progress)
    except Exception as error:  # noqa: BLE001 - a home that fails must not affect the others
        result = failed(str(home.path), started_at, clock, error)
    return LookedAfter(
        home=str(home.path),
        state=str(state_folder(home.path)),
        did=in_words(result),
        due=next_run(result, random.random()),  # noqa: S311 - only to spread runs
        ran=result.ran,
        failed=bool(result.errors),
        folders=folders,
        programs=programs,
    )


def _tell(machine: Machine, alarms: Sequence[Alarm], stop: Stop) -> bytes:
    """Run the notify command of the growing home, or else that of Holdfast's own home."""
    from holdfast.homes.maintenance import notifier  # noqa: PLC0415 - as above
    from holdfast.services.events import growth_event  # noqa: PLC0415 - as above

    by_path: Mapping[str, AgentHome] = {str(each.path): each for each in machine.homes}
    for alarm in alarms:
        known = by_path.get(alarm.home)
        try:
            listeners = [] if known is None else [machine.place(known)]
            listeners += [own] if (own := machine.own_place()) is not None else []
            found = (notifier(each.root, each.settings) for each in listeners)
            hook = next((each for each in found if each is not None), None)
        except (HoldfastError, OSError) as error:
            _log.warning("cannot run the notify command for %s: %s", alarm.path, error)
            continue
        if hook is not None:
            hook.tell(growth_event(alarm), stop.stop_requested)
    return b""

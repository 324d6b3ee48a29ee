"""Keeps a checkpoint store within its bounds while an agent works, with the same plan, log and
trash as every other removal.

A take that leaves the store above a bound starts a worker process and goes on. The lock
`bounding.lock` ensures that there is only one worker. The worker looks once more after releasing
the lock, so it misses nothing that was taken meanwhile. If it is killed, the next take starts
another.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

from holdfast.config.reader import load
from holdfast.config.settings import Settings
from holdfast.errors import BusyError, HoldfastError
from holdfast.homes.checkpoints.open_store import BOUNDING_LOCK, Bounds
from holdfast.homes.options import HomeOptions
from holdfast.homes.registry import config_file, open_home, state_folder
from holdfast.model.operation import BY_ITSELF
from holdfast.policy.rules import CheckpointPolicy
from holdfast.ports.runs import Clock
from holdfast.services.apply_until_within_caps import bound_checkpoints
from holdfast.stores import lock
from holdfast.stores.checkpoints.checkpoint_commit import all_refs, has_rotated
from holdfast.stores.checkpoints.join_packs import join_beside_takes
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.checkpoints.size_cap import (
    Weighed,
    is_over,
    most_for_takes,
    note_bounded,
    read_weighed,
    store_bytes,
)
from holdfast.value import dataclass, replace

#: How long a take that needs room waits for another process that is making room.
_PATIENCE = 30.0
#: The worker must not slow the agent down.
_NICE = 10
_log = logging.getLogger("holdfast")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often the worker runs; all times are in seconds. A store far above its cap is handled at
    once. A small excess waits for a while, so that an agent that works all day does not fill the
    log.

    `bytes_apart` is the time between two runs for the cap on bytes, `count_apart` between two runs
    for the bound on their number: checkpoints beyond that are hidden already. After a run comes a
    pause of `share` times its duration, at most `longest`. While the home is busy, the worker
    retries after `retry`, at most `attempts` times.
    """

    tick: float = 0.5
    bytes_apart: float = 20.0
    count_apart: float = 120.0
    share: float = 10.0
    longest: float = 300.0
    retry: float = 2.0
    attempts: int = 15


USUAL_PACE = Pace()


class Bounder(Bounds):
    """Keeps one store within its bounds."""

    __slots__ = ()

    @contextlib.contextmanager
    def room_made(self) -> Iterator[None]:
        """Bring the store back within its bounds now, and block workers until the end."""
        layout = self._layout()
        home_lock = state_folder(self.home) / "operations" / "lock"
        with contextlib.ExitStack() as held:
            try:
                # If this process held one of these locks, it would wait for itself.
                if not (lock.is_mine(layout.lock) or lock.is_mine(home_lock)):
                    held.enter_context(self._turn(wait=_PATIENCE))
                    if self.max_bytes is not None and is_over(layout, self.max_bytes):
                        self.run(time.time)  # noqa: TID251 - the log needs the wall clock
            except HoldfastError as error:
                _log.warning("Could not make room in %s: %s", self.folder, error.message)
            yield
        if self.is_due():  # takes in the meantime could not start a worker
            self.later()

    def work(self, clock: Clock, pace: Pace = USUAL_PACE) -> None:
        """The worker: bound the store until it is within its bounds."""
        failed = 0
        while self.is_due() and failed < pace.attempts:
            try:
                with self._turn(wait=0.0):
                    self._wait(clock, pace)
                    if self.is_due():
                        failed += not self._try(clock, pace)
            except BusyError:
                return  # another worker runs

    def run(self, clock: Clock) -> None:
        """Plan, apply, log. An attempt is recorded even if the bound was not reached, so that the
        next take does not try again at once. Not recorded if the home was busy."""
        layout = self._layout()
        settings = load(config_file(self.home), {})
        options = replace(HomeOptions.of(settings), checkpoint_bytes=self.max_bytes)
        home = open_home(self.home, clock=clock, options=options)
        policy, began = self._policy(settings), time.monotonic()
        tried = True
        try:
            bound_checkpoints(home, policy, command=BY_ITSELF, clock=clock, own=True)
        except BusyError:
            tried = False
            raise
        finally:
            if tried:
                took = time.monotonic() - began
                note_bounded(layout, limit=self.max_bytes or 0, at=clock(), took=took)

    def _try(self, clock: Clock, pace: Pace) -> bool:
        try:
            self.run(clock)
        except BusyError:
            time.sleep(pace.retry)
            return False
        return True

    def _wait(self, clock: Clock, pace: Pace) -> None:
        """Wait while the excess is small. If the clock was set back, do not wait."""
        weighed = read_weighed(self._layout()) or Weighed(beside=0)
        pause = min(pace.longest, pace.share * weighed.took)
        layout = self._layout()
        while layout.exists() and ((over := self._bytes_over()) > 0 or has_rotated(layout)):
            apart = max(pause, pace.count_apart if over <= 0 else pace.bytes_apart)
            since = clock() - weighed.bounded_at
            if not 0 <= since < apart or self._is_far_over(over):
                return
            if over <= 0:  # above the cap there is no room to copy packs
                join_beside_takes(layout, self.max_bytes)
            time.sleep(min(pace.tick, apart - since))

    def is_due(self) -> bool:
        layout = self._layout()
        if not layout.exists():
            return False
        if self.max_bytes is not None and is_over(layout, self.max_bytes):
            return True
        return any(ref.rotated for ref in all_refs(layout))

    def _bytes_over(self) -> int:
        return 0 if self.max_bytes is None else store_bytes(self._layout()) - self.max_bytes

    def _is_far_over(self, over: int) -> bool:
        """True if the store is halfway to the size at which takes have to wait."""
        limit = self.max_bytes
        return limit is not None and over > (most_for_takes(limit) - limit) // 2

    def _turn(self, *, wait: float) -> contextlib.AbstractContextManager[None]:
        place = self.folder
        # Not inherited: a git process that outlives a killed worker will not look again as a worker
        # would. What git writes is guarded by the locks of the home and of the store.
        return lock.exclusive(
            place / BOUNDING_LOCK,
            holder=BY_ITSELF,
            wait=wait,
            doing="making room in",
            place=place,
            inherited=False,
        )

    def _layout(self) -> Layout:
        return Layout(folder=self.folder)

    def _policy(self, settings: Settings) -> CheckpointPolicy:
        """Only the two bounds: age, orphans and keep rules are up to maintenance."""
        return CheckpointPolicy(
            max_count=self.max_snapshots or None,
            max_bytes=self.max_bytes,
            keep_orphans=True,
            trash_age=settings.checkpoint_policy().trash_age,
        )


def bounder_of(bounds: Bounds) -> Bounder:
    return Bounder(bounds.home, bounds.folder, bounds.max_snapshots, bounds.max_bytes)


def worker(asked: str) -> None:
    """The entry point of the worker process."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    home, folder, max_snapshots, max_bytes = json.loads(asked)
    bounder = Bounder(Path(home), Path(folder), max_snapshots, max_bytes)
    with contextlib.suppress(HoldfastError):  # unseen here; the next take tries again
        bounder.work(time.time)  # noqa: TID251 - the log needs the wall clock

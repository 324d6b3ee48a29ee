"""Watch a directory, and take a checkpoint shortly after each change has settled.

The cost of a checkpoint is proportional to the change. If a change may have been missed (and from
time to time anyway, because no system reports everything), the whole tree is scanned instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from holdfast.errors import HoldfastError
from holdfast.model.checkpoint import ChangedPaths, TakeOutcome, Taking, Watched
from holdfast.model.text import one_line
from holdfast.ports.checkpoints import CheckpointTaker
from holdfast.ports.runs import Clock
from holdfast.value import dataclass, field, replace

_NAMED = 3
#: How often to check whether it should stop.
_TICK = 0.5


class Follower(Protocol):
    """Reports which paths may have changed. `blind` is the reason if it cannot; otherwise ""."""

    @property
    def blind(self) -> str: ...

    def wait(self, seconds: float) -> ChangedPaths: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times are in seconds. Changes have settled once none came for `settle`, and after `longest`
    in any case. With more than `most_paths` changed paths, scanning the whole tree is cheaper.
    """

    settle: float = 0.5
    longest: float = 10.0
    most_paths: int = 1_000
    look_every: float = 600.0
    look_every_blind: float = 10.0
    retry: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One attempt. `look` is why the whole tree was scanned, `error` what went wrong."""

    at: float
    taking: Taking | None = None
    look: str = ""
    error: HoldfastError | None = None


Told = Callable[[Step], None]
Stopped = Callable[[], bool]
USUAL_PACE = Pace()


def watch(
    store: CheckpointTaker,
    workdir: Path,
    follower: Follower,
    *,
    clock: Clock,
    stopped: Stopped,
    told: Told,
    pace: Pace = USUAL_PACE,
    session: str | None = None,
) -> Watched:
    """Watch a directory until `stopped` returns True. What changed by then is still captured. The
    checkpoints belong to `session`, if one is given."""
    watching = _Watch(store, workdir, clock, pace, session)
    # The follower is already watching: every change from here on is reported.
    told(watching.take(ChangedPaths(lost="the first look")))
    while not stopped():
        seen = watching.overdue(follower) | _settled(follower, pace, stopped)
        if seen:
            told(watching.take(seen))
    if last := follower.wait(0.0):
        told(watching.take(last))
    return watching.done


def _settled(follower: Follower, pace: Pace, stopped: Stopped) -> ChangedPaths:
    """Return the changes once they have settled; empty if nothing changed for a moment."""
    seen = follower.wait(_TICK)
    until = time.monotonic() + pace.longest
    while seen and not stopped() and time.monotonic() < until:
        more = follower.wait(pace.settle)
        if not more:
            break
        seen |= more
    return seen


@dataclass(slots=True)
class _Watch:
    """The state of a watch: what it did, and when it last scanned the whole tree."""

    store: CheckpointTaker
    workdir: Path
    clock: Clock
    pace: Pace
    session: str | None
    done: Watched = field(default_factory=Watched)
    looked: float = field(default_factory=time.monotonic)
    failed: bool = False

    def overdue(self, follower: Follower) -> ChangedPaths:
        """Ask for a scan of the whole tree if it is time for one, whatever was reported."""
        since = time.monotonic() - self.looked
        if self.failed:
            return ChangedPaths(lost="the last try failed" if since >= self.pace.retry else "")
        if follower.blind:
            return ChangedPaths(lost=follower.blind if since >= self.pace.look_every_blind else "")
        return ChangedPaths(lost="a regular look" if since >= self.pace.look_every else "")

    def take(self, seen: ChangedPaths) -> Step:
        """Take a checkpoint of the changes. An error does not end the watch: the next attempt scans
        the whole tree."""
        look = seen.lost
        if len(seen.paths) > self.pace.most_paths:
            look = look or f"{len(seen.paths):,} paths changed"
        if self.failed:
            look = look or "the last try failed"
        if look:
            self.looked = time.monotonic()
            self.done = replace(self.done, looks=self.done.looks + 1)
        at = self.clock()
        try:
            taking = self.store.take(
                self.workdir,
                reason=_reason(seen.paths, look),
                now=at,
                session=self.session,
                paths=None if look else sorted(seen.paths),
            )
        except HoldfastError as error:
            return self._count_failure(at, look, error)
        if taking.outcome is TakeOutcome.SKIPPED:
            return self._count_failure(at, look, HoldfastError(taking.reason))
        self.failed = False
        taken = taking.outcome is TakeOutcome.TAKEN
        self.done = replace(
            self.done,
            taken=self.done.taken + taken,
            unchanged=self.done.unchanged + (not taken),
            last=taking.id,
        )
        return Step(at=at, taking=taking, look=look)

    def _count_failure(self, at: float, look: str, error: HoldfastError) -> Step:
        self.failed = True
        self.looked = time.monotonic()
        self.done = replace(self.done, failed=self.done.failed + 1)
        return Step(at=at, look=look, error=error)


def _reason(paths: Collection[str], look: str) -> str:
    """The reason shown in lists of checkpoints: a few of the names, safe to print."""
    if not paths:
        return f"watch: {look}"
    above = {path[:place] for path in paths for place, sign in enumerate(path) if sign == "/"}
    changed = sorted(path for path in paths if path not in above)
    names = [one_line(path) for path in changed[:_NAMED]]
    more = len(changed) - len(names)
    return f"watch: {', '.join(names)}{f' and {more:,} more' if more else ''}"

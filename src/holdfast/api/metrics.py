"""The machine's figures by agent, for programs that poll often: recorded figures, not a scan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from holdfast.api.machine import Machine
from holdfast.api.place import Place
from holdfast.errors import HoldfastError, UsageError
from holdfast.homes.output_place import check_output
from holdfast.model.arguments import StrPath, expanded
from holdfast.model.figures import Growth, Tally
from holdfast.model.json_value import JsonValue
from holdfast.policy.growth import growth, together
from holdfast.ports.runs import Clock
from holdfast.stores.alarm_file import AlarmFile
from holdfast.stores.counters import FileTallies
from holdfast.stores.figures_file import FiguresFile
from holdfast.stores.files import need_folder, storage_errors
from holdfast.stores.files import replace as write_whole
from holdfast.value import dataclass, replace

_T = TypeVar("_T")
#: The user that Prometheus runs as must be able to read a file of metrics.
_FOR_ALL = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMetrics(JsonValue):
    """All homes of one agent: how many there are, and how many of them have figures. `alarms` are
    files and folders that grow too fast right now."""

    agent: str
    homes: int
    looked_at: int
    growth: Growth
    alarms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(JsonValue):
    """How often something happened to an agent, counted by all processes."""

    what: Tally
    agent: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMetrics(JsonValue):
    """The figures of a machine at a moment. `unreadable` counts places that cannot be read."""

    at: float
    agents: tuple[AgentMetrics, ...]
    counts: tuple[Count, ...]
    together: Growth
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundHomes:
    """The agent and the state folder of each home, and how many places cannot be read."""

    homes: Sequence[tuple[str, Path]]
    unreadable: int = 0


def homes_of(machine: Machine) -> FoundHomes:
    """The homes of a machine. Opens none of them."""
    found = []
    for home in machine.homes:
        with suppress(HoldfastError, OSError):  # it was removed in the meantime
            found.append((home.agent, Place(home.path).state))
    return FoundHomes(homes=found, unreadable=len(machine.unread))


def home_at(place: Place) -> FoundHomes:
    """One home alone."""
    return FoundHomes(homes=[(place.home.kind, place.state)])


class MetricsSource:
    """Reads the recorded figures. A file is read again only when it has changed; only `find_homes`
    looks for homes. Safe to use from several threads."""

    def __init__(self, find: Callable[[], FoundHomes], *, clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self._turn = threading.Lock()
        self._known: dict[tuple[str, object], tuple[object, Any]] = {}
        self._latest: MachineMetrics | None = None
        self.find_homes()

    def find_homes(self) -> None:
        """Look for homes again: new ones appear from time to time."""
        self._found = self._find()

    def latest(self) -> MachineMetrics:
        """Return what `refresh` read last, with the current time, so that ages are right. A scrape
        uses this, because it does not wait for a disk."""
        known = self._latest
        if known is None:
            known = self.refresh()
        return replace(known, at=self._clock())

    def refresh(self) -> MachineMetrics:
        """Read the files that have changed."""
        self._latest = self.read()
        return self._latest

    def read(self) -> MachineMetrics:
        """Read the figures: a few small files at most, and only those that have changed."""
        with self._turn:
            now = self._clock()
            by_agent: dict[str, list[Growth]] = {}
            counts: dict[tuple[Tally, str], int] = {}
            alarms: dict[str, int] = {}
            found = self._found
            for owner, state in found.homes:
                by_agent.setdefault(owner, []).append(self._growth(state, now))
                alarms[owner] = alarms.get(owner, 0) + self._alarms(state, now)
                for (what, agent), count in FileTallies(state).read().items():
                    key = what, agent or owner
                    counts[key] = counts.get(key, 0) + count
            return MachineMetrics(
                at=now,
                agents=tuple(
                    AgentMetrics(
                        agent=agent,
                        homes=len(growths),
                        looked_at=sum(each.latest is not None for each in growths),
                        growth=self._together(agent, growths),
                        alarms=alarms[agent],
                    )
                    for agent, growths in sorted(by_agent.items())
                ),
                counts=tuple(
                    Count(what=what, agent=agent, count=count)
                    for (what, agent), count in sorted(counts.items())
                ),
                together=self._together(
                    "", [each for all_of in by_agent.values() for each in all_of]
                ),
                unreadable=found.unreadable,
            )

    def _alarms(self, state: Path, now: float) -> int:
        """The number of active alarms. Alarms also expire, so an unchanged file is read again after
        a minute; a file that cannot be read is reported no more often than that."""
        kept = AlarmFile(state)
        return self._once(
            ("alarms", state),
            (kept.stamp(), int(now // 60)),
            lambda: sum(each.active for each in kept.read(now)),
        )

    def _together(self, whose: str, growths: Sequence[Growth]) -> Growth:
        """The sum of growths, computed again only when one of them has changed."""
        return self._once(("together", whose), growths, lambda: together(growths))

    def _growth(self, state: Path, now: float) -> Growth:
        """The growth of a home, computed again when its file changes or a new day begins."""
        kept = FiguresFile(state)
        return self._once(
            ("growth", state),
            (kept.stamp(), int(now // 86_400)),
            lambda: growth(kept.read(), now),
        )

    def _once(self, what: tuple[str, object], seen: object, make: Callable[[], _T]) -> _T:
        """Return the cached value of `what`, or make it again if `seen` has changed."""
        known = self._known.get(what)
        if known is None or known[0] != seen:
            known = self._known[what] = (seen, make())
        made: _T = known[1]
        return made


def write_textfile(path: StrPath, text: bytes) -> None:
    """Write metrics for a collector that reads a folder: atomically, and readable by all users. A
    symlink at this path is replaced, not followed; a special file is refused."""
    place = expanded(path)
    with storage_errors(f"write {place}"):
        need_folder(place)
        if not place.is_symlink() and place.exists() and not place.is_file():
            raise UsageError(
                f"{place} is not a file that could be replaced.",
                hint="Name a file in the folder that your collector reads, such as holdfast.prom.",
            )
        check_output(place)
        write_whole(place, text, mode=_FOR_ALL)

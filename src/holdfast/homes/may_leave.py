"""Which sessions a home has, and which of them may be removed. A session stays if it is alive, was
written recently, is pinned, or has a part outside the home."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.json_lines import UNREADABLE
from holdfast.homes.agents.leftovers import cut_off
from holdfast.homes.foreign.notes import Notes, Seen
from holdfast.homes.foreign.pinned_sessions import Pins
from holdfast.homes.outside_the_home import OutsideTheHome
from holdfast.homes.session_places import SessionPlaces
from holdfast.model.part import (
    FilePart,
    FolderPart,
    LinePart,
    Part,
    Role,
    Sight,
    Signs,
    Unit,
    digest,
)
from holdfast.model.plan import PlanItem
from holdfast.model.text import format_duration
from holdfast.parts.trees import measure
from holdfast.parts.units import PINNED, not_a_place
from holdfast.ports.formats import Format
from holdfast.ports.runs import Clock
from holdfast.stores.files import Doubled
from holdfast.value import replace


class Census:
    """The sessions or the leftovers of a home, and which of them are alive."""

    def __init__(
        self,
        form: Format,
        root: Path,
        clock: Clock,
        notes: Notes,
        pins: Pins,
        *,
        of_leftovers: bool = False,
    ) -> None:
        self._of_leftovers = of_leftovers
        self._pins = pins
        self._format = form
        self._root = root
        self._clock = clock
        self._notes = notes
        self._signs = Signs()
        self._outside = OutsideTheHome(form, root)
        self._places_of_sessions = SessionPlaces(form, root)
        self._places: dict[str, str] = {}
        self._asked: dict[str, Path] = {}
        self._named: set[str] = set()
        #: The parents of units that are stored inside them.
        self._around: dict[str, str] = {}

    def units(self) -> Iterable[Unit]:
        """Each id once: the first unit with that id that the format yields."""
        if self._of_leftovers:
            return [*self._leftovers()]
        found: dict[str, Unit] = {}
        asked: list[Path] = []

        def known(path: Path) -> Unit | None:
            asked.append(path)
            return self._notes.known(path)

        self._asked = {}
        for unit in self._format.units(self._root, known):
            if not unit.parts and asked:
                self._asked.setdefault(unit.id, asked[-1])
            asked.clear()
            found.setdefault(unit.id, unit)
        return found.values()

    def inside(self, unit: Unit) -> Seen:
        """A unit that is stored inside its parent. Its file is the last one that the format asked
        about; that file shows whether the unit changed."""
        path = self._asked.get(unit.id)
        sight, changed = NOT_THERE if path is None else tree_sight(path)
        return Seen(
            unit=unit,
            version=digest([unit.parent, sight.stamp]),
            bytes=0,
            changed=changed,
            inside=True,
            stamps={str(path): sight.stamp} if sight.here else {},
        )

    def _leftovers(self) -> Iterable[Unit]:
        """Leftovers as units: they are removed and restored the same way. None can be told while a
        session that may own it cannot be read."""
        if self.cut_off() is not None:
            return
        for each in self._format.leftovers(self._root):
            yield Unit(id=f"{each.kind}/{each.id}", active=each.active, parts=each.parts)

    def cut_off(self) -> Path | None:
        """A folder with sessions that cannot be read."""
        return cut_off(self._root, getattr(self._format, "folders", ()))

    def find(self, items: Sequence[PlanItem]) -> Mapping[str, Unit]:
        wanted = {item.id for item in items}
        self._named = {item.id for item in items if item.version.endswith(PINNED)}
        units = [*self.units()]
        self._around = {unit.id: unit.parent for unit in units if unit.parent and not unit.parts}
        return {unit.id: unit for unit in units if unit.id in wanted}

    def obstacles(self, units: Iterable[Unit]) -> Mapping[str, str]:
        """Why units must stay, checked just before they are moved."""
        now = self._clock()
        self._outside.look_again()
        self._signs = self._look(now)
        # A plan knows what is pinned, but a session may be pinned between plan and removal. If a
        # plan contains a pinned session, the user named that session explicitly.
        pins = self._pins.read()
        found = dict.fromkeys(pins - self._named, "it is pinned")
        for pinned in sorted(pins & self._around.keys()):
            for around in self._all_around(pinned):
                if around not in self._named:
                    found.setdefault(around, f"{pinned}, which is inside it, is pinned")
        for unit in units:
            outside = self.outside(unit)
            why = f"{outside} is outside the home" if outside else None
            if unit.pinned and unit.id not in self._named:
                why = f"it is pinned in {self._format.facts.agent}"
            if why is None and (strange := self.misplaced(unit)):
                why = not_a_place(strange)
            why = why or self._alive(unit, self._signs) or self._written_lately(unit, now)
            if why:
                found[unit.id] = why
        return found

    def _all_around(self, name: str) -> Sequence[str]:
        """The unit that something is stored inside, the unit around that one, and so on."""
        found: list[str] = []
        while (name := self._around.get(name, "")) and name not in found:
            found.append(name)
        return found

    def _alive(self, unit: Unit, signs: Signs) -> str | None:
        """Processes report their real working directory, while an agent may have recorded a link to
        it. A leftover belongs to no session, so any process may use it: it stays as long as the
        agent runs at all."""
        if self._of_leftovers:
            return signs.home or signs.rewrites or next(iter(signs.units.values()), None)
        if unit.unread or unit.stays:
            return unit.unread or unit.stays
        if signs.folders and unit.cwd:
            if unit.cwd not in self._places:
                self._places[unit.cwd] = os.path.realpath(unit.cwd)
            unit = replace(unit, cwd=self._places[unit.cwd])
        return signs.protect(unit)

    def judged(self, seen: Sequence[Seen]) -> list[Seen]:
        """Add who is alive now to what a look found or noted."""
        now = self._clock()
        signs = self._look(now)

        def alive(each: Seen) -> str | None:
            return (
                self._alive(each.unit, signs)
                or (signs.rewrites if each.shared else None)
                or self._recent(max(each.unit.active, each.changed), now)
                or each.alive
            )

        return [replace(each, alive=why) if (why := alive(each)) else each for each in seen]

    def held(self, seen: Sequence[Seen]) -> Iterable[Seen]:
        """Mark units as in use if a process has one of their files open."""
        opened = life.opened_below(self._format.roots(self._root))
        if not opened:
            return seen
        return [
            replace(each, alive=why)
            if each.alive is None and (why := _open_part(each.unit, opened))
            else each
            for each in seen
        ]

    def _look(self, now: float) -> Signs:
        """The signs from the format, and the processes of its agent. If the check fails, everything
        is protected."""
        facts = self._format.facts
        try:
            signs = self._format.signs(self._root, now)
        except UNREADABLE as error:
            return Signs(home=f"cannot tell whether {facts.agent} is using it ({error})")
        processes = life.running(facts.processes)
        if not processes:
            return signs
        return Signs(
            units={**processes.named, **signs.units},
            folders={**processes.folders, **signs.folders},
            home=signs.home or processes.unreadable,
            rewrites=signs.rewrites
            or f"{facts.agent} is running, and may write it back from memory",
        )

    def _written_lately(self, unit: Unit, now: float) -> str | None:
        try:
            return self._recent(max(unit.active, _written(unit)), now)
        except OSError as error:
            return f"its files cannot be read ({error.strerror})"

    def _recent(self, latest: float, now: float) -> str | None:
        """How recently a session was used, by the agent's record and by its file times."""
        age = now - latest
        if age < 0:
            return "its time is in the future"
        if age < self._format.facts.idle_after:
            return f"used {format_duration(age)} ago"
        return None

    def outside(self, unit: Unit) -> str | None:
        return self._outside.part_of(unit)

    def misplaced(self, unit: Unit) -> str | None:
        return self._places_of_sessions.misplaced(unit, of_leftovers=self._of_leftovers)

    def keeps(self, part: Part) -> str | None:
        return self._signs.rewrites if self._signs.keeps(part) else None


def seen_outside(unit: Unit, place: str) -> Seen:
    """A session with a part outside the home: only its transcript is looked at."""
    path = unit.transcript
    sight, changed = NOT_THERE if path is None else tree_sight(path)
    return Seen(
        unit=unit,
        version=digest([place, sight.stamp]),
        bytes=sight.bytes,
        changed=changed,
        outside=True,
        alive=f"{place} is outside the home",
    )


def _open_part(unit: Unit, opened: Mapping[str, str]) -> str | None:
    parts = (each.path for each in unit.parts if isinstance(each, FilePart | FolderPart))
    return next((why for each in parts if (why := opened.get(os.path.realpath(each)))), None)


def _written(unit: Unit) -> float:
    trees = (measure(p.path) for p in unit.parts if isinstance(p, FilePart | FolderPart))
    return max((tree.changed for tree in trees if tree is not None), default=0.0)


#: A part that does not exist, and its modification time.
NOT_THERE = Sight(here=False), 0.0


def tree_sight(path: Path, doubled: Doubled | None = None) -> tuple[Sight, float]:
    """What a scan needs to know about a file or folder, without any copy in the trash."""
    try:
        tree = measure(path, doubled)
    except OSError:
        return Sight(here=None), 0.0
    if tree is None:
        return NOT_THERE
    return Sight(here=True, stamp=tree.stamp, bytes=tree.bytes), tree.changed


def may_be_rewritten(part: Part) -> bool:
    """True for an entry of a document that a running agent writes back from memory."""
    return isinstance(part, LinePart) and not part.lines and part.role is not Role.TRACE


def may_be_known(part: Part) -> bool:
    """True if a format may ask about this part before it reads it: a file, or the folder that is
    the session."""
    is_session = isinstance(part, FolderPart) and part.role is Role.REFERENCE
    return is_session or isinstance(part, FilePart)

"""The home of another agent, made from its format.

A format says what there is. This class makes a home from it: scan, list, search, remove, archive,
undo, all through the one spine and the one index.

    .holdfast/      all that is ours: configuration, operation log, trash, archive, index
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from holdfast.errors import HoldfastError, SchemaError
from holdfast.homes import life
from holdfast.homes.archive_units import unit_archive
from holdfast.homes.checkup import FormatCheckup
from holdfast.homes.doers import Changes
from holdfast.homes.home import Contents, Ground, Home
from holdfast.homes.home_bytes import Survey
from holdfast.homes.mirror import Indexed, Mirror
from holdfast.homes.options import USUAL, HomeOptions
from holdfast.model.item import ARCHIVED, LEFTOVER, SESSION, Item, Problem
from holdfast.model.part import (
    FilePart,
    FolderPart,
    LinePart,
    Part,
    Role,
    Sight,
    Signs,
    Slot,
    Unit,
    version_of_parts,
)
from holdfast.model.plan import PlanItem
from holdfast.model.session import Relation, SessionFilter
from holdfast.model.text import format_duration
from holdfast.parts import movers
from holdfast.parts.trees import newest_change
from holdfast.parts.units import UnitMover, by_container
from holdfast.ports import Archive, Clock, Format, Progress
from holdfast.spine.keeper import Keeper
from holdfast.stores.sqlite.mirror import MirrorStore
from holdfast.value import dataclass

STATE = ".holdfast"


def state_folder(root: Path) -> Path:
    return root / STATE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A unit or a leftover, and what movers see of its parts."""

    unit: Unit
    version: str
    bytes: int
    alive: str | None


class FormatContents(Contents):
    """The sessions of an agent that has a format. Its index lies in our folder."""

    foreign = True

    def __init__(self, form: Format, ground: Ground) -> None:
        super().__init__(ground)
        self.kind = form.facts.name
        self._root = ground.root
        self._format = form
        self._mirror = Mirror(ground.state / "index", form, ground.root)
        self._movers = movers()
        self._census = Census(form, ground.root, ground.clock, self._mirror)
        self._left = Census(form, ground.root, ground.clock, self._mirror, of_leftovers=True)

    # --- Looking ----------------------------------------------------------------------------------

    def survey(self, now: float, wanted: SessionFilter | None, progress: Progress | None) -> Survey:
        sessions, problems = self._look(self._census.units())
        problems += self._refreshed(sessions)
        chosen = {each.id: each for each in self._mirror.store().find(wanted or SessionFilter())}
        items = [
            _session(each, chosen[each.unit.id].message_count)
            for each in sessions
            if each.unit.id in chosen
        ]
        leftovers, more = self._look(self._left.units())
        doubt = self._format.doubt(self._root)
        if doubt is not None:
            more.append(
                Problem(
                    path=str(self._root), reason=f"{doubt}; it can be read, but is never changed"
                )
            )
        return Survey(
            items=(*items, *map(_leftover, leftovers)),
            problems=(*problems, *more),
            in_items=sum(each.bytes for each in (*sessions, *leftovers)),
        )

    def store(self) -> MirrorStore:
        seen, _ = self._look(self._census.units())
        self._refreshed(seen)
        return self._mirror.store()

    def stored(self, ids: Sequence[str]) -> Collection[str]:
        return self._ids().intersection(ids)

    def _ids(self) -> set[str]:
        return {unit.id for unit in self._census.units()}

    def checkup(self, archive: Archive) -> FormatCheckup:
        return FormatCheckup(self.ground, self._format, archive, self._mirror, self._units)

    def close(self) -> None:
        self._mirror.close()

    def _look(self, units: Iterable[Unit]) -> tuple[list[_Seen], list[Problem]]:
        """Units with their stamps, and why some could not be looked at."""
        problems: list[Problem] = []
        found: list[Unit] = []
        for unit in units:
            outside = self._census.outside(unit)
            if outside is None:
                found.append(unit)
            else:
                problems.append(Problem(path=outside, reason=f"is outside the home: {unit.id}"))
        slots = [
            Slot(
                number=number,
                index=index,
                part=part,
                stamp="",
                folder=self.ground.trash.root / "-",
            )
            for number, unit in enumerate(found)
            for index, part in enumerate(unit.parts)
        ]
        sights: dict[tuple[int, int], Sight] = {}
        for mover, group in by_container(self._movers, slots):
            for slot, sight in zip(group, mover.look(group), strict=True):
                sights[slot.number, slot.index] = sight
        obstacles = self._census.obstacles(found)
        seen = []
        for number, unit in enumerate(found):
            mine = [sights[number, index] for index, _ in enumerate(unit.parts)]
            here = [(p, s) for p, s in zip(unit.parts, mine, strict=True) if s.here is not False]
            unseen = next((p for p, s in here if s.here is None and p.role is not Role.TRACE), None)
            alive = obstacles.get(unit.id)
            if unseen is not None:
                alive = alive or f"{unseen.place} cannot be read"
            seen.append(
                _Seen(
                    unit=unit,
                    version=version_of_parts(
                        tuple(part for part, _ in here), tuple(sight.stamp for _, sight in here)
                    ),
                    bytes=sum(sight.bytes for _, sight in here),
                    alive=alive,
                )
            )
        return seen, problems

    def _refreshed(self, seen: Sequence[_Seen]) -> list[Problem]:
        return list(
            self._mirror.refresh(
                [
                    Indexed(unit=each.unit, version=each.version, alive=each.alive is not None)
                    for each in seen
                ]
            )
        )

    # --- Changing ---------------------------------------------------------------------------------

    @cached_property
    def _units(self) -> UnitMover:
        return UnitMover(self._movers, self.ground.trash, self._census)

    def changes(self) -> Changes:
        left = UnitMover(self._movers, self.ground.trash, self._left)
        return Changes(
            keepers={SESSION: Keeper(self._units), LEFTOVER: Keeper(left)},
            archive=unit_archive(self.ground, self._units, self._mirror, self._ids),
        )

    def check_writable(self, kind: str) -> None:
        doubt = self._format.doubt(self._root) if kind in (SESSION, LEFTOVER, ARCHIVED) else None
        if doubt is not None:
            raise SchemaError(
                f"{self._root}: {doubt}. Nothing was changed.",
                hint="It can still be read. A later version of Holdfast may know it.",
            )


class FormatHome(Home):
    """The home of any agent that has a format. Its index and everything else of ours lie in
    `.holdfast/`; nothing else is created by looking."""

    _contents: FormatContents

    def __init__(
        self, root: Path, form: Format, *, clock: Clock, options: HomeOptions = USUAL
    ) -> None:
        super().__init__(
            root,
            partial(FormatContents, form),
            clock=clock,
            state=state_folder(root),
            options=options,
        )

    def session_store(self) -> MirrorStore:
        """The sessions, from the index, which is brought up to date first."""
        return self._contents.store()


def _session(seen: _Seen, messages: int) -> Item:
    unit = seen.unit
    return Item(
        kind=SESSION,
        id=unit.id,
        source=unit.source or "cli",
        session=unit.id,
        bytes=seen.bytes,
        last_active_at=unit.active,
        version=seen.version,
        alive=seen.alive,
        messages=messages,
        titled=bool(unit.title),
        parent=unit.parent,
        delegate=unit.relation is Relation.DELEGATE,
    )


def _leftover(seen: _Seen) -> Item:
    kind, _, _ = seen.unit.id.partition("/")
    return Item(
        kind=LEFTOVER,
        id=seen.unit.id,
        source=kind,
        bytes=seen.bytes,
        last_active_at=seen.unit.active,
        version=seen.version,
        alive=seen.alive,
    )


class Census:
    """Which sessions a home has, or which leftovers, and which of them are alive."""

    def __init__(
        self, form: Format, root: Path, clock: Clock, mirror: Mirror, *, of_leftovers: bool = False
    ) -> None:
        self._of_leftovers = of_leftovers
        self._format = form
        self._root = root
        self._clock = clock
        self._mirror = mirror
        self._signs = Signs()

    def units(self) -> Iterable[Unit]:
        """Each id once: the first that the format names."""
        if self._of_leftovers:
            return [*self._leftovers()]
        found: dict[str, Unit] = {}
        for unit in self._format.units(self._root, self._mirror.known):
            found.setdefault(unit.id, unit)
        return found.values()

    def _leftovers(self) -> Iterable[Unit]:
        """Leftovers as units: they leave and come back the same way."""
        for each in self._format.leftovers(self._root):
            yield Unit(id=f"{each.kind}/{each.id}", active=each.active, parts=each.parts)

    def find(self, items: Sequence[PlanItem]) -> Mapping[str, Unit]:
        wanted = {item.id for item in items}
        return {unit.id: unit for unit in self.units() if unit.id in wanted}

    def obstacles(self, units: Iterable[Unit]) -> Mapping[str, str]:
        now = self._clock()
        self._signs = self._look(now)
        found = {}
        for unit in units:
            outside = self.outside(unit)
            why = f"{outside} is outside the home" if outside else None
            why = why or self._signs.protect(unit) or self._recent(unit, now)
            if why:
                found[unit.id] = why
        return found

    def _look(self, now: float) -> Signs:
        """The signs of the format, and the processes of its agent. A failed check protects."""
        facts = self._format.facts
        try:
            signs = self._format.signs(self._root, now)
        except (OSError, ValueError, KeyError, TypeError, HoldfastError) as error:
            return Signs(home=f"the signs of life of {facts.agent} cannot be read ({error})")
        processes = life.running(facts.processes)
        if not processes:
            return signs
        return Signs(
            units=signs.units,
            folders={**processes.folders, **signs.folders},
            home=signs.home or processes.unreadable,
            rewrites=signs.rewrites
            or f"{facts.agent} is running, and may write it again from memory",
        )

    def _recent(self, unit: Unit, now: float) -> str | None:
        """A session is idle by what its agent recorded and by the times of its files."""
        trees = (p.path for p in unit.parts if isinstance(p, FilePart | FolderPart))
        try:
            latest = max((unit.active, *map(newest_change, trees)))
        except OSError as error:
            return f"its files cannot be looked at ({error.strerror})"
        age = now - latest
        if age < 0:
            return "its time is in the future"
        if age < self._format.facts.idle_after:
            return f"used {format_duration(age)} ago"
        return None

    def outside(self, unit: Unit) -> str | None:
        """The first part that is not below the roots of the home."""
        for part in unit.parts:
            real = _real(part)
            if not any(_is_below(real, root) for root in self._roots):
                return str(part.place)
        return None

    @cached_property
    def _roots(self) -> Sequence[str]:
        return [os.path.realpath(each) for each in self._format.roots(self._root)]

    def keeps(self, part: Part) -> bool:
        return self._signs.keeps(part)


def _real(part: Part) -> str:
    """Where a part really is. A link is removed itself, not its target."""
    if isinstance(part, LinePart):
        return os.path.realpath(part.place)
    return os.path.join(os.path.realpath(part.place.parent), part.place.name)  # noqa: PTH118


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)

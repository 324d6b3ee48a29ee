"""The home of another agent, made from its format.

A format says what there is. This class makes a home of it: scan, list, search, remove, archive,
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
from holdfast.homes.format_sessions import FormatSessions, Pins, Seen
from holdfast.homes.home import Contents, Ground, Home
from holdfast.homes.home_bytes import Survey
from holdfast.homes.mirror import Mirror
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
from holdfast.model.session import Relation, Session, SessionFilter
from holdfast.model.text import format_duration
from holdfast.parts import movers
from holdfast.parts.trees import measure
from holdfast.parts.units import UnitMover, by_container
from holdfast.ports import Archive, Clock, Format, Progress
from holdfast.spine.keeper import Keeper
from holdfast.value import replace

STATE = ".holdfast"


def state_folder(root: Path) -> Path:
    return root / STATE


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
        pins = Pins(ground.state / "pins.json")
        seat = (form, ground.root, ground.clock, self._mirror, pins)
        self._census = Census(*seat)
        self._left = Census(*seat, of_leftovers=True)
        self._sessions = FormatSessions(
            form,
            ground.root,
            pins,
            self._mirror,
            lambda: self._look(self._census.units())[0],
        )

    # --- Looking ----------------------------------------------------------------------------------

    def survey(self, now: float, wanted: SessionFilter | None, progress: Progress | None) -> Survey:
        seen, problems = self._look(self._census.units())
        self._sessions.show(seen)
        by_id = {each.unit.id: each for each in seen if each.unit.parts}
        items = [
            _item(by_id[each.id], each, self._sessions.known_messages(each.id))
            for each in self._sessions.chosen(wanted or SessionFilter())
            if each.id in by_id
        ]
        leftovers, more = self._look(self._left.units())
        doubt = self._format.doubt(self._root)
        if doubt is not None:
            more.append(Problem(path=str(self._root), reason=f"{doubt}; it is read, never changed"))
        return Survey(
            items=(*items, *map(_leftover, leftovers)),
            problems=(*problems, *more),
            in_items=sum(each.bytes for each in (*seen, *leftovers)),
        )

    def store(self) -> FormatSessions:
        """The sessions as they are now."""
        self._sessions.refresh()
        return self._sessions

    def stored(self, ids: Sequence[str]) -> Collection[str]:
        return self._ids().intersection(ids)

    def _ids(self) -> set[str]:
        return {unit.id for unit in self._census.units()}

    def checkup(self, archive: Archive) -> FormatCheckup:
        return FormatCheckup(self.ground, self._format, archive, self._mirror, self._units)

    def close(self) -> None:
        self._mirror.close()

    def _look(self, units: Iterable[Unit]) -> tuple[list[Seen], list[Problem]]:
        """Units with their stamps, and why some could not be looked at."""
        problems: list[Problem] = []
        found: list[Unit] = []
        for unit in units:
            outside = self._census.outside(unit)
            if outside is None:
                found.append(unit)
            else:
                problems.append(Problem(path=outside, reason=f"lies outside the home: {unit.id}"))
        slots: list[Slot] = []
        sights: dict[tuple[int, int], Sight] = {}
        changed: dict[str, float] = {}
        for number, unit in enumerate(found):
            for index, part in enumerate(unit.parts):
                if isinstance(part, FilePart | FolderPart):
                    sight, at = _tree_sight(part)
                    sights[number, index] = sight
                    changed[unit.id] = max(at, changed.get(unit.id, 0.0))
                else:
                    nowhere = self.ground.trash.root / "-"
                    slots.append(
                        Slot(number=number, index=index, part=part, stamp="", folder=nowhere)
                    )
        for mover, group in by_container(self._movers, slots):
            for slot, sight in zip(group, mover.look(group), strict=True):
                sights[slot.number, slot.index] = sight
        obstacles = self._census.obstacles(found, changed)
        seen = []
        for number, unit in enumerate(found):
            mine = [sights[number, index] for index, _ in enumerate(unit.parts)]
            here = [(p, s) for p, s in zip(unit.parts, mine, strict=True) if s.here is not False]
            unseen = next((p for p, s in here if s.here is None and p.role is not Role.TRACE), None)
            alive = obstacles.get(unit.id)
            if unseen is not None:
                alive = alive or f"{unseen.place} cannot be looked into"
            seen.append(
                Seen(
                    unit=unit,
                    version=version_of_parts(
                        tuple(part for part, _ in here), tuple(sight.stamp for _, sight in here)
                    ),
                    bytes=sum(sight.bytes for _, sight in here),
                    alive=alive,
                )
            )
        return seen, problems

    # --- Changing ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """What left the home leaves the index with it."""
        if self._mirror.database.exists():
            self._mirror.forget_all_but(self._ids())

    @cached_property
    def _units(self) -> UnitMover:
        return UnitMover(self._movers, self.ground.trash, self._census)

    def changes(self) -> Changes:
        left = UnitMover(self._movers, self.ground.trash, self._left)
        return Changes(
            keepers={SESSION: Keeper(self._units), LEFTOVER: Keeper(left)},
            archive=unit_archive(self.ground, self._units, self._mirror, self._sessions, self._ids),
        )

    def check_writable(self, kind: str) -> None:
        doubt = self._format.doubt(self._root) if kind in (SESSION, LEFTOVER, ARCHIVED) else None
        if doubt is not None:
            raise SchemaError(
                f"{self._root}: {doubt}. Nothing was changed.",
                hint="It can be read as ever. A later Holdfast may know it.",
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

    def session_store(self) -> FormatSessions:
        """The sessions as they are now."""
        return self._contents.store()


def _item(seen: Seen, session: Session, messages: int | None) -> Item:
    return Item(
        kind=SESSION,
        id=session.id,
        source=session.source,
        session=session.id,
        bytes=seen.bytes,
        last_active_at=session.last_active_at,
        version=seen.version,
        alive=seen.alive,
        messages=messages,
        titled=session.title is not None,
        pinned=session.pinned,
        parent=seen.unit.parent,
        delegate=seen.unit.relation is Relation.DELEGATE,
    )


def _leftover(seen: Seen) -> Item:
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
        self,
        form: Format,
        root: Path,
        clock: Clock,
        mirror: Mirror,
        pins: Pins,
        *,
        of_leftovers: bool = False,
    ) -> None:
        self._of_leftovers = of_leftovers
        self._pins = pins
        self._format = form
        self._root = root
        self._clock = clock
        self._mirror = mirror
        self._signs = Signs()
        self._folders: dict[str, str] = {}

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

    def obstacles(
        self, units: Iterable[Unit], changed: Mapping[str, float] | None = None
    ) -> Mapping[str, str]:
        """Why units must stay. `changed` has when files of units were last written, where a look
        has just told."""
        now = self._clock()
        self._folders = {}  # what was a folder may be a link now
        self._signs = self._look(now)
        # A plan knows what is pinned; between plan and removal somebody may pin one more.
        found = dict.fromkeys(self._pins.read(), "it is pinned") if changed is None else {}
        for unit in units:
            outside = self.outside(unit)
            why = f"{outside} lies outside the home" if outside else None
            why = why or self._alive(unit) or self._recent(unit, now, changed)
            if why:
                found[unit.id] = why
        return found

    def _alive(self, unit: Unit) -> str | None:
        """Processes show where they really work; an agent may have noted a link that leads there.
        What no session owns may be anybody's: it stays as long as the agent runs at all."""
        signs = self._signs
        if self._of_leftovers:
            return signs.home or signs.rewrites or next(iter(signs.units.values()), None)
        if signs.folders and unit.cwd:
            unit = replace(unit, cwd=self._resolved(unit.cwd))
        return signs.protect(unit)

    def _look(self, now: float) -> Signs:
        """The signs of the format, and the processes of its agent. What fails protects."""
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
            rewrites=signs.rewrites or f"{facts.agent} runs, and may write it again from memory",
        )

    def _recent(self, unit: Unit, now: float, changed: Mapping[str, float] | None) -> str | None:
        """A session is idle by what its agent recorded and by the times of its files."""
        try:
            written = _written(unit) if changed is None else changed.get(unit.id, 0.0)
        except OSError as error:
            return f"its files cannot be looked at ({error.strerror})"
        latest = max(unit.active, written)
        age = now - latest
        if age < 0:
            return "its time lies in the future"
        if age < self._format.facts.idle_after:
            return f"used {format_duration(age)} ago"
        return None

    def outside(self, unit: Unit) -> str | None:
        """The first part that is not below the roots of the home."""
        for part in unit.parts:
            real = self._real(part)
            if not any(_is_below(real, root) for root in self._roots):
                return str(part.place)
        return None

    def _real(self, part: Part) -> str:
        """Where a part really lies. Of a link it is the link that leaves, not what it leads to."""
        if isinstance(part, LinePart):
            return self._resolved(str(part.place))
        folder, name = os.path.split(part.place)
        return f"{self._resolved(folder)}/{name}"

    def _resolved(self, path: str) -> str:
        """Folders repeat, and resolving one asks the file system for every step of its path."""
        if path not in self._folders:
            self._folders[path] = os.path.realpath(path)
        return self._folders[path]

    @cached_property
    def _roots(self) -> Sequence[str]:
        return [os.path.realpath(each) for each in self._format.roots(self._root)]

    def keeps(self, part: Part) -> bool:
        return self._signs.keeps(part)


def _written(unit: Unit) -> float:
    trees = (measure(p.path) for p in unit.parts if isinstance(p, FilePart | FolderPart))
    return max((tree.changed for tree in trees if tree is not None), default=0.0)


def _tree_sight(part: FilePart | FolderPart) -> tuple[Sight, float]:
    """What a scan wants to know of a file or folder, without what the trash may hold of it."""
    try:
        tree = measure(part.path)
    except OSError:
        return Sight(here=None), 0.0
    if tree is None:
        return Sight(here=False), 0.0
    return Sight(here=True, stamp=tree.stamp, bytes=tree.bytes), tree.changed


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)

"""The home of another agent, made from its format.

A format says what there is. This class makes a home of it: scan, list, search, remove, archive,
undo, all through the one spine and the one index.

    .holdfast/      all that is ours: configuration, operation log, trash, archive, index
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from holdfast.errors import HoldfastError, SchemaError, UsageError
from holdfast.homes import life
from holdfast.homes.checkpoint_bounds import CheckpointBounds
from holdfast.homes.checkpoint_doers import RollBack
from holdfast.homes.checkpoints import FOLDER, checkpoint_store
from holdfast.homes.folder_bytes import bytes_below
from holdfast.homes.home_bytes import trash_of
from holdfast.homes.mirror import Indexed, Mirror
from holdfast.homes.options import USUAL, HomeOptions, archive_folder
from holdfast.homes.unit_archive import UnitArchive
from holdfast.model.checkpoint import Capturing
from holdfast.model.inventory import Inventory, Problem
from holdfast.model.item import (
    ARCHIVED,
    CHECKPOINT_SPACE,
    LEFTOVER,
    PROJECT,
    SESSION,
    SPACE,
    TRASH,
    Item,
)
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
from holdfast.model.plan import Action, PlanItem
from holdfast.model.session import Relation, SessionFilter
from holdfast.model.units import format_duration
from holdfast.parts import movers
from holdfast.parts.trees import newest_change
from holdfast.parts.units import UnitMover, by_container
from holdfast.ports import (
    Archive,
    CheckpointStore,
    CheckpointUpkeep,
    Clock,
    Doer,
    Format,
    Progress,
)
from holdfast.spine.doers import EmptyTrash, Reclaim
from holdfast.spine.keeper import Keeper
from holdfast.stores.operation_log import FileOperationLog
from holdfast.stores.sqlite.mirror import MirrorStore
from holdfast.stores.trash_folder import TrashFolder
from holdfast.value import dataclass, replace

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


class FormatHome:
    """The home of any agent that has a format. Its index and everything else of ours lie in
    `.holdfast/`; nothing else is created by looking."""

    version = None

    def __init__(
        self, root: Path, form: Format, *, clock: Clock, options: HomeOptions = USUAL
    ) -> None:
        self.root = root
        self.state = state_folder(root)
        self.kind = form.facts.name
        self._format = form
        self._clock = clock
        self._options = options
        self._trash = TrashFolder(self.state / "trash")
        self.log = FileOperationLog(self.state / "operations", self._trash.root)
        self._mirror = Mirror(self.state / "index", form, root)
        self._movers = movers()
        self._census = Census(form, root, clock, self._mirror)
        self._left = Census(form, root, clock, self._mirror, of_leftovers=True)

    # --- Looking ----------------------------------------------------------------------------------

    def scan(
        self,
        now: float,
        progress: Progress | None = None,
        *,
        wanted: SessionFilter | None = None,
    ) -> Inventory:
        sessions, problems = self._look(self._census.units())
        problems += self._refreshed(sessions)
        chosen = {each.id: each for each in self._mirror.store().find(wanted or SessionFilter())}
        items = [
            self._item(each, chosen[each.unit.id].message_count)
            for each in sessions
            if each.unit.id in chosen
        ]
        leftovers, more = self._look(self._left.units())
        log = self.log.read()
        doubt = self._format.doubt(self.root)
        if doubt is not None:
            more.append(Problem(path=str(self.root), reason=f"{doubt}; it is read, never changed"))
        inventory = Inventory(
            home=str(self.root),
            scanned_at=now,
            items=(*items, *(_leftover(each) for each in leftovers)),
            trash=trash_of(log.trash),
            problems=(*problems, *more, *log.problems),
            rest_is_foreign=True,
        )
        return self._counted(inventory, sum(each.bytes for each in (*sessions, *leftovers)))

    def _look(self, units: Iterable[Unit]) -> tuple[list[_Seen], list[Problem]]:
        """Units with their stamps, and why some could not be looked at."""
        problems: list[Problem] = []
        found: list[Unit] = []
        for unit in units:
            outside = self._census.outside(unit)
            if outside is None:
                found.append(unit)
            else:
                problems.append(Problem(path=outside, reason=f"lies outside the home: {unit.id}"))
        slots = [
            Slot(number=number, index=index, part=part, stamp="", folder=self._trash.root / "-")
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
                alive = alive or f"{unseen.place} cannot be looked into"
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

    def _item(self, seen: _Seen, messages: int) -> Item:
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

    def _counted(self, found: Inventory, units: int) -> Inventory:
        """The inventory with everything that no item stands for."""
        problems: list[Problem] = []
        archive = archive_folder(self.state, self._options.archive)
        checkpoints = self.state / FOLDER
        log = bytes_below(self.state / "operations", (), problems)
        kept = bytes_below(archive, (), problems)
        captured = bytes_below(checkpoints, (), problems)
        trash = bytes_below(self._trash.root, (), problems)
        known = sum(item.bytes for item in found.trash if not item.capped_elsewhere)
        kept_trash = sum(item.bytes for item in found.trash if item.capped_elsewhere)
        ours = (self.state / "operations", archive, checkpoints, self._trash.root)
        rest = max(0, bytes_below(self.root, ours, problems) - units)
        return replace(
            found,
            problems=(*found.problems, *problems),
            other_bytes=log + kept - kept_trash + captured + max(0, trash - known) + rest,
            log_bytes=log,
            archive_bytes=kept,
            archived=len(self.archive.items()) if archive.is_dir() else 0,
            checkpoint_bytes=captured,
            loose_trash_bytes=max(0, trash - known),
            database_bytes=units,
        )

    def session_store(self) -> MirrorStore:
        """The sessions, from the index, which is brought up to date first."""
        seen, _ = self._look(self._census.units())
        self._refreshed(seen)
        return self._mirror.store()

    # --- Changing ---------------------------------------------------------------------------------

    def doer(self, kind: str, action: Action = Action.REMOVE) -> Doer:
        """Raises `SchemaError` for a home that may only be read."""
        doubt = self._format.doubt(self.root)
        if doubt is not None and kind in (SESSION, LEFTOVER, ARCHIVED):
            raise SchemaError(
                f"{self.root}: {doubt}. Nothing was changed.",
                hint="It can be read as ever. A later Holdfast may know it.",
            )
        try:
            return self._doers[kind, action]
        except KeyError:
            raise UsageError(
                f"{self.root} has nothing of kind {kind!r} to {action.value}."
            ) from None

    @cached_property
    def _doers(self) -> Mapping[tuple[str, Action], Doer]:
        keepers: Mapping[str, Keeper] = {
            SESSION: Keeper(UnitMover(self._movers, self._trash, self._census)),
            LEFTOVER: Keeper(UnitMover(self._movers, self._trash, self._left)),
            **self._bounds.keepers,
            **self._archive.keepers,
        }
        return {
            **{(kind, Action.REMOVE): keeper for kind, keeper in keepers.items()},
            (SPACE, Action.RECLAIM): Reclaim({CHECKPOINT_SPACE: self._bounds.space}),
            (PROJECT, Action.ROLL_BACK): RollBack(self.checkpoint_store, self._clock),
            (TRASH, Action.REMOVE): EmptyTrash(lambda: self.log.read().trash, keepers),
            **self._archive.doers,
        }

    @property
    def archive(self) -> Archive:
        return self._archive.reader

    @cached_property
    def _archive(self) -> UnitArchive:
        units = UnitMover(self._movers, self._trash, self._census)
        return UnitArchive(self.state, self._options.archive, self._clock, units, self._mirror)

    def close(self) -> None:
        """Close the index, if it was opened. It opens again when somebody asks for it."""
        self._mirror.close()

    # --- Checkpoints that Holdfast takes for this agent -------------------------------------------

    @cached_property
    def _bounds(self) -> CheckpointBounds:
        return CheckpointBounds(
            self.state, self._trash, self.log.read, self._options.checkpoint_bytes
        )

    def has_checkpoints(self) -> bool:
        return (self.state / FOLDER).is_dir()

    def checkpoint_store(self, how: Capturing | None = None) -> CheckpointStore | None:
        if not self.has_checkpoints():
            return None
        return checkpoint_store(self.state, how or Capturing(), home=self.root)

    @property
    def checkpoint_upkeep(self) -> CheckpointUpkeep:
        return self._bounds.upkeep

    own_checkpoint_upkeep = checkpoint_upkeep


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
            why = f"{outside} lies outside the home" if outside else None
            why = why or self._signs.protect(unit) or self._recent(unit, now)
            if why:
                found[unit.id] = why
        return found

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

    def _recent(self, unit: Unit, now: float) -> str | None:
        """A session is idle by what its agent recorded and by the times of its files."""
        trees = (p.path for p in unit.parts if isinstance(p, FilePart | FolderPart))
        try:
            latest = max((unit.active, *map(newest_change, trees)))
        except OSError as error:
            return f"its files cannot be looked at ({error.strerror})"
        age = now - latest
        if age < 0:
            return "its time lies in the future"
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
    """Where a part really lies. Of a link it is the link that leaves, not what it leads to."""
    if isinstance(part, LinePart):
        return os.path.realpath(part.place)
    return os.path.join(os.path.realpath(part.place.parent), part.place.name)  # noqa: PTH118


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)

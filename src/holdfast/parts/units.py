"""Sessions of several parts: they leave whole and come back whole.

Order: what the unit is made of is written down, then all parts of a batch are copied, then they
are dropped by role, references first. So whatever is gone has a copy, and whatever was cut short
can be finished or rolled back from the record alone. Parts return in the reverse order: no
reference comes back before the data that it leads to.

    trash/<operation>/units-<first number>/record.json     ids, parts and stamps of a batch
                                          <number>.<part>  a file or a folder
                                          rows-….db, lines-….json
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.errors import DamageError, HoldfastError
from holdfast.model.json_value import Reader
from holdfast.model.operation import Removal
from holdfast.model.part import (
    Part,
    Role,
    Sight,
    Slot,
    Unit,
    part_from_json,
    part_to_json,
    version_of_parts,
)
from holdfast.model.plan import PlanItem
from holdfast.model.report import Moved, Presence, damaged, failed, stayed, unseen
from holdfast.parts.trees import remove_tree
from holdfast.ports import PartMover
from holdfast.spine.outcomes import (
    ALREADY_GONE,
    CHANGED,
    COPY_MISSING,
    NOT_REACHED,
    REPLACED,
    copy_changed,
)
from holdfast.stores import files
from holdfast.stores.files import make_private_dir
from holdfast.stores.trash_folder import TrashFolder
from holdfast.value import dataclass, replace

RECORD = "record.json"
_FOLDER = "units-"
_FORMAT = 1
_NOT_SEEN = "a part of it cannot be looked into"

Movers = Mapping[type, PartMover]


class Census(Protocol):
    """What a mover of units asks a home: which units there are, and which of them are alive."""

    def find(self, items: Sequence[PlanItem]) -> Mapping[str, Unit]:
        """Units that are there now, by the ids of their items."""

    def obstacles(self, units: Iterable[Unit]) -> Mapping[str, str]:
        """Why units must stay as things are now, by id: alive, or not confined to the home."""

    def outside(self, unit: Unit) -> str | None:
        """A part that lies where nothing of this home can be: a record may have been edited, and a
        database may hold an absolute path of another home."""

    def keeps(self, part: Part) -> bool:
        """Whether a running agent would write a shared entry again. As of the last `obstacles`."""


class UnitMover:
    """A mover of whole items: units of a format. `movers` move their parts."""

    def __init__(self, movers: Movers, trash: TrashFolder, census: Census) -> None:
        self._movers = movers
        self._trash = trash
        self._census = census
        self._seen: dict[str, _Record] = {}

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing has to be ready."""

    # --- Looking ----------------------------------------------------------------------------------

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        recorded = self._recorded(batch)
        fresh = [each for each in batch if each.key not in recorded]
        seen = self._look_fresh(fresh) if fresh else {}
        if recorded:
            seen |= self._look_recorded(batch, recorded)
        return [seen[each.key] for each in batch]

    def _look_fresh(self, batch: Sequence[Removal]) -> dict[str, Presence]:
        """Units that no record knows: nothing of them was touched by this operation."""
        units = self._census.find([each.item for each in batch])
        obstacles = self._census.obstacles(units.values())
        folder = self._folder(batch)
        records = {
            each.key: _Record.of(each.number, units[each.item.id], folder)
            for each in batch
            if each.item.id in units
        }
        sights = self._sights(slot for record in records.values() for slot in record.slots)
        found = {each.key: Presence(here=False) for each in batch}
        for each in batch:
            if each.key in records:
                seen = _needed(records[each.key], sights[each.number])
                record = records[each.key].stamped(sights[each.number])
                self._seen[each.key] = record
                obstacle = obstacles.get(record.unit.id, "")
                found[each.key] = _fresh(each, record, seen, obstacle)
        return found

    def _look_recorded(
        self, batch: Sequence[Removal], recorded: Mapping[str, _Batch]
    ) -> dict[str, Presence]:
        records = {
            each.key: recorded[each.key].records[each.number]
            for each in batch
            if each.key in recorded
        }
        sights = self._sights(slot for record in records.values() for slot in record.slots)
        dropping = [record for key, record in records.items() if recorded[key].dropping]
        obstacles = self._census.obstacles(record.unit for record in dropping) if dropping else {}
        found = {}
        for each in batch:
            if each.key in records:
                record, seen = records[each.key], _needed(records[each.key], sights[each.number])
                if recorded[each.key].dropping:
                    found[each.key] = _interrupted(seen, obstacles.get(record.unit.id, ""))
                elif recorded[each.key].copying:
                    # Nothing was dropped: whatever the unit looks like, it is as its agent left it.
                    found[each.key] = Presence(here=True, copied=True)
                else:
                    found[each.key] = _gone(each, seen)
        return found

    # --- Out --------------------------------------------------------------------------------------

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        going = [each for each in batch if each.key in self._seen]
        records = {each.number: self._seen.pop(each.key) for each in going}
        if going:
            folder = self._folder(going)
            records = {number: each.moved_to(folder) for number, each in records.items()}
            _Batch(folder=folder, records=records, state=_COPYING).write()
        why: dict[int, str] = {}
        every = [slot for each in records.values() for slot in each.slots]
        for mover, slots in by_container(self._movers, every):
            wanted = [slot for slot in slots if slot.number not in why]
            try:
                if wanted:
                    mover.copy(wanted)
            except (HoldfastError, OSError) as error:
                why |= {
                    slot.number: _words(error)
                    for slot in wanted
                    if slot.part.role is not Role.TRACE
                }
        refused = [each for each in going if each.number in why]
        if refused:
            self.discard(refused)
        known = {each.key for each in going}
        return [
            failed(why[each.number])
            if each.number in why
            else Moved(copied=True)
            if each.key in known
            else stayed(ALREADY_GONE)
            for each in batch
        ]

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        recorded = self._recorded(batch)
        for one in _once(recorded):
            one.enter(_DROPPING)
        records = {
            each.number: recorded[each.key].records[each.number]
            for each in batch
            if each.key in recorded
        }
        run = _Dropping(self._movers, self._census, records)
        run.run()
        self._forget(
            [e for e in batch if e.number in run.why and e.number not in run.stuck], recorded
        )
        for one in _once(recorded):
            one.enter(_DROPPED)
        return [_dropped(each, run) for each in batch]

    # --- Back -------------------------------------------------------------------------------------

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        recorded = self._recorded(batch)
        records = {
            each.number: recorded[each.key].records[each.number]
            for each in batch
            if each.key in recorded
        }
        why = {n: out for n, each in records.items() if (out := self._census.outside(each.unit))}
        slots = [s for n, each in records.items() if n not in why for s in each.slots]
        why |= _put_back(self._movers, slots)
        return [
            damaged(COPY_MISSING)
            if each.number not in records
            else failed(why[each.number])
            if each.number in why
            else Moved(copied=True)
            for each in batch
        ]

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        moved: dict[str, Moved] = {}
        for operation in dict.fromkeys(each.operation for each in batch):
            group = [each for each in batch if each.operation == operation]
            moved |= self._forget(group, self._recorded(group))
            self._trash.drop_if_empty(operation)
        return [moved[each.key] for each in batch]

    def _forget(
        self, batch: Sequence[Removal], recorded: Mapping[str, _Batch]
    ) -> Mapping[str, Moved]:
        """Discard the copies of units of one operation, and then the record of them."""
        freed: dict[int, int] = defaultdict(int)
        known = [each for each in batch if each.key in recorded]
        slots = [s for each in known for s in recorded[each.key].records[each.number].slots]
        for mover, group in by_container(self._movers, slots):
            sights = mover.look(group)
            whole = sum(each.copy_bytes for each in sights)
            given_back = mover.discard(group)
            for slot, sight in zip(group, sights, strict=True):
                freed[slot.number] += given_back * sight.copy_bytes // whole if whole else 0
        for one in _once(recorded):
            one.without(each.number for each in known)
        return {
            each.key: Moved(copied=each.key in recorded, bytes=freed[each.number]) for each in batch
        }

    # --- Together ---------------------------------------------------------------------------------

    def folder(self, removal: Removal) -> Path:
        """Where the copies of a unit lie that is a batch by itself."""
        return self._folder([removal])

    def without_copy(self, batch: Sequence[Removal]) -> Sequence[Removal]:
        """Those that no record in the trash knows. Changes nothing."""
        known: set[tuple[str, int]] = set()
        for operation in {each.operation for each in batch}:
            for folder in self._trash.folder(operation).glob(f"{_FOLDER}*"):
                record = _Batch.read(folder)
                known.update((operation, number) for number in (record.records if record else ()))
        return [each for each in batch if (each.operation, each.number) not in known]

    def forget_empty(self, removal: Removal) -> None:
        self._trash.drop_if_empty(removal.operation)

    def _folder(self, batch: Sequence[Removal]) -> Path:
        return self._trash.folder(batch[0].operation) / f"{_FOLDER}{batch[0].number}"

    def _recorded(self, batch: Sequence[Removal]) -> Mapping[str, _Batch]:
        """What is written down of these removals, by their keys."""
        found: dict[str, _Batch] = {}
        for operation in {each.operation for each in batch}:
            by_number = {each.number: each.key for each in batch if each.operation == operation}
            for folder in sorted(self._trash.folder(operation).glob(f"{_FOLDER}*")):
                record = _Batch.read(folder)
                if record is None:
                    remove_tree(folder)  # killed before it wrote its record, or while it cleared up
                else:
                    found |= {by_number[n]: record for n in record.records if n in by_number}
        return found

    def _sights(self, slots: Iterable[Slot]) -> Mapping[int, Mapping[int, Sight]]:
        """What movers see, by unit and by part."""
        found: dict[int, dict[int, Sight]] = defaultdict(dict)
        for mover, group in by_container(self._movers, slots):
            for slot, sight in zip(group, mover.look(group), strict=True):
                found[slot.number][slot.index] = sight
        return found


def _once(recorded: Mapping[str, _Batch]) -> Iterable[_Batch]:
    return {one.folder: one for one in recorded.values()}.values()


def by_container(movers: Movers, slots: Iterable[Slot]) -> list[tuple[PartMover, list[Slot]]]:
    """By role, then by container: one transaction or one rewrite for a whole batch."""
    found: dict[tuple[int, str, str], list[Slot]] = defaultdict(list)
    for slot in slots:
        mover = movers[type(slot.part)]
        found[slot.part.role, type(mover).__name__, slot.part.container].append(slot)
    return [(movers[type(found[key][0].part)], found[key]) for key in sorted(found)]


def _put_back(movers: Movers, slots: Sequence[Slot]) -> Mapping[int, str]:
    """Put parts back, data before references; why a unit could not come back, by number."""
    stuck: dict[int, str] = {}
    for mover, group in reversed(by_container(movers, slots)):
        wanted = [slot for slot in group if slot.number not in stuck]
        if not wanted:
            continue
        for slot, why in zip(wanted, _tried(mover.put_back, wanted), strict=True):
            if why is None or slot.part.role is Role.TRACE or _never_left(mover, slot):
                continue
            stuck[slot.number] = why
    return stuck


def _never_left(mover: PartMover, slot: Slot) -> bool:
    """Whether a part that cannot be written now, such as a locked database, needs no writing. It
    may not keep the other parts of its unit from coming back."""
    [sight] = mover.look([slot])
    return sight.here is True and sight.stamp == slot.stamp


def _tried(
    act: Callable[[Sequence[Slot]], Sequence[str | None]], group: Sequence[Slot]
) -> Sequence[str | None]:
    try:
        return act(group)
    except (HoldfastError, OSError) as error:
        return [_words(error)] * len(group)


def _words(error: HoldfastError | OSError) -> str:
    return error.message if isinstance(error, HoldfastError) else str(error.strerror or error)


class _Dropping:
    """Drops the parts of some units, container by container, and rolls back units that stay.

    `why` says which stay, `stuck` which of them could not be rolled back whole.
    """

    def __init__(self, movers: Movers, census: Census, records: Mapping[int, _Record]) -> None:
        self._movers = movers
        self._census = census
        self.records = records
        self.why: dict[int, str] = {}
        self.stuck: Mapping[int, str] = {}
        self.bytes: dict[int, int] = defaultdict(int)
        self._tried: list[Slot] = []

    def run(self) -> None:
        groups = by_container(
            self._movers, (s for each in self.records.values() for s in each.slots)
        )
        for mover, group in groups:
            self._check_life()
            self._drop(mover, [slot for slot in group if slot.number not in self.why])
        # Also what failed half-way: to put back what never left does nothing.
        back = [slot for slot in self._tried if slot.number in self.why]
        stuck = _put_back(self._movers, back)
        self.stuck = {number: f"{self.why[number]}; {why}" for number, why in stuck.items()}
        for mover, group in groups:
            for slot, sight in zip(group, mover.look(group), strict=True):
                self.bytes[slot.number] += sight.copy_bytes

    def _check_life(self) -> None:
        """Asked before each container: somebody may have opened a session since."""
        going = {n: each.unit for n, each in self.records.items() if n not in self.why}
        obstacles = self._census.obstacles(going.values())
        self.why |= {n: obstacles[each.id] for n, each in going.items() if each.id in obstacles}

    def _drop(self, mover: PartMover, group: Sequence[Slot]) -> None:
        leaving = [slot for slot in group if not self._census.keeps(slot.part)]
        if not leaving:
            return
        self._tried += leaving
        for slot, why in zip(leaving, _tried(mover.drop, leaving), strict=True):
            if why is not None and slot.part.role is not Role.TRACE:
                self.why.setdefault(slot.number, why)


def _dropped(removal: Removal, run: _Dropping) -> Moved:
    number = removal.number
    if number not in run.records:
        return failed(COPY_MISSING)
    if number in run.stuck:
        return failed(run.stuck[number])
    if number in run.why:
        return stayed(run.why[number])
    return Moved(copied=True, bytes=run.bytes[number])


# --- What the sights of parts mean for their unit -------------------------------------------------


def _needed(record: _Record, sights: Mapping[int, Sight]) -> list[tuple[Slot, Sight]]:
    """Parts that count: a trace may be missing or changed."""
    return [(slot, sights[slot.index]) for slot in record.slots if slot.part.role is not Role.TRACE]


def _fresh(
    removal: Removal, record: _Record, seen: Sequence[tuple[Slot, Sight]], obstacle: str
) -> Presence:
    """A unit of which this operation has touched nothing."""
    if any(sight.here is None for _, sight in seen):
        return unseen(_NOT_SEEN)
    if not any(sight.here for _, sight in seen):
        return Presence(here=False)
    changed = record.version != removal.item.version
    return Presence(here=True, changed=changed, obstacle=obstacle)


def _interrupted(seen: Sequence[tuple[Slot, Sight]], obstacle: str) -> Presence:
    """A run was killed while it dropped the parts of this unit."""
    if any(sight.here is None for _, sight in seen):
        return unseen(_NOT_SEEN)
    if any(sight.here and sight.copied and sight.stamp != slot.stamp for slot, sight in seen):
        # The agent made a new one meanwhile: neither side may be overwritten.
        return unseen(REPLACED)
    here = [(slot, sight) for slot, sight in seen if sight.here]
    if len(here) == len(seen):
        obstacle = obstacle or NOT_REACHED
    elif any(sight.stamp != slot.stamp for slot, sight in here) or any(
        sight.spoiled for _, sight in seen
    ):
        obstacle = obstacle or CHANGED
    return Presence(here=bool(here), copied=True, partly=True, obstacle=obstacle)


def _gone(removal: Removal, seen: Sequence[tuple[Slot, Sight]]) -> Presence:
    """All parts of this unit were dropped."""
    if any(sight.here is None for _, sight in seen):
        return unseen(_NOT_SEEN)
    size = sum(sight.copy_bytes for _, sight in seen)
    here = [(slot, sight) for slot, sight in seen if sight.here]
    if any(sight.stamp != slot.stamp for slot, sight in here):
        return Presence(here=True, copied=True, changed=True, bytes=size)
    spoiled = next((slot for slot, sight in seen if sight.spoiled), None)
    missing = any(not sight.here and not sight.copied for _, sight in seen)
    damage = ""
    if spoiled is not None:
        damage = copy_changed(spoiled.copy)
    elif missing and removal.item.undoable:
        damage = COPY_MISSING
    is_back = len(here) == len(seen)
    return Presence(
        here=bool(here),
        copied=True,
        partly=bool(here) and not is_back,
        damage=damage,
        bytes=size,
    )


# --- What is written down -------------------------------------------------------------------------

_COPYING, _DROPPING, _DROPPED = "copying", "dropping", "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """One unit of one operation."""

    number: int
    unit: Unit
    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, number: int, unit: Unit, folder: Path) -> _Record:
        slots = tuple(
            Slot(number=number, index=index, part=part, stamp="", folder=folder)
            for index, part in enumerate(unit.parts)
        )
        return cls(number=number, unit=unit, slots=slots)

    def stamped(self, sights: Mapping[int, Sight]) -> _Record:
        """With the stamps of the parts that are there; the others are no parts of it now."""
        slots = tuple(
            replace(slot, stamp=sights[slot.index].stamp)
            for slot in self.slots
            if sights[slot.index].here is not False
        )
        return replace(self, slots=slots)

    def moved_to(self, folder: Path) -> _Record:
        return replace(self, slots=tuple(replace(slot, folder=folder) for slot in self.slots))

    @property
    def version(self) -> str:
        parts = tuple(slot.part for slot in self.slots)
        return version_of_parts(parts, tuple(slot.stamp for slot in self.slots))

    def to_json(self) -> dict[str, object]:
        return {
            "number": self.number,
            "id": self.unit.id,
            "cwd": self.unit.cwd,
            "active": self.unit.active,
            "parts": [
                {"index": slot.index, "stamp": slot.stamp, "part": part_to_json(slot.part)}
                for slot in self.slots
            ],
        }

    @classmethod
    def from_json(cls, value: object, folder: Path) -> _Record:
        read = Reader(value, "unit in the trash", DamageError)
        number = read.whole("number")
        slots = []
        for each in read.array("parts"):
            part = Reader(each, "part in the trash", DamageError)
            slots.append(
                Slot(
                    number=number,
                    index=part.whole("index"),
                    part=part_from_json(part.value("part")),
                    stamp=part.text("stamp"),
                    folder=folder,
                )
            )
        unit = Unit(
            id=read.text("id"),
            cwd=read.text("cwd"),
            active=read.number("active"),
            parts=tuple(slot.part for slot in slots),
        )
        return cls(number=number, unit=unit, slots=tuple(slots))


class _Batch:
    """The record of the units that one batch of an operation removes, on the disk."""

    def __init__(self, *, folder: Path, records: Mapping[int, _Record], state: str) -> None:
        self.folder = folder
        self.records = dict(records)
        self._state = state

    @property
    def copying(self) -> bool:
        return self._state == _COPYING

    @property
    def dropping(self) -> bool:
        return self._state == _DROPPING

    @classmethod
    def read(cls, folder: Path) -> _Batch | None:
        path = folder / RECORD
        try:
            read = Reader(json.loads(files.read_file(path)), "record", DamageError)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise DamageError(f"{path} is damaged: {error}") from None
        if read.whole("format") != _FORMAT:
            raise DamageError(f"{path} has a format that this version does not know.")
        records = (_Record.from_json(each, folder) for each in read.array("units"))
        by_number = {each.number: each for each in records}
        return cls(folder=folder, records=by_number, state=read.text("state"))

    def write(self) -> None:
        make_private_dir(self.folder)
        said = {
            "format": _FORMAT,
            "state": self._state,
            "units": [each.to_json() for each in self.records.values()],
        }
        files.replace(self.folder / RECORD, json.dumps(said).encode("ascii"))

    def enter(self, state: str) -> None:
        if self._state != state and self.records:
            self._state = state
            self.write()

    def without(self, numbers: Iterable[int]) -> None:
        """Forget units. The folder goes with the last one."""
        for number in numbers:
            self.records.pop(number, None)
        if self.records:
            self.write()
            return
        # The record first: without one, the rest is what a killed run left, and goes as well.
        (self.folder / RECORD).unlink(missing_ok=True)
        remove_tree(self.folder)

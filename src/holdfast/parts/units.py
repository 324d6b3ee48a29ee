"""Sessions of several parts: they leave whole and come back whole.

Order: the record of a batch is written, then all its parts are copied, then they are dropped by
role, references first. So everything that is gone has a copy, and an interrupted removal can be
finished or rolled back from the record alone. Parts return in the reverse order: no reference comes
back before the data that it points to.

    trash/<operation>/units-<first number>/record.json     ids, parts and stamps of a batch
                                          <number>.<part>  a file or a folder
                                          rows-….db, lines-….json
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from holdfast.errors import BusyError, DamageError, HoldfastError
from holdfast.model.operation import Removal
from holdfast.model.part import FilePart, FolderPart, Part, Role, RowsPart, Sight, Slot, Unit
from holdfast.model.plan import PlanItem
from holdfast.model.report import Moved, Presence, damaged, failed, stayed, unseen
from holdfast.parts.trees import tree_bytes
from holdfast.parts.unit_record import RECORD, BatchRecord, State, UnitRecord, clear, is_left_over
from holdfast.ports.formats import PartMover
from holdfast.spine.keeper import in_a_word
from holdfast.spine.outcomes import (
    ALREADY_GONE,
    CHANGED,
    COPY_MISSING,
    NOT_REACHED,
    REPLACED,
    copy_changed,
)
from holdfast.stores.files import next_step
from holdfast.stores.trash_paths import TrashFolder

#: Suffix of a version: the unit was pinned when the plan was made.
PINNED = "+pinned"
_FOLDER = "units-"
_NOT_SEEN = "a part of it cannot be read"

#: Only for emptying the trash: for an undo, these files may be the only copies.
_IF_EMPTIED = " Without one, delete that folder if nobody needs them."

Movers = Mapping[type, PartMover]
#: The parts that count, with their current state.
_Seen = Sequence[tuple[Slot, Sight]]


class Census(Protocol):
    """What a unit mover needs from a home: which units exist, and which of them are alive."""

    def find(self, items: Sequence[PlanItem]) -> Mapping[str, Unit]:
        """Return the units that exist now, by the ids of their items."""

    def obstacles(self, units: Iterable[Unit]) -> Mapping[str, str]:
        """Return why units must stay for now, by id: alive, or not confined to the home."""

    def outside(self, unit: Unit) -> str | None:
        """Return the path of a part that cannot belong to this home: a record may have been edited,
        and a database may contain an absolute path of another home."""

    def misplaced(self, unit: Unit) -> str | None:
        """Return the path of a part that is in this home, but where its agent keeps nothing of such
        a session: an edited record could plant a settings file, which names programs to run."""

    def keeps(self, part: Part) -> str | None:
        """Return why a shared entry stays: a running agent would write it again. As of the last
        `obstacles` call."""


class UnitMover:
    """A mover of whole items: units of a format. `movers` move their parts."""

    def __init__(
        self,
        movers: Movers,
        trash: TrashFolder,
        census: Census,
        left: Callable[[Sequence[UnitRecord]], None] = lambda _: None,
    ) -> None:
        """`left` is called with the units that have left, while their copies still exist."""
        self._movers = movers
        self._left = left
        self._trash = trash
        self._census = census
        self._seen: dict[str, UnitRecord] = {}

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Nothing to prepare."""

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        recorded = self._recorded(batch)
        records = {key: one.records[number] for key, (number, one) in recorded.items()}
        states = {key: one.state for key, (_, one) in recorded.items()}
        unreadable = self._unreadable(batch, recorded)
        # Units without a record: this operation has not touched them.
        fresh = [e for e in batch if e.key not in recorded and e.key not in unreadable]
        units = self._census.find([each.item for each in fresh]) if fresh else {}
        for each in fresh:
            if each.item.id in units:
                folder = self._folder(fresh)
                records[each.key] = UnitRecord.of(each.number, units[each.item.id], folder)
        judged = [
            record.unit
            for key, record in records.items()
            if key not in states or states[key] is State.DROPPING
        ]
        obstacles = self._census.obstacles(judged) if judged or fresh else {}
        sights = self._sights(records)
        found = []
        for each in batch:
            record = records.get(each.key)
            if record is None:
                why = unreadable.get(each.key)
                found.append(Presence(here=False) if why is None else unseen(why))
                continue
            seen = _needed(record, sights[each.key])
            if each.key not in states:
                record = self._seen[each.key] = record.stamped(sights[each.key])
            obstacle = obstacles.get(record.unit.id, "")
            found.append(_presence(each, record, states.get(each.key), seen, obstacle))
        return found

    # --- Out --------------------------------------------------------------------------------------

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        going = [each for each in batch if each.key in self._seen]
        with self._all_or_nothing(going):
            return self._copied(batch, going)

    def _copied(self, batch: Sequence[Removal], going: Sequence[Removal]) -> Sequence[Moved]:
        records = {each.number: self._seen.pop(each.key) for each in going}
        if going:
            folder = self._folder(going)
            records = {number: each.moved_to(folder) for number, each in records.items()}
            BatchRecord(folder=folder, records=records, state=State.COPYING).write()
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
        begun = {one.folder for one in _batches(recorded) if one.state is not State.COPYING}
        whole = [e for e in batch if e.key in recorded and recorded[e.key][1].folder not in begun]
        with self._all_or_nothing(whole):
            for one in _batches(recorded):
                one.enter(State.DROPPING)
        run = _Dropping(self._movers, self._census, _records(recorded))
        run.run(self._left)
        self._forget(
            [e for e in batch if e.number in run.why and e.number not in run.stuck], recorded
        )
        for one in _batches(recorded):
            one.enter(State.DROPPED)
        return [_dropped(each, run) for each in batch]

    @contextlib.contextmanager
    def _all_or_nothing(self, batch: Sequence[Removal]) -> Iterator[None]:
        """For units that are still whole in the home. If the record cannot be written, as on a full
        disk, they stay and their copies are discarded: without a record they would be lost."""
        try:
            yield
        except (HoldfastError, OSError):
            with contextlib.suppress(HoldfastError, OSError):
                self.discard(batch)
            raise

    # --- Back -------------------------------------------------------------------------------------

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        records = _records(self._recorded(batch))
        why = {n: out for n, each in records.items() if (out := self._refused(each.unit))}
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

    def _refused(self, unit: Unit) -> str | None:
        """Return why a unit may not come back: the record names a place that is not its own."""
        if place := self._census.outside(unit):
            return f"{place} is outside the home"
        place = self._census.misplaced(unit)
        return None if place is None else not_a_place(place)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        moved: dict[str, Moved] = {}
        for operation in dict.fromkeys(each.operation for each in batch):
            group = [each for each in batch if each.operation == operation]
            recorded = self._recorded(group)
            moved |= self._forget(group, recorded)
            unreadable = self._unreadable(group, recorded, way_out=_IF_EMPTIED)
            moved |= {key: failed(why) for key, why in unreadable.items()}
            self._trash.drop_if_empty(operation)
        return [moved[each.key] for each in batch]

    def _forget(self, batch: Sequence[Removal], recorded: _Recorded) -> Mapping[str, Moved]:
        """Discard the copies of units of one operation, then their record. What rows free is capped
        at the unit's size without its files: a copy of rows takes more space than the rows."""
        freed: dict[int, int] = defaultdict(int)
        of_rows: dict[int, int] = defaultdict(int)
        lasting = {each.number for each in batch if each.item.undoable}
        known = [each for each in batch if each.key in recorded]
        records = _records(recorded)
        slots = [slot for each in known for slot in records[each.number].slots]
        for mover, group in by_container(self._movers, slots):
            sights = mover.look(group)
            whole = sum(each.copy_bytes for each in sights)
            given_back = mover.discard(group)
            for slot, sight in zip(group, sights, strict=True):
                share = given_back * sight.copy_bytes // whole if whole else 0
                if slot.number in lasting or _is_tree(slot.part):
                    freed[slot.number] += share
                elif isinstance(slot.part, RowsPart):
                    of_rows[slot.number] += share
        for one in _batches(recorded):
            one.without(each.number for each in known)
        return {
            each.key: Moved(
                copied=each.key in recorded,
                bytes=freed[each.number],
                of_rows=min(of_rows[each.number], max(0, each.item.bytes - freed[each.number])),
            )
            for each in batch
        }

    # --- Together ---------------------------------------------------------------------------------

    def folder(self, removal: Removal) -> Path:
        """The folder with the copies of a unit that is a batch of its own."""
        return self._folder([removal])

    def file_bytes(self, removal: Removal) -> int:
        """Return the bytes of the files that have left with a unit. Rows and lines are not counted:
        they leave a gap in their file, which frees nothing by itself."""
        record = BatchRecord.read(self.folder(removal))
        slots = () if record is None else record.records[removal.number].slots
        return sum(tree_bytes(slot.copy) for slot in slots if _is_tree(slot.part))

    def outside(self, removal: Removal) -> tuple[Unit, str] | None:
        """For a unit in the trash that is a batch of its own: return the unit and a part that does
        not belong in this home; None if all parts do."""
        record = BatchRecord.read(self.folder(removal))
        for each in () if record is None else record.records.values():
            if place := self._census.outside(each.unit):
                return each.unit, place
        return None

    def misplaced(self, removal: Removal) -> str | None:
        """For a unit in the trash that is a batch of its own: return the part that is no place of
        such a session; None if there is none."""
        record = BatchRecord.read(self.folder(removal))
        units = () if record is None else [each.unit for each in record.records.values()]
        return next((place for each in units if (place := self._census.misplaced(each))), None)

    def without_copy(self, batch: Sequence[Removal]) -> Sequence[Removal]:
        """Return the removals without a record in the trash, or whose copy is missing or was
        changed. Changes nothing."""
        whole: set[tuple[str, int]] = set()
        for operation in {each.operation for each in batch}:
            for folder in self._trash.folder(operation).glob(f"{_FOLDER}*"):
                with contextlib.suppress(DamageError):
                    whole.update((operation, number) for number in self._whole(folder))
        return [each for each in batch if (each.operation, each.number) not in whole]

    def _whole(self, folder: Path) -> Iterator[int]:
        record = BatchRecord.read(folder)
        if record is None:
            return
        sights = self._sights({str(number): each for number, each in record.records.items()})
        for number, each in record.records.items():
            if all(
                sight.here is None or ((sight.here or sight.copied) and not sight.spoiled)
                for _, sight in _needed(each, sights[str(number)])
            ):
                yield number

    def forget_empty(self, removal: Removal) -> None:
        self._trash.drop_if_empty(removal.operation)

    def _folder(self, batch: Sequence[Removal]) -> Path:
        return self._trash.folder(batch[0].operation) / f"{_FOLDER}{batch[0].number}"

    def _recorded(self, batch: Sequence[Removal]) -> _Recorded:
        found: dict[str, tuple[int, BatchRecord]] = {}
        for operation in {each.operation for each in batch}:
            by_number = {each.number: each.key for each in batch if each.operation == operation}
            for record in self._records_of(operation, by_number):
                found |= {by_number[n]: (n, record) for n in record.records if n in by_number}
        return found

    def _records_of(self, operation: str, numbers: Collection[int]) -> Iterator[BatchRecord]:
        """Yield the records that contain these units. A batch is named after its first unit, so
        most are found by name; all records are read only if some are missing."""
        trash = self._trash.folder(operation)
        missing, read = set(numbers), set()
        for number in sorted(missing):
            folder = trash / f"{_FOLDER}{number}"
            record = _read(folder) if number in missing else None
            if record is not None:
                missing -= record.records.keys()
                read.add(folder)
                yield record
        if not missing:
            return
        for folder in sorted({*trash.glob(f"{_FOLDER}*")} - read):
            record = _read(folder)
            if record is not None:
                yield record
            elif not (folder / RECORD).exists() and is_left_over(folder):
                clear(folder)

    def _unreadable(
        self, batch: Sequence[Removal], recorded: _Recorded, *, way_out: str = ""
    ) -> Mapping[str, str]:
        """Return, by key, why some units are unknown: the record of the folder that would have
        their copies is unreadable. A folder is named after its first unit."""
        unknown = [each for each in batch if each.key not in recorded]
        found: dict[str, str] = {}
        damage = cache(_damage)
        for operation in {each.operation for each in unknown}:
            folders = sorted(_numbered(self._trash.folder(operation)))
            for each in unknown:
                place = bisect_right(folders, each.number, key=lambda one: one[0])
                folder = folders[place - 1][1] if place else None
                if each.operation == operation and folder and (why := damage(folder)):
                    found[each.key] = (
                        f"{why}. The files are still in {folder}; copy the record from a backup of "
                        f"the home.{way_out}"
                    )
        return found

    def _sights(self, records: Mapping[str, UnitRecord]) -> Mapping[str, Mapping[int, Sight]]:
        """Return what movers see of each unit, by key and part index."""
        found: dict[str, dict[int, Sight]] = {key: {} for key in records}
        keys = {id(slot): key for key, record in records.items() for slot in record.slots}
        slots = [slot for record in records.values() for slot in record.slots]
        for mover, group in by_container(self._movers, slots):
            for slot, sight in zip(group, mover.look(group), strict=True):
                found[keys[id(slot)]][slot.index] = sight
        return found


def not_a_place(path: str) -> str:
    return f"{path} is not where this agent keeps files of a session"


def _numbered(trash: Path) -> Iterator[tuple[int, Path]]:
    for folder in trash.glob(f"{_FOLDER}*"):
        number = folder.name.removeprefix(_FOLDER)
        if number.isdecimal():
            yield int(number), folder


def _read(folder: Path) -> BatchRecord | None:
    """Return the record of a batch, or None if it is damaged: other batches are still usable."""
    with contextlib.suppress(DamageError):
        return BatchRecord.read(folder)
    return None


def _damage(folder: Path) -> str:
    """Return what is wrong with the record of a folder; "" if it is fine."""
    try:
        if BatchRecord.read(folder) is not None:
            return ""
    except DamageError as error:
        return in_a_word(error)
    return f"{folder / RECORD} is missing"


def _is_tree(part: Part) -> bool:
    """True if discarding the copy of a part frees file system space."""
    return isinstance(part, FilePart | FolderPart)


#: Recorded removals: by key, the unit's number and the record of its batch.
_Recorded = Mapping[str, tuple[int, BatchRecord]]


def _records(recorded: _Recorded) -> Mapping[int, UnitRecord]:
    """Return the records of units, by number."""
    return {number: one.records[number] for number, one in recorded.values()}


def _batches(recorded: _Recorded) -> Iterable[BatchRecord]:
    return {one.folder: one for _, one in recorded.values()}.values()


def by_container(movers: Movers, slots: Iterable[Slot]) -> list[tuple[PartMover, list[Slot]]]:
    """Group slots by role, then by container: one transaction or one rewrite for a whole batch. All
    copies of a group are in one folder."""
    found: dict[tuple[int, str, str, Path], list[Slot]] = defaultdict(list)
    for slot in slots:
        mover = movers[type(slot.part)]
        key = slot.part.role, type(mover).__name__, slot.part.container, slot.folder
        found[key].append(slot)
    return [(movers[type(found[key][0].part)], found[key]) for key in sorted(found)]


def _put_back(movers: Movers, slots: Sequence[Slot]) -> Mapping[int, str]:
    """Put parts back, data before references. Returns why units could not come back, by number."""
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
    """True if a part that cannot be written now (a locked database) is still in place unchanged. It
    must not keep the other parts of its unit from being restored."""
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
    if isinstance(error, HoldfastError):
        return in_a_word(error)
    way_out = next_step(error)
    return in_a_word(error) + (f". {way_out}" if way_out else "")


class _Dropping:
    """Drops the parts of some units, container by container, and rolls back units that stay.

    `why` maps units that stay to the reason, `stuck` those that could not be fully rolled back.
    """

    def __init__(self, movers: Movers, census: Census, records: Mapping[int, UnitRecord]) -> None:
        self._movers = movers
        self._census = census
        self.records = records
        self.why: dict[int, str] = {}
        self.stuck: Mapping[int, str] = {}
        #: Units that stay because the system refused. The others are in use, or changed.
        self.broken: set[int] = set()
        self.bytes: dict[int, int] = defaultdict(int)
        self.of_rows: dict[int, int] = defaultdict(int)
        #: Messages about traces that stay behind. These do not hold their unit back.
        self.left: dict[int, list[str]] = defaultdict(list)
        self._tried: list[Slot] = []

    def run(self, left: Callable[[Sequence[UnitRecord]], None]) -> None:
        groups = by_container(
            self._movers, (s for each in self.records.values() for s in each.slots)
        )
        for mover, group in groups:
            self._check_life()
            self._drop(mover, [slot for slot in group if slot.number not in self.why])
        # Includes parts that failed half-way: putting back a part that never left does nothing.
        back = [slot for slot in self._tried if slot.number in self.why]
        stuck = _put_back(self._movers, back)
        self.stuck = {number: f"{self.why[number]}; {why}" for number, why in stuck.items()}
        # While the record still says DROPPING: if this run is killed here, the next one repeats it.
        left([each for number, each in self.records.items() if number not in self.why])
        for mover, group in groups:
            for slot, sight in zip(group, mover.look(group), strict=True):
                self.bytes[slot.number] += sight.copy_bytes
                if isinstance(slot.part, RowsPart):
                    self.of_rows[slot.number] += sight.copy_bytes

    def _check_life(self) -> None:
        """Check before each container: a process may have opened a session since."""
        going = {n: each.unit for n, each in self.records.items() if n not in self.why}
        obstacles = self._census.obstacles(going.values())
        self.why |= {n: obstacles[each.id] for n, each in going.items() if each.id in obstacles}

    def _drop(self, mover: PartMover, group: Sequence[Slot]) -> None:
        kept = {slot.name: self._census.keeps(slot.part) for slot in group}
        leaving = [slot for slot in group if kept[slot.name] is None]
        self._tried += leaving
        try:
            done = mover.drop(leaving) if leaving else ()
        except (HoldfastError, OSError) as error:
            done = [_words(error)] * len(leaving)
            if not isinstance(error, BusyError):
                self.broken |= {s.number for s in leaving if s.part.role is not Role.TRACE}
        why = kept | {slot.name: each for slot, each in zip(leaving, done, strict=True)}
        for slot in group:
            said = why[slot.name]
            if said is None or (said == ALREADY_GONE and slot.part.role is Role.TRACE):
                continue
            if slot.part.role is Role.TRACE or kept[slot.name] is not None:
                self.left[slot.number].append(f"its entry in {slot.part.place.name} stays: {said}")
            else:
                self.why.setdefault(slot.number, said)


def _dropped(removal: Removal, run: _Dropping) -> Moved:
    number = removal.number
    if number not in run.records:
        return failed(COPY_MISSING)
    if number in run.stuck:
        return failed(run.stuck[number])
    if number in run.why:
        return (failed if number in run.broken else stayed)(run.why[number])
    return Moved(
        reason="; ".join(dict.fromkeys(run.left[number])),
        copied=True,
        bytes=run.bytes[number],
        of_rows=run.of_rows[number],
    )


# --- What the sights of parts mean for their unit -------------------------------------------------


def _needed(record: UnitRecord, sights: Mapping[int, Sight]) -> _Seen:
    """Return the parts that count. Traces do not: they may be missing or changed."""
    return [(slot, sights[slot.index]) for slot in record.slots if slot.part.role is not Role.TRACE]


def _presence(
    removal: Removal, record: UnitRecord, state: State | None, seen: _Seen, obstacle: str
) -> Presence:
    """Derive how far the removal of a unit came from its parts. Without a state, this operation has
    not touched the unit."""
    if state is State.COPYING:
        # Nothing was dropped: whatever the unit looks like, that is how its agent left it.
        return Presence(here=True, copied=True)
    if any(sight.here is None for _, sight in seen):
        return unseen(_NOT_SEEN)
    here = [(slot, sight) for slot, sight in seen if sight.here]
    if state is None:
        planned = removal.item.version.removesuffix(PINNED)
        changed = bool(here) and record.version != planned
        return Presence(here=bool(here), changed=changed, obstacle=obstacle if here else "")
    if state is State.DROPPING:
        return _interrupted(seen, here, obstacle)
    return _gone(removal, seen, here)


def _interrupted(seen: _Seen, here: _Seen, obstacle: str) -> Presence:
    """The presence of a unit whose parts were being dropped when the run was killed."""
    if any(sight.copied and sight.stamp != slot.stamp for slot, sight in here):
        # The agent has created a new one since: neither side may be overwritten.
        return unseen(REPLACED)
    if len(here) == len(seen):
        obstacle = obstacle or NOT_REACHED
    elif any(sight.stamp != slot.stamp for slot, sight in here) or any(
        sight.spoiled for _, sight in seen
    ):
        obstacle = obstacle or CHANGED
    return Presence(here=bool(here), copied=True, partly=True, obstacle=obstacle)


def _gone(removal: Removal, seen: _Seen, here: _Seen) -> Presence:
    """The presence of a unit whose parts were all dropped."""
    size = sum(sight.copy_bytes for _, sight in seen)
    if any(sight.stamp != slot.stamp for slot, sight in here):
        return Presence(here=True, copied=True, changed=True, bytes=size)
    spoiled = next((slot for slot, sight in seen if sight.spoiled), None)
    missing = any(not sight.here and not sight.copied for _, sight in seen)
    damage = ""
    if spoiled is not None:
        damage = copy_changed(spoiled.copy)
    elif missing and removal.item.undoable:
        damage = COPY_MISSING
    return Presence(
        here=bool(here),
        copied=True,
        partly=bool(here) and len(here) < len(seen),
        damage=damage,
        bytes=size,
    )

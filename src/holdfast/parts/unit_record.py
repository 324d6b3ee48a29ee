"""The trash's record of the units that an operation removes: their parts, the stamps, and how far
the removal came. Written before anything moves."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.model.json_value import Reader
from holdfast.model.part import Sight, Slot, Unit, part_from_json, part_to_json, version_of_parts
from holdfast.parts.trees import remove_tree
from holdfast.stores import files
from holdfast.value import dataclass, replace

RECORD = "record.json"
#: The name of the record while its folder is being cleared.
_CLEARED = "record.cleared"
_FORMAT = 1


class State(StrEnum):
    """How far the removal of a batch came. In state COPYING nothing has been dropped."""

    COPYING = "copying"
    DROPPING = "dropping"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRecord:
    """One unit of one operation."""

    number: int
    unit: Unit
    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, number: int, unit: Unit, folder: Path) -> UnitRecord:
        slots = tuple(
            Slot(number=number, index=index, part=part, stamp="", folder=folder)
            for index, part in enumerate(unit.parts)
        )
        return cls(number=number, unit=unit, slots=slots)

    def stamped(self, sights: Mapping[int, Sight]) -> UnitRecord:
        """Return a record with the stamps of the parts that exist; other parts are left out."""
        slots = tuple(
            replace(slot, stamp=sights[slot.index].stamp)
            for slot in self.slots
            if sights[slot.index].here is not False
        )
        return replace(self, slots=slots)

    def moved_to(self, folder: Path) -> UnitRecord:
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
    def from_json(cls, value: object, folder: Path) -> UnitRecord:
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


class BatchRecord:
    """The record, on disk, of the units that one batch of an operation removes."""

    def __init__(self, *, folder: Path, records: Mapping[int, UnitRecord], state: State) -> None:
        self.folder = folder
        self.records = dict(records)
        self.state = state

    @classmethod
    def read(cls, folder: Path) -> BatchRecord | None:
        path = folder / RECORD
        try:
            read = Reader(json.loads(files.read_file(path)), "record", DamageError)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise DamageError(f"{path} is damaged: {error}") from None
        if read.whole("format") != _FORMAT:
            raise DamageError(f"{path} has a format that this version does not know.")
        records = (UnitRecord.from_json(each, folder) for each in read.array("units"))
        by_number = {each.number: each for each in records}
        return cls(folder=folder, records=by_number, state=read.choice("state", State))

    def write(self) -> None:
        files.make_private_dir(self.folder)
        files.replace(self.folder / RECORD, self.to_bytes())

    def to_bytes(self) -> bytes:
        said = {
            "format": _FORMAT,
            "state": self.state.value,
            "units": [each.to_json() for each in self.records.values()],
        }
        return json.dumps(said).encode("ascii")

    def enter(self, state: State) -> None:
        if self.state is not state and self.records:
            self.state = state
            self.write()

    def without(self, numbers: Iterable[int]) -> None:
        """Forget units. The folder is removed with the last one."""
        for number in numbers:
            self.records.pop(number, None)
        if self.records:
            self.write()
            return
        clear(self.folder)


def clear(folder: Path) -> None:
    """Remove copies that are no longer needed. The record is renamed first, to mark this, and
    deleted last: copies without a record may be all there is, so they are kept."""
    with contextlib.suppress(FileNotFoundError):
        (folder / RECORD).rename(folder / _CLEARED)
    with contextlib.suppress(FileNotFoundError):
        for each in folder.iterdir():
            if each.name != _CLEARED:
                remove_tree(each)
    remove_tree(folder)


def is_left_over(folder: Path) -> bool:
    """True if a folder without a record was left by a killed run: either it had not written the
    record yet, and nothing comes before that, or it was clearing up."""
    names = [each.name for each in folder.iterdir()]
    return _CLEARED in names or all(name.startswith(f".{RECORD}.") for name in names)

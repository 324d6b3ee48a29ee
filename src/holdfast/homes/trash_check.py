"""Finds files in the trash that no operation record names: undo cannot reach them, and nothing
empties them. A record may have been deleted, truncated or damaged."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.homes.sessions.mover import FOLDER
from holdfast.model.operation import LogView, OperationState
from holdfast.parts.unit_record import BatchRecord
from holdfast.stores.files import allocated_below, allocated_bytes, entries_of
from holdfast.stores.sqlite.bundle import BundleFolder
from holdfast.value import dataclass

#: `12-name` or `12`: the undo copy of one removal. `units-12`: the copies of a batch.
_COPY = re.compile(r"(\d+)(-.*)?", re.ASCII | re.DOTALL)
_UNITS = re.compile(r"units-(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adrift:
    """`recorded`: whether the operation whose folder it is in is in the log."""

    path: Path
    recorded: bool

    @property
    def bytes(self) -> int:
        if self.path.is_dir() and not self.path.is_symlink():
            return allocated_below(self.path)
        return allocated_bytes(self.path.lstat())


def adrift(trash: Path, view: LogView) -> Iterator[Adrift]:
    """Files that no record names, except those of interrupted operations: the next run that writes
    settles them."""
    states = {each.id: each.state for each in view.operations}
    numbers: dict[str, set[int]] = defaultdict(set)
    for entry in view.trash:
        numbers[entry.removal.operation].add(entry.removal.number)
    for folder in sorted(Path(each) for each in entries_of(trash)):
        if not folder.name.isdecimal() or folder.is_symlink():
            continue
        if folder.name not in states:
            if next(entries_of(folder), None) is not None:
                yield Adrift(path=folder, recorded=False)
        elif states[folder.name] is not OperationState.UNFINISHED:
            for path in _unnamed(folder, numbers[folder.name]):
                yield Adrift(path=path, recorded=True)


def _unnamed(folder: Path, numbers: Collection[int]) -> Iterator[Path]:
    for path in sorted(Path(each) for each in entries_of(folder)):
        if path.name == FOLDER:
            held = BundleFolder(path).holding([*numbers])
            yield from (each for each in sorted(path.glob("*.sessions.db")) if each not in held)
        elif _UNITS.fullmatch(path.name):
            if not _recorded(path) & {*numbers}:
                yield path
        elif (match := _COPY.fullmatch(path.name)) and int(match[1]) not in numbers:
            yield path


def _recorded(folder: Path) -> set[int]:
    try:
        record = BatchRecord.read(folder)
    except DamageError:
        return set()
    return set() if record is None else {*record.records}


def missing_records(view: LogView) -> Sequence[str]:
    """Gaps in the operation numbers: each operation takes the next number, and old operations leave
    the log from the start, without gaps."""
    damaged = {Path(each.path).stem for each in view.problems}
    there = [int(each.id) for each in view.operations]
    if not there:
        return ()
    known = {*map(str, there), *damaged}
    return [name for each in range(min(there), max(there)) if (name := str(each)) not in known]

"""Folders of the vault whose `vault.json` is missing or cannot be read: can they go?

A killed run leaves folders without a `vault.json`; their files are second names or copies of what
the agent has. A damaged one may belong to the only copy of a session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.homes.agents.json_lines import UNREADABLE
from holdfast.homes.vault.names import ABOUT, number_of
from holdfast.homes.vault.superseded import (
    Said,
    goes_on,
    is_part_superseded,
    is_transcript_superseded,
)
from holdfast.model.part import FilePart, FolderPart, Slot
from holdfast.parts.trees import below, is_folder
from holdfast.parts.unit_record import BatchRecord
from holdfast.value import dataclass, replace

#: The copy of a file or folder of a session: `<n>.<part>`.
_COPY = re.compile(r"[0-9]+\.[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What somebody else has of the same session. `slots` are its parts, and say which file of a
    folder is which if that has no record. `where` lists the paths at which the file of a place is
    kept. `transcript` is the place of its transcript, `says` reads one."""

    slots: Sequence[Slot]
    where: Callable[[Path], Iterable[Path]]
    transcript: Path | None
    says: Callable[[Path], Said]


def is_damaged(folder: Path) -> bool:
    """True if it has a `vault.json`, which a killed run writes last and whole."""
    return os.path.lexists(folder / ABOUT)


def is_folder_superseded(folder: Path, kept: Kept) -> bool:
    """True if all files in it are kept elsewhere, or replaced by later ones."""
    try:
        slots = _slots(folder, kept.slots)
        return all(_is_file_superseded(each, folder, slots, kept) for each in _files(folder))
    except UNREADABLE:
        return False


def transcript_of(folder: Path, kept: Kept) -> str:
    """Return the path of the transcript in it, "" if it has none."""
    for slot in _slots(folder, kept.slots):
        if kept.transcript is not None and kept.transcript.is_relative_to(slot.part.place):
            path = slot.copy / kept.transcript.relative_to(slot.part.place)
            if path.is_file() and not path.is_symlink():
                return str(path.relative_to(folder))
    return ""


def _files(folder: Path) -> Iterator[Path]:
    for each in below(folder):
        is_ours = _COPY.fullmatch(each.relative_to(folder).parts[0]) is None
        if not is_ours and not is_folder(each) and not each.is_symlink():
            yield each


def _slots(folder: Path, others: Sequence[Slot]) -> Sequence[Slot]:
    """Return its parts as its record has them; without one, as the `others` are numbered."""
    number = number_of(folder)
    slots: Sequence[Slot] = [replace(each, number=number, folder=folder) for each in others]
    with suppress(*UNREADABLE):
        record = BatchRecord.read(folder)
        if record is not None:
            slots = record.records[number].slots
    return [each for each in slots if isinstance(each.part, FilePart | FolderPart)]


def _is_file_superseded(file: Path, folder: Path, slots: Sequence[Slot], kept: Kept) -> bool:
    for slot in slots:
        if file.is_relative_to(slot.copy):
            place = slot.part.place / file.relative_to(slot.copy)
            is_lax = not is_damaged(folder)
            return any(_is_in(file, each, place, kept, is_lax) for each in kept.where(place))
    return False


def _is_in(file: Path, other: Path, place: Path, kept: Kept, is_lax: bool) -> bool:
    """`is_lax`: a killed run had begun it, so a later version of the file may replace it. What a
    damaged entry says of it, such as that its agent had deleted it, is unknown."""
    if not other.is_file():
        return False
    if not is_lax:
        return goes_on(file, other)
    if place == kept.transcript:
        return is_transcript_superseded(file, other, kept.says(file), kept.says(other))
    return is_part_superseded(file, other)

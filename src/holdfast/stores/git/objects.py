"""All objects of a repository, read in process and without trusting the disk.

Every object is checked against its id. Damage stays local: all other objects can still be read, and
an object that is stored twice is read from the intact copy. Starting git would take longer than the
read itself, and a C library that reads damaged files can crash the process.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import DamageError, StorageError
from holdfast.stores.git.object import (
    FAN_DIGITS,
    OID_BYTES,
    Kind,
    NotWholeError,
    file_of,
    object_id,
    read_loose,
)
from holdfast.stores.git.pack import PackReader, apply_delta

_MOST_OPEN = 64
#: Delta bases and results are cached: the next delta often has the same base.
_REMEMBERED_BYTES = 16 * 1024 * 1024
#: The file is missing or unreadable; another copy may be intact.
_NOT_THIS_ONE = (errno.ENOENT, errno.ENOTDIR, errno.EIO, errno.EISDIR)

_Found = tuple[Kind, bytes]


class Objects:
    """Reads the folder `objects` of a repository. Other processes may add to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._folder = str(folder)
        self._packs: list[PackReader] = []
        self._open: OrderedDict[PackReader, None] = OrderedDict()
        self._made: OrderedDict[tuple[PackReader, int], _Found] = OrderedDict()
        self._made_bytes = 0
        # Most stores have no loose objects, and looking for one costs a system call.
        try:
            names = os.listdir(folder)  # noqa: PTH208 - only names needed
        except OSError as error:
            raise _failed(self._folder, error) from error
        self._find_packs()
        self._single = any(len(name) == FAN_DIGITS for name in names)

    def read(self, oid: bytes) -> _Found:
        """Return an object; raises `DamageError` if it is missing or every copy is damaged."""
        found = self._read(oid)
        if found is None:
            self._look_again()
            found = self._read(oid)
        if found is None:
            raise DamageError(
                f"{oid.hex()} is missing from {self._folder}, or damaged.",
                hint="Run `holdfast checkpoints verify` to see which checkpoints need it.",
            )
        return found

    def __contains__(self, oid: bytes) -> bool:
        if self.stored(oid):
            return True
        self._look_again()
        return self.stored(oid)

    def stored(self, oid: bytes) -> bool:
        """True if the repository had an object when it was last listed: at the start, and whenever
        an object was missing."""
        if any(True for _ in self._places(oid)):
            return True
        return self._has_file(oid) and os.path.exists(file_of(self._folder, oid))  # noqa: PTH110

    def _read(self, oid: bytes) -> _Found | None:
        for found in self._copies(oid):
            if object_id(*found) == oid:
                return found
        return None

    def _copies(self, oid: bytes) -> Iterator[_Found]:
        """Yield every readable copy of an object."""
        for pack, place in self._places(oid):
            try:
                yield self._unpacked(pack, place)
            except NotWholeError:
                continue
            except OSError as error:
                if error.errno not in _NOT_THIS_ONE:
                    raise _failed(pack.path, error) from error
        if self._has_file(oid):
            path = file_of(self._folder, oid)
            try:
                yield read_loose(path)
            except NotWholeError:
                return
            except OSError as error:
                if error.errno not in _NOT_THIS_ONE:
                    raise _failed(path, error) from error

    def _has_file(self, oid: bytes) -> bool:
        """True if an object may be loose."""
        return self._single and len(oid) == OID_BYTES

    def _places(self, oid: bytes) -> Iterator[tuple[PackReader, int]]:
        for pack in tuple(self._packs):
            try:
                place = pack.place_of(oid)
            except OSError as error:
                if error.errno not in _NOT_THIS_ONE:
                    raise _failed(pack.path, error) from error
                continue
            if place is not None:
                if pack is not self._packs[0]:
                    # Objects of one pack were written together, so the next one is likely in it.
                    self._packs.remove(pack)
                    self._packs.insert(0, pack)
                yield pack, place

    def _unpacked(self, pack: PackReader, place: int) -> _Found:
        """Read an entry and apply its chain of deltas."""
        deltas: list[tuple[PackReader, int, bytes]] = []
        seen: set[tuple[PackReader, int]] = set()
        while True:
            found = self._made.get((pack, place))
            if found is not None:
                break
            if (pack, place) in seen:
                raise NotWholeError("a delta of itself")
            seen.add((pack, place))
            self._note_open(pack)
            entry = pack.entry(place)
            if entry.kind is not None:
                found = entry.kind, entry.data
                break
            deltas.append((pack, place, entry.data))
            if isinstance(entry.base, int):
                place = entry.base
                continue
            base = next(self._places(entry.base or b"\0"), None)
            if base is None:
                raise NotWholeError("a delta without a base")
            pack, place = base
        if deltas:
            self._remember(pack, place, found)
        for pack, place, delta in reversed(deltas):
            found = found[0], apply_delta(found[1], delta)
            self._remember(pack, place, found)
        return found

    def _remember(self, pack: PackReader, place: int, found: _Found) -> None:
        if (pack, place) not in self._made:
            self._made[pack, place] = found
            self._made_bytes += len(found[1])
            while self._made_bytes > _REMEMBERED_BYTES:
                _, (_, data) = self._made.popitem(last=False)
                self._made_bytes -= len(data)

    def _note_open(self, pack: PackReader) -> None:
        self._open[pack] = None
        self._open.move_to_end(pack)
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)[0].close()

    def _look_again(self) -> None:
        """Look for packs and loose objects that other processes have written since."""
        self._find_packs()
        self._single = True

    def _find_packs(self) -> None:
        folder = f"{self._folder}/pack"
        try:
            names = os.listdir(folder)  # noqa: PTH208 - only names needed
        except FileNotFoundError:
            names = []
        except OSError as error:
            raise _failed(folder, error) from error
        # git renames the index last: a pack without one is not complete.
        ends = (name.removesuffix(".idx") for name in names if name.endswith(".idx"))
        there = {f"{folder}/{name}.pack" for name in ends}
        known = [pack for pack in self._packs if pack.path in there]
        new = there.difference(pack.path for pack in known)
        self._packs = [*map(PackReader, sorted(new)), *known]


def _failed(path: str, error: OSError) -> StorageError:
    return StorageError(f"Cannot read {path}: {error.strerror or error}")

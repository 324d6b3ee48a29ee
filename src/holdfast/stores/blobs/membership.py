"""The name of a home in an object store that it shares with other homes.

    <state>/archive-member.json     the home's own name, and the addresses that it has archived to
    homes/<name>.json               in the store: which machine and which home that is

Every home has a folder of its own there, so the names of two machines never collide. A home that
was copied or moved takes a new name but keeps its earlier ones: what it archived under those can be
undone. What the original of a copy archives there afterwards is not the copy's.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import StorageError
from holdfast.ports.archive import Blobs
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors
from holdfast.stores.processes import host_name, machine_id
from holdfast.value import dataclass

MEMORY = "archive-member.json"
HOMES = "homes"
_SUFFIX = ".json"
_DIGITS = 8
_LARGEST = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """`names` are those of this home, the current one first, each with the number of the first
    operation that was not done under it (0 if there is none). `where` is where the home was when it
    took the current one. `creates_only` has the addresses that it used."""

    names: tuple[tuple[str, int], ...] = ()
    where: str = ""
    creates_only: tuple[tuple[str, bool], ...] = ()


class Membership:
    """One home among those that share a store."""

    def __init__(self, state: Path, given: str = "") -> None:
        """`given` is the name to use if many machines share the session store: the home's name
        there."""
        self._state = state
        self._given = given
        self._known = _read(state / MEMORY)

    @property
    def names(self) -> Sequence[str]:
        """All names of this home, the one that it writes under first; empty before it joins."""
        if self._given:
            return (self._given,)
        return tuple(name for name, _ in self._known.names)

    def did(self, name: str, operation: str) -> bool:
        """True if this home did an operation under one of its names. A copied home and its original
        use the same operation numbers."""
        end = dict(self._known.names).get(name, 0)
        return not end or (operation.isdecimal() and int(operation) < end)

    def knows(self, address: str) -> bool:
        """True if this home has archived to that address."""
        return bool(self.names) and address in dict(self._known.creates_only)

    def creates_only(self, address: str) -> bool:
        """True if the server is known never to replace an existing blob."""
        return dict(self._known.creates_only).get(address, False)

    def join(self, blobs: Blobs, *, creates_only: bool) -> None:
        """Take a name if the home has none yet, record in the store whose it is, and remember
        both."""
        # A container may have another host name at every start, so the host name does not count.
        where = f"{machine_id()}:{self._state}"
        known = self._known
        if self.knows(blobs.place) and (self._given or known.where == where):
            return
        names = known.names
        if not names or known.where != where:
            end = _latest(self._state)
            former = tuple((name, before or end) for name, before in names)
            names = ((secrets.token_hex(_DIGITS), 0), *former)
        used = dict(known.creates_only) | {blobs.place: creates_only}
        made = _Known(names=names, where=where, creates_only=tuple(sorted(used.items())))
        said = {"machine": host_name(), "home": str(self._state)}
        line = json.dumps(said).encode("ascii")
        with contextlib.suppress(FileExistsError):
            name = self._given or names[0][0]
            blobs.put_new(f"{HOMES}/{name}{_SUFFIX}", lambda raw: raw.write(line))
        # The home's own record last: only an archive that exists can be missed.
        with storage_errors(f"write to {self._state}"):
            make_private_dir(self._state)
            replace(self._state / MEMORY, _written(made))
        self._known = made


def homes_at(blobs: Blobs) -> Sequence[str]:
    """The names of all homes that share a store."""
    found = (blob.name.rpartition("/")[2] for blob in blobs.names(HOMES))
    return sorted(name.removesuffix(_SUFFIX) for name in found if name.endswith(_SUFFIX))


def path_of(blobs: Blobs, name: str) -> str:
    """The state folder of a home on its machine; "" if it is unknown."""
    try:
        with blobs.get(f"{HOMES}/{name}{_SUFFIX}") as raw:
            return str(json.loads(raw.read(_LARGEST))["home"])
    except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
        return ""


def _latest(state: Path) -> int:
    """The number of the current operation."""
    journals = (path.stem for path in (state / "operations").glob("*.jsonl"))
    return max((int(stem) for stem in journals if stem.isdecimal()), default=0)


def _written(known: _Known) -> bytes:
    document = {
        "names": dict(known.names),
        "where": known.where,
        "creates_only": dict(known.creates_only),
    }
    return json.dumps(document).encode("ascii")


def _read(path: Path) -> _Known:
    try:
        value: Any = json.loads(read_file(path, _LARGEST))
        return _Known(
            names=tuple((str(name), int(end)) for name, end in value["names"].items()),
            where=str(value["where"]),
            creates_only=tuple((str(at), bool(does)) for at, does in value["creates_only"].items()),
        )
    except FileNotFoundError:
        return _Known()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # With a new name, undo could not find what is archived under the old one.
        raise StorageError(
            f"{path} cannot be read: {type(error).__name__}.",
            hint="It stores the name under which this home archives. Restore it from a backup, or "
            "remove it: archived sessions can then still be restored, but not undone.",
        ) from None

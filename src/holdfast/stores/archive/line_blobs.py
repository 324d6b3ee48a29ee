"""The catalogue of an archive that many machines share: one small blob for each bundle.

    <home>/.lines/<bundle>.<sha>.json      what a list shows of that bundle

A line follows from its bundle alone and never changes, so no machine has to write a line that
another one wrote, and any may keep copies. A line is added after its bundle and removed before it:
a line without a bundle means that the bundle was lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from holdfast.errors import DamageError, HoldfastError
from holdfast.model.archive import ArchivedSession
from holdfast.model.item import Problem
from holdfast.ports.archive import Blobs
from holdfast.stores.archive.codec import codec_of
from holdfast.stores.line_file import CacheFile

LINES = ".lines"
_SUFFIX = ".json"
_DIGITS = 16
#: Number of concurrent requests.
_AT_ONCE = 16
_LONGEST = 64 * 1024 * 1024
_Given = TypeVar("_Given")
_Answer = TypeVar("_Answer")


class LineBlobs:
    """A catalogue for `SessionArchive`. The local copies in `kept` may be lost at any time."""

    def __init__(self, blobs: Blobs, kept: CacheFile) -> None:
        self._blobs = blobs
        self._kept = kept
        #: Lines by blob name.
        self._known: dict[str, ArchivedSession] | None = None
        self._problems: list[Problem] = []

    def entries(self, home: str = "") -> Sequence[ArchivedSession]:
        """Every bundle of a home that has a line, in the order in which they were archived."""
        listed = self._listed(home)
        known = self._all_known()
        self._problems = []
        fetched = _at_once(self._fetched, sorted(listed - known.keys()))
        found = {name: entry for name, entry in fetched if entry is not None}
        known |= found
        gone = [name for name, each in known.items() if each.home == home and name not in listed]
        for name in gone:
            del known[name]
        if gone:  # a title must not outlive its session
            self._kept.rewrite(map(_encoded, known.values()))
        elif found:
            self._kept.append(map(_encoded, found.values()))
        here = sorted(
            (entry for name, entry in known.items() if name in listed),
            key=lambda entry: (entry.moment, entry.file),
        )
        return tuple({entry.file: entry for entry in here}.values())

    def problems(self) -> Sequence[Problem]:
        """The problems with the lines that were last read."""
        return tuple(self._problems)

    def has(self, entry: ArchivedSession) -> bool:
        return self._blobs.find(_line(entry)) is not None

    def add(self, entries: Sequence[ArchivedSession]) -> None:
        if entries:
            _at_once(self._put, entries)
            known = self._all_known()
            known |= {_line(entry): entry for entry in entries}
            self._kept.append(map(_encoded, entries))

    def drop(self, files: Iterable[str], operation: str) -> None:
        gone = set(files)
        known = self._all_known()
        lines = {name for name, entry in known.items() if entry.file in gone}
        # Lines that this machine has not read may exist all the same.
        unread = gone - {known[name].file for name in lines}
        for home in {file.rpartition("/")[0] for file in unread}:
            lines |= {name for name in self._listed(home) if _bundle(name) in unread}
        self._blobs.delete(sorted(lines))
        if [name for name in lines if known.pop(name, None) is not None]:
            self._kept.rewrite(map(_encoded, known.values()))

    def forget_gone(self) -> None:
        """Do nothing: lines of bundles that are gone are not kept."""

    def clear_unfinished(self) -> None:
        """Do nothing: a blob is either complete or does not exist."""

    def _listed(self, home: str) -> set[str]:
        return {
            blob.name
            for blob in self._blobs.names(f"{home}/{LINES}")
            if codec_of(_bundle(blob.name).rpartition("/")[2]) is not None
        }

    def _put(self, entry: ArchivedSession) -> None:
        line, name = _encoded(entry), _line(entry)
        try:
            self._blobs.put_new(name, lambda raw: raw.write(line))
        except FileExistsError:  # a damaged one, or one of another version
            self._blobs.delete([name])
            self._blobs.put_new(name, lambda raw: raw.write(line))

    def _fetched(self, name: str) -> tuple[str, ArchivedSession | None]:
        try:
            with self._blobs.get(name) as raw:
                entry = _read(raw.read(_LONGEST), name)
        except FileNotFoundError:
            return name, None  # removed meanwhile
        except DamageError as error:
            reason = f"is damaged and was ignored: {error.message}"
            self._problems.append(Problem(path=f"{self._blobs.place}/{name}", reason=reason))
            return name, None
        return name, entry

    def _all_known(self) -> dict[str, ArchivedSession]:
        if self._known is None:
            self._known = {}
            for line in self._kept.lines():
                try:
                    entry = _read(line)
                except DamageError:
                    continue  # torn, or of another version: it is fetched again
                self._known[_line(entry)] = entry
        return self._known


def _at_once(act: Callable[[_Given], _Answer], given: Sequence[_Given]) -> list[_Answer]:
    """Make requests concurrently: one at a time would mostly wait for the network."""
    if len(given) <= 1:
        return [act(each) for each in given]
    with ThreadPoolExecutor(min(_AT_ONCE, len(given))) as pool:
        return list(pool.map(act, given))


def _read(line: bytes, name: str = "") -> ArchivedSession:
    try:
        entry = ArchivedSession.from_json(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise DamageError(str(error)) from None
    except HoldfastError as error:
        raise DamageError(error.message) from None
    if codec_of(entry.file.rpartition("/")[2]) is None:
        raise DamageError(f"{entry.file!r} is not the name of a bundle")
    if name and _line(entry) != name:
        raise DamageError("it is about another bundle")
    return entry


def _encoded(entry: ArchivedSession) -> bytes:
    return json.dumps(entry.to_json(), separators=(",", ":")).encode("ascii")


def _line(entry: ArchivedSession) -> str:
    """The blob name of a line. It includes the bundle's checksum: another bundle may get the same
    name later."""
    home, _, name = entry.file.rpartition("/")
    return f"{home}/{LINES}/{name}.{entry.sha256[:_DIGITS]}{_SUFFIX}"


def _bundle(line: str) -> str:
    """The name of the bundle that a line is about; "" if the blob is not a line."""
    folder, _, name = line.rpartition("/")
    bundle = name.removesuffix(_SUFFIX).rpartition(".")[0]
    return f"{folder.removesuffix(LINES)}{bundle}" if name.endswith(_SUFFIX) else ""

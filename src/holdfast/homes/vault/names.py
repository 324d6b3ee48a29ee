"""What the vault holds of each session, and its entry. This module reads and writes entries; it
removes nothing.

    <state>/vault/names/<session>/units-<n>/record.json   the parts of a session, as in the trash
                                            <n>.<part>    their second names, or copies
                                            vault.json    the entry of the session; written last
    <state>/vault/cold/                                   bundles, as in the archive

The folder with the highest number that has a `vault.json` counts; the others were left by a killed
run. If the session is in a bundle, its folder contains only `vault.json`, which names the bundle.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import DamageError, HoldfastError
from holdfast.homes.options import VAULT
from holdfast.model.archive import session_from_json
from holdfast.model.arguments import file_stem
from holdfast.model.item import Problem
from holdfast.model.json_value import Reader
from holdfast.model.session import Session
from holdfast.parts.trees import below, is_folder
from holdfast.parts.unit_record import RECORD
from holdfast.stores import files
from holdfast.stores.files import Doubled, Inode, entries_of, make_private_dir, open_file
from holdfast.value import dataclass, field, replace

NAMES = "names"
COLD = "cold"
ABOUT = "vault.json"
#: Files in a vault folder that are ours and not part of the session.
OURS = (ABOUT, RECORD, "tree.json")
_UNITS = "units-"
_FORMAT = 1
_LARGEST = 64 * 1024 * 1024
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A session stored in the files of another one, such as a subagent's. `transcript`: the path of
    its transcript in the folder. `place`: where that was in the home."""

    session: Session
    transcript: str
    place: str

    def to_json(self) -> dict[str, Any]:
        said = {"session": self.session.to_json(), "counted": self.session.counted}
        return {**said, "transcript": self.transcript, "place": self.place}

    @classmethod
    def from_json(cls, value: object) -> Inner:
        read = Reader(value, "session inside another one", DamageError)
        session = session_from_json(read.value("session"))
        return cls(
            session=replace(session, counted=read.flag("counted")),
            transcript=_within(read),
            place=read.text("place"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One session in the vault. `version` is the latest that was seen, at `seen_at`.

    `transcript` is the path of its transcript in the folder, or "" if it has none of its own. From
    `alone_since` on its agent no longer has it, and `sums` are the checksums of its files. `bundle`
    is the name of its bundle, if it is in one, with the checksum and size. `inner`: the sessions
    stored inside this one.
    """

    folder: Path
    session: Session
    version: str
    seen_at: float
    transcript: str = ""
    alone_since: float | None = None
    sums: Mapping[str, str] = field(default_factory=dict)
    bundle: str = ""
    bundle_sha256: str = ""
    bundle_bytes: int = 0
    inner: tuple[Inner, ...] = ()

    @property
    def number(self) -> int:
        return number_of(self.folder)

    @property
    def stem(self) -> str:
        """The name of its folder in the vault."""
        return self.folder.parent.name

    def write(self) -> None:
        make_private_dir(self.folder)
        files.replace(self.folder / ABOUT, self.to_bytes())

    def to_bytes(self) -> bytes:
        said: dict[str, Any] = {
            "format": _FORMAT,
            "session": self.session.to_json(),
            "counted": self.session.counted,
            "version": self.version,
            "seen_at": self.seen_at,
            "transcript": self.transcript,
            "alone_since": self.alone_since,
            "sums": dict(self.sums),
            "bundle": self.bundle,
            "bundle_sha256": self.bundle_sha256,
            "bundle_bytes": self.bundle_bytes,
            "inner": [each.to_json() for each in self.inner],
        }
        return json.dumps(said).encode("ascii")

    @classmethod
    def read(cls, folder: Path) -> Entry:
        """Raises `FileNotFoundError`, or `DamageError` if the file is foreign or damaged."""
        try:
            said = json.loads(files.read_file(folder / ABOUT, _LARGEST))
        except (ValueError, RecursionError) as error:
            raise DamageError(f"{folder / ABOUT} is damaged: {error}") from None
        read = Reader(said, "session in the vault", DamageError)
        if read.whole("format") != _FORMAT:
            raise DamageError(f"{folder / ABOUT} has a format that this version does not know.")
        session = session_from_json(read.value("session"))
        sums = read.value("sums")
        since = read.value("alone_since")
        inner = read.array("inner") if "inner" in read else ()  # older versions left it out
        return cls(
            folder=folder,
            session=replace(session, counted=read.flag("counted")),
            version=read.text("version"),
            seen_at=read.number("seen_at"),
            transcript=_within(read),
            alone_since=None if since is None else read.number("alone_since"),
            sums={str(k): str(v) for k, v in sums.items()} if isinstance(sums, dict) else {},
            bundle=read.text("bundle"),
            bundle_sha256=read.text("bundle_sha256"),
            bundle_bytes=read.whole("bundle_bytes"),
            inner=tuple(map(Inner.from_json, inner)),
        )


def number_of(folder: Path) -> int:
    return int(folder.name.removeprefix(_UNITS))


def _within(read: Reader) -> str:
    transcript = read.text("transcript")
    if Path(transcript).is_absolute() or ".." in Path(transcript).parts:
        raise DamageError("a session in the vault names a transcript outside its folder")
    return transcript


class Names:
    """The folders of the vault, one for each session."""

    def __init__(self, state: Path) -> None:
        self.root = state / VAULT / NAMES

    def stems(self) -> set[str]:
        """Return the names of the session folders. A vault that is a link is not followed."""
        if self.root.is_symlink() or self.root.parent.is_symlink():
            return set()
        return {each.name for each in entries_of(self.root) if each.is_dir(follow_symlinks=False)}

    def find(self, session_id: str) -> Entry | None:
        return self.at(file_stem(session_id))

    def at(self, stem: str) -> Entry | None:
        """Return the entry stored under a name; None if it cannot be read (see `problems`)."""
        for folder in reversed(self.folders(stem)):
            try:
                return Entry.read(folder)
            except (HoldfastError, OSError):
                continue
        return None

    def folders(self, stem: str) -> Sequence[Path]:
        """Return the folders of a session, complete or not, the oldest first."""
        found = (each for each in entries_of(self.root / stem) if each.name.startswith(_UNITS))
        numbered = ((each.name.removeprefix(_UNITS), each.path) for each in found)
        return [Path(p) for _, p in sorted((int(n), p) for n, p in numbered if n.isdecimal())]

    def next_folder(self, stem: str) -> Path:
        taken = self.folders(stem)
        number = number_of(taken[-1]) + 1 if taken else 0
        return self.folder(stem, number)

    def folder(self, stem: str, number: int) -> Path:
        return self.root / stem / f"{_UNITS}{number}"

    def problems(self) -> Sequence[Problem]:
        """Return the folders whose session is unknown."""
        found = []
        for stem in sorted(self.stems()):
            if self.at(stem) is None:
                reason = "holds a session that cannot be read: its vault.json is missing or damaged"
                found.append(Problem(path=str(self.root / stem), reason=reason))
        return found

    def doubled(self) -> Doubled:
        """Return how many names in the vault each file has, of those with more than one name.

        Names in the folders of two sessions do not count: one may leave without the other."""
        found: dict[Inode, int] = {}
        for stem in self.stems():
            names = Counter(
                (status.st_dev, status.st_ino)
                for status in _statuses(self.root / stem)
                if status.st_nlink > 1
            )
            for inode, count in names.items():
                found[inode] = 0 if inode in found else count
        return found


def _statuses(folder: Path) -> Iterator[os.stat_result]:
    waiting: list[os.DirEntry[str] | Path] = [folder]
    while waiting:
        for each in entries_of(waiting.pop()):
            if each.is_dir(follow_symlinks=False):
                waiting.append(each)
                continue
            try:
                yield each.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # it was deleted while we looked


# --- Checksums of what the vault holds alone ------------------------------------------------------


def sums_of(entry: Entry) -> Mapping[str, str]:
    """Return the checksums of the files of a session, by their path in its folder."""
    found = {}
    for path in sorted(below(entry.folder)):
        if is_folder(path) or path.is_symlink() or path.name in OURS:
            continue
        if stat.S_ISREG(path.lstat().st_mode):
            found[str(path.relative_to(entry.folder))] = _sum(path)
    return found


def check_sums(entry: Entry) -> None:
    """Raise `DamageError` unless the files of a session are as they were when it was sealed.

    A file with another hard link is skipped: it is on its way back to its agent, which may write to
    it.
    """
    for name, sha256 in entry.sums.items():
        path = entry.folder / name
        try:
            same = path.lstat().st_nlink > 1 or _sum(path) == sha256
        except FileNotFoundError:
            same = False
        if not same:
            raise DamageError(f"{path} was changed or removed after its agent deleted the session")


def _sum(path: Path) -> str:
    digest = hashlib.sha256()
    with open_file(path) as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()

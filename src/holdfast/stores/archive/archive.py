"""The archive: its bundles, their catalogue, and a trash of its own, in any store of blobs.

    <id>.tar.zst                     a session; `<id>.2.tar.zst` when that name is taken
    <id>.files.tar.zst               the files of a session that is in the store
    .trash/<operation>/<n>-<file>    bundles that an operation removed, until the trash is emptied

The bundles are the truth: one without a line in the catalogue is found by its name. In a store that
many homes share, each home has a folder with all of this, and the name of a bundle begins with the
name of that folder.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import IO, Protocol, cast

from holdfast.errors import DamageError, StorageError, UnreachableError
from holdfast.model.archive import ArchivedSession, Blob, Holds
from holdfast.model.arguments import check_foreign_id, file_stem
from holdfast.model.item import Problem
from holdfast.model.operation import Removal
from holdfast.model.text import format_count
from holdfast.ports.archive import Blobs, Puts
from holdfast.spine.outcomes import TRASH_TAKEN
from holdfast.stores.archive import bundle
from holdfast.stores.archive.bundle_manifest import BundleManifest
from holdfast.stores.archive.codec import Codec, codec_of
from holdfast.stores.blobs_to_delete import BlobsToDelete
from holdfast.stores.files import storage_errors
from holdfast.value import dataclass

TRASH = ".trash"
_CHUNK = 1024 * 1024
#: A session line up to this size is checked in memory, so the bundle is read back only once.
_KEPT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveView:
    """Every readable bundle, and the problems with the others."""

    entries: tuple[ArchivedSession, ...] = ()
    problems: tuple[Problem, ...] = ()


class Lines(Protocol):
    """The catalogue: one line for each bundle, of all homes or only of this one."""

    def entries(self, home: str = "") -> Sequence[ArchivedSession]: ...

    def problems(self) -> Sequence[Problem]: ...

    def has(self, entry: ArchivedSession) -> bool:
        """True if the line is there at this moment."""

    def add(self, entries: Sequence[ArchivedSession]) -> None: ...

    def drop(self, files: Iterable[str], operation: str) -> None: ...

    def forget_gone(self) -> None: ...

    def clear_unfinished(self) -> None: ...


class Homes(Protocol):
    """The folders of the homes that share a store."""

    @property
    def shared(self) -> bool: ...

    def own(self) -> Sequence[str]:
        """The folders of this home; new bundles go into the first. Empty until the home has
        written."""

    def did(self, home: str, operation: str) -> bool:
        """True if this home did an operation while it had this folder."""

    def path(self, home: str) -> str:
        """The path of a home on its machine."""

    def all(self) -> Sequence[str]: ...


class OneHome:
    """A store of a single home, which needs no folder for it."""

    shared = False

    def own(self) -> Sequence[str]:
        return ("",)

    def did(self, home: str, operation: str) -> bool:
        return True

    def path(self, home: str) -> str:
        return ""

    def all(self) -> Sequence[str]:
        return ("",)


class SessionArchive:
    """The archive of one home. Its store is created when it is first needed."""

    def __init__(
        self,
        blobs: Blobs,
        catalogue: Lines,
        *,
        spool: Callable[[], IO[bytes]],
        homes: Homes | None = None,
        owed: BlobsToDelete | None = None,
        remark: Callable[[], str] = lambda: "",
        former: Blobs | None = None,
        is_here: Callable[[], bool] = lambda: True,
    ) -> None:
        """`spool` opens a temporary file. `owed` is for a store that may be out of reach; it is
        changed only while this process alone may change the home. `remark` returns a note about the
        archive for users. `former` is where the home's archive was before its configuration named
        another place. `is_here` returns True if the archive is on the home's disk."""
        self.blobs = blobs
        self.catalogue = catalogue
        self.spool = spool
        self._homes = homes or OneHome()
        self._owed = owed
        self.remark = remark
        self._at_hand: dict[str, IO[bytes]] = {}
        self._former = former
        self._is_here = is_here

    @property
    def place(self) -> str:
        return self.blobs.place

    def check(self) -> bool:
        """True if the archive exists. Raises if it should exist and does not, or cannot be used."""
        return self.blobs.check()

    def check_usable(self) -> bool:
        """Like `check`, but also raise if nothing could be archived."""
        return self.blobs.check_usable()

    def make(self) -> None:
        """Get ready to write; raises `StorageError` when that is impossible."""
        self.blobs.make()

    def is_own(self, file: str, operation: str) -> bool:
        """True if this home archived the bundle."""
        home = _folder(file)
        return home in self._homes.own() and self._homes.did(home, operation)

    def home_of(self, file: str) -> str:
        """The path, on its machine, of the home that archived the bundle."""
        return self._homes.path(_folder(file))

    def look(self) -> ArchiveView:
        """The catalogue of this home, corrected by the bundles that exist. Creates nothing."""
        if not self._homes.own() or not self.check():
            return ArchiveView()
        view = self._look(self._homes.own)
        own = (each for each in view.entries if self.is_own(each.file, each.operation))
        return ArchiveView(entries=tuple(own), problems=view.problems)

    def look_everywhere(self) -> ArchiveView:
        """The same, with the bundles of all homes that share the store."""
        return self._look(self._homes.all) if self.check() else ArchiveView()

    def _look(self, homes: Callable[[], Sequence[str]]) -> ArchiveView:
        with storage_errors(f"read the archive {self.place}"):
            views = [self._look_into(home) for home in homes()]
        return ArchiveView(
            entries=tuple(entry for view in views for entry in view.entries),
            problems=tuple(problem for view in views for problem in view.problems),
        )

    def _look_into(self, home: str) -> ArchiveView:
        # Lines are read first: each is written after its bundle, so its bundle exists by now.
        owed = self._owed.names() if self._owed is not None else ()
        listed = [each for each in self.catalogue.entries(home) if each.file not in owed]
        problems = list(self.catalogue.problems())
        here = {blob.name for blob in _bundles(self.blobs, home)}.difference(owed)
        problems += [
            Problem(path=self.shown(entry.file), reason="is in the catalogue but not here")
            for entry in listed
            if entry.file not in here and self.catalogue.has(entry)
        ]
        found = [entry for entry in listed if entry.file in here]
        for file in sorted(here - {entry.file for entry in found}):
            try:
                found.append(self.entry_of(file))
            except FileNotFoundError:
                continue  # it left the archive meanwhile
            except (DamageError, OSError) as error:
                why = error.message if isinstance(error, DamageError) else error.strerror
                reason = f"is not a readable bundle: {why}"
                problems.append(Problem(path=self.shown(file), reason=reason))
        return ArchiveView(entries=tuple(found), problems=tuple(problems))

    def left_behind(self) -> Problem | None:
        """The problem that bundles are left in the former place, where nothing reads them."""
        if self._former is None:
            return None
        number = sum(1 for _ in _bundles(self._former))
        if not number:
            return None
        bundles = format_count(number, "bundle")
        key, way = "folder", "move them there"
        if self._homes.shared:
            key, way = "url", "unset it, restore them, set it and archive them again"
        reason = f"holds {bundles} out of use, because `{key}` of [archive] is {self.place}"
        return Problem(path=self._former.place, reason=f"{reason}; {way}")

    def heal(self) -> None:
        """Add the lines that are missing from the catalogue. Call it only while no other process
        writes."""
        if not self._homes.own() or not self.check():
            return
        self.pay()
        for home in self._homes.own():
            listed = {entry.file for entry in self.catalogue.entries(home)}
            here = self._look_into(home).entries
            self.catalogue.add([each for each in here if each.file not in listed])

    def entry_of(self, file: str) -> ArchivedSession:
        """The catalogue line of a bundle, made from the bundle itself."""
        manifest = self.manifest(file)
        with self.blobs.get(file) as raw:
            size, digest = bundle.measured(raw)
        return _entry(file, manifest, size, digest)

    def manifest(self, file: str) -> BundleManifest:
        with self.opened(file) as (raw, codec):
            return bundle.read_manifest(raw, codec)

    def verify(self, file: str) -> BundleManifest:
        """Read a whole bundle and compare it with its manifest; raises `DamageError`."""
        with self.opened(file) as (raw, codec):
            return bundle.verify(raw, codec)

    def read(self, file: str) -> bundle.Read:
        """The same; the result includes the line of the session unless it is long."""
        with self.opened(file) as (raw, codec):
            return bundle.read(raw, codec, keep=_KEPT)

    @contextlib.contextmanager
    def opened(self, file: str) -> Iterator[tuple[IO[bytes], Codec]]:
        """Open the content of a bundle."""
        codec = self._codec(file)
        if (copy := self._at_hand.get(file)) is not None:
            copy.seek(0)
            yield copy, codec
            return
        with self.blobs.get(file) as raw:
            yield raw, codec

    @contextlib.contextmanager
    def at_hand(self, file: str) -> Iterator[None]:
        """Inside the block, `opened` returns a local copy of the bundle: a store that goes out of
        reach must not leave a session half restored. A store on this machine needs no copy."""
        if not self._homes.shared or file in self._at_hand:
            yield
            return
        with self.spool() as copy:
            with self.opened(file) as (raw, _):
                while piece := raw.read(_CHUNK):
                    copy.write(piece)
            self._at_hand[file] = copy
            try:
                yield
            finally:
                del self._at_hand[file]

    def find(self, file: str) -> Blob | None:
        """Find a bundle; None if it does not exist."""
        self._codec(file)
        return self.blobs.find(file)

    def sizes(self) -> dict[str, int]:
        """The bytes that deleting each bundle of this home would free, by name."""
        homes = self._homes.own()
        return {blob.name: blob.allocated for home in homes for blob in _bundles(self.blobs, home)}

    def weights(self, files: Sequence[str]) -> Sequence[int]:
        """The space that bundles take on the home's disk: 0 if the archive is elsewhere."""
        if not self._is_here():
            return [0] * len(files)
        found = (self.find(file) for file in files)
        return [0 if blob is None else blob.allocated for blob in found]

    def together(self, number: int) -> contextlib.AbstractContextManager[Puts]:
        """A batch for `put`, for about `number` bundles. They become durable together when the
        batch is finished."""
        return self.blobs.together(number)

    def put(
        self,
        removal: Removal,
        codec: Codec,
        write: Callable[[IO[bytes]], BundleManifest],
        check: Callable[[bundle.OneLine], None] | None,
        *,
        holds: Holds = Holds.SESSION,
        among: Puts | None = None,
    ) -> ArchivedSession:
        """Create the bundle of a session: write it, read it back and compare.

        `check` is given the session's line as it was read back, and raises if the session could not
        be restored from it. The bundle is durable on return, or with the others of the batch
        `among`. The caller has to add its line to the catalogue.
        """
        session_id = check_foreign_id(removal.item.id)
        making = _Making(codec=codec, write=write, check=check)
        self.pay()  # delete what is owed before its name is used again
        file = self._free_name(session_id, codec, holds, self._own_home())
        try:
            (among or self.blobs).put_new(file, making.make, (making.compare, making.check_line))
        except UnreachableError:  # it may have been stored all the same
            self._owe([file])
            raise
        return making.entry(file)

    def drop(self, files: Iterable[str], operation: str, *, forget: bool = True) -> int:
        """Delete bundles, the reference before the data. Return the bytes freed. With `forget`,
        also remove all traces of them from the catalogue."""
        gone = tuple(files)
        with storage_errors(f"remove from the archive {self.place}"):
            self.catalogue.drop(gone, operation)
            there = [blob for file in gone if (blob := self.find(file)) is not None]
            self.blobs.delete(blob.name for blob in there)
            if gone and forget:
                self.catalogue.forget_gone()
        return sum(blob.allocated for blob in there)

    def drop_in_time(self, files: Iterable[str], operation: str) -> None:
        """Delete bundles whose sessions are elsewhere: now, or when their store can be reached
        again. Until then this home does not show them."""
        gone = tuple(files)
        try:
            self.drop(gone, operation)
        except UnreachableError:
            if self._owed is None:
                raise
            self._owe(gone)

    def pay(self) -> None:
        """Delete the bundles that could not be deleted earlier."""
        owed = self._owed.names() if self._owed is not None else ()
        if owed and self._owed is not None:
            self.drop(owed, "")
            self._owed.clear()

    def _owe(self, files: Iterable[str]) -> None:
        if self._owed is not None:
            self._owed.add(files)

    # --- Its trash --------------------------------------------------------------------------------

    def copy_to_trash(self, removal: Removal) -> None:
        """Copy a bundle into the trash of an operation; fine if a killed run already did."""
        try:
            self.blobs.copy(removal.item.id, self.name_in_trash(removal))
        except FileExistsError:
            with self.blobs.get(self.name_in_trash(removal)) as raw:
                if bundle.digest_of(raw) != removal.item.version:
                    raise StorageError(TRASH_TAKEN) from None

    def in_trash(self, removal: Removal) -> int | None:
        """The size of a bundle in the trash; None if it is not there."""
        blob = self.blobs.find(self.name_in_trash(removal))
        return None if blob is None else blob.allocated

    def name_in_trash(self, removal: Removal) -> str:
        """The name of a bundle's copy in the trash. It is in the folder of this home even for
        another home's bundle: this home's log has the operation, and other homes use the same
        numbers."""
        name = f"{TRASH}/{removal.operation}/{removal.copy_name}"
        own, *former = self._homes.own() or (self._own_home(),)
        there = (_inside(home, name) for home in former if self.blobs.find(_inside(home, name)))
        return next(there, _inside(own, name))

    def why_not(self, name: str, sha256: str) -> str | None:
        """Return why a bundle, perhaps in the trash, does not have the bytes that were written;
        None if it has."""
        try:
            with self.blobs.get(name) as raw:
                found = bundle.digest_of(raw)
        except FileNotFoundError:
            return "is not here any more"
        except OSError as error:
            return f"cannot be read: {error.strerror or error}"
        return None if found == sha256 else "changed after it was archived: its checksum differs"

    def place_in_trash(self, removal: Removal) -> str:
        """The place of the copy, for users."""
        return self.shown(self.name_in_trash(removal))

    def empty(self, removal: Removal) -> None:
        """Discard the copy for good."""
        self.blobs.delete([self.name_in_trash(removal)])

    def from_trash(self, removal: Removal) -> str:
        """Give a bundle its name back, or a similar one if that is taken, then add its line."""
        copy = self.name_in_trash(removal)
        codec = self._codec(removal.item.id)
        with self.blobs.get(copy) as raw:
            manifest = bundle.verify(raw, codec)
        home = _folder(removal.item.id)  # the home that archived it
        file = self._free_name(manifest.session.id, codec, manifest.holds, home)
        self.blobs.copy(copy, file)
        self.catalogue.add([self.entry_of(file)])
        self.blobs.delete([copy])  # only now: until then the copy is the only safe one
        return file

    def clear_unfinished(self) -> None:
        """Remove unfinished bundles and catalogues of killed runs, which never got their names."""
        self.blobs.clear_unfinished()
        self.catalogue.clear_unfinished()

    def _own_home(self) -> str:
        if not self._homes.own():
            self.make()
        return self._homes.own()[0]

    def _free_name(self, session_id: str, codec: Codec, holds: Holds, home: str) -> str:
        """A free name. The home's lock keeps it free until the bundle is written."""
        for number in count(1):
            middle = ".files" if holds is Holds.FILES else ""
            middle += "" if number == 1 else f".{number}"
            file = _inside(home, f"{file_stem(session_id)}{middle}{codec.suffix}")
            if self.blobs.find(file) is None:
                return file
        raise AssertionError  # count() has no end

    def _codec(self, file: str) -> Codec:
        home, _, name = file.rpartition("/")
        is_one = "\0" not in file and (not home or self._homes.shared) and "/" not in home
        codec = codec_of(name) if is_one and not home.startswith(".") else None
        if codec is None:
            raise DamageError(f"{file!r} is not the name of a bundle")
        return codec

    def shown(self, name: str) -> str:
        """The place of a bundle, for users."""
        return f"{self.place}/{name}"


def _bundles(blobs: Blobs, home: str = "") -> Iterator[Blob]:
    named = ((blob, blob.name.rpartition("/")[2]) for blob in blobs.names(home))
    return (blob for blob, name in named if codec_of(name) is not None)


def _inside(home: str, name: str) -> str:
    return f"{home}/{name}" if home else name


def _folder(file: str) -> str:
    """The folder of the home that archived a bundle, from the bundle's name."""
    return file.rpartition("/")[0]


def _entry(file: str, manifest: BundleManifest, size: int, sha256: str) -> ArchivedSession:
    return ArchivedSession(
        session=manifest.session,
        archived_at=manifest.archived_at,
        operation=manifest.operation,
        file=file,
        archive_bytes=size,
        sha256=sha256,
        holds=manifest.holds,
    )


class _Making:
    """One bundle being created: written, then read back once."""

    def __init__(
        self,
        *,
        codec: Codec,
        write: Callable[[IO[bytes]], BundleManifest],
        check: Callable[[bundle.OneLine], None] | None,
    ) -> None:
        self._codec = codec
        self._write = write
        self._check = check
        self._written: BundleManifest | None = None
        self._size, self._sha256 = 0, ""

    def make(self, raw: IO[bytes]) -> None:
        self._written = self._write(raw)

    def compare(self, raw: IO[bytes]) -> None:
        """Refuse a bundle that cannot be read back, or whose session could not be restored."""
        measuring = bundle.Measuring(raw)
        try:
            found = bundle.read(cast("IO[bytes]", measuring), self._codec, keep=_KEPT)
        except DamageError as error:
            raise DamageError(
                f"it cannot be read back: {error.message}; the original stays"
            ) from None
        if found.manifest != self._written:
            raise DamageError("it differs when read back; the original stays")
        measuring.rest()
        self._size, self._sha256 = measuring.size, measuring.sha256
        if self._check is not None and found.line is not None:
            self._check(bundle.OneLine(io.BytesIO(found.line)))
            self._check = None

    def check_line(self, raw: IO[bytes]) -> None:
        """Check the line in a second pass if it was too long to be kept."""
        if self._check is not None:
            with bundle.line_of(raw, self._codec) as line:
                self._check(line)

    def entry(self, file: str) -> ArchivedSession:
        if self._written is None:
            raise AssertionError("a store of blobs wrote nothing")
        return _entry(file, self._written, self._size, self._sha256)

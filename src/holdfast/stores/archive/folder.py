"""The folder that holds an archive: its bundles, its catalogue, and a trash of its own.

    <id>.tar.zst                     a session; `<id>.2.tar.zst` when that name is taken
    <id>.files.tar.zst               the files of a session that is in the store
    catalogue.jsonl                  what they hold
    .trash/<operation>/<n>-<file>    bundles that an operation removed, until the trash goes

It may lie on another file system than the home, so nothing is renamed across its border. A bundle
gets its name when it is whole, and never replaces another. Bundles are the truth: one without a
line in the catalogue is found by a look at the folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO

from holdfast.errors import DamageError, StorageError
from holdfast.model.archived import ArchivedSession, Holds
from holdfast.model.ids import check_foreign_id, file_stem
from holdfast.model.inventory import Problem
from holdfast.model.operation import Removal
from holdfast.model.units import format_count
from holdfast.stores.archive import USUAL_FOLDER, bundle
from holdfast.stores.archive.beside import Beside
from holdfast.stores.archive.catalogue import Catalogue
from holdfast.stores.archive.codec import Codec, codec_of
from holdfast.stores.archive.ownership import Ownership
from holdfast.stores.files import (
    PRIVATE_FILE,
    allocated_bytes,
    make_private_dir,
    open_regular,
    storage_errors,
    sync_dir,
)
from holdfast.stores.trash_folder import TrashFolder

_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
#: What `link` says on file systems that have no hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveView:
    """Every bundle that can be named, and what is wrong with the others."""

    entries: tuple[ArchivedSession, ...] = ()
    problems: tuple[Problem, ...] = ()


class SessionArchive:
    """The archive in one folder, which is made when it is needed. One that somebody chose belongs
    to the home that archived there first."""

    def __init__(self, path: Path, *, chosen_by: Path | None = None) -> None:
        """`chosen_by` is the state folder of the home whose configuration names this folder; None
        for the usual one, inside the home."""
        with contextlib.suppress(OSError, RuntimeError):  # a loop of links is no folder either
            path = path if chosen_by is None else path.resolve()
        self.path = path
        self._owner = None if chosen_by is None else Ownership(chosen_by, path)
        self._usual = None if chosen_by is None else chosen_by / USUAL_FOLDER
        self.catalogue = Catalogue(path)
        self.trash = TrashFolder(path / ".trash")

    def check(self) -> bool:
        """Whether it is there. Raises when it should be and is not, or is no folder to use."""
        if self._owner is None and self.path.is_symlink():
            raise StorageError(
                f"{self.path} is a link; Holdfast does not follow it out of the home.",
                hint="Set `folder` of [archive] in config.toml to where the archive should be.",
            )
        if self.path.exists() and not self.path.is_dir():
            raise StorageError(f"{self.path} is no folder; sessions cannot be archived there.")
        return self.path.is_dir() if self._owner is None else self._owner.check()

    def check_usable(self) -> bool:
        """`check`, and raise as well when nothing could be written here."""
        is_there = self.check()
        return is_there if self._owner is None else self._owner.check_usable()

    def make(self) -> None:
        """Ready to be written to; raises `StorageError` when that cannot be."""
        is_there = self.check()
        if self._owner is not None:
            self._owner.make()
        elif not is_there:
            with storage_errors(f"create the archive folder {self.path}"):
                make_private_dir(self.path)

    def look(self) -> ArchiveView:
        """The catalogue, put right by what is in the folder. Creates nothing."""
        if not self.check():
            return ArchiveView()
        with storage_errors(f"read the archive {self.path}"):
            there = set(self._bundles())
            listed = self.catalogue.entries()
            problems = list(self.catalogue.problems())
            problems += [
                Problem(path=str(self.path / entry.file), reason="is in the catalogue and not here")
                for entry in listed
                if entry.file not in there
            ]
            found = [entry for entry in listed if entry.file in there]
            for file in sorted(there - {entry.file for entry in found}):
                try:
                    found.append(self.entry_of(file))
                except FileNotFoundError:
                    continue  # it left the archive while we looked
                except (DamageError, OSError) as error:
                    why = error.message if isinstance(error, DamageError) else error.strerror
                    reason = f"is no bundle that can be read: {why}"
                    problems.append(Problem(path=str(self.path / file), reason=reason))
        return ArchiveView(entries=tuple(found), problems=tuple(problems))

    def left_behind(self) -> Problem | None:
        """Bundles from before somebody chose this folder: nothing reads them where they lie."""
        if self._usual is None or _is_same(self._usual, self.path):
            return None
        number = len(list(self._bundles(self._usual)))
        if not number:
            return None
        bundles = format_count(number, "bundle")
        reason = f"holds {bundles} that nothing reads since `folder` of [archive] names {self.path}"
        return Problem(path=str(self._usual), reason=f"{reason}; move them there")

    def heal(self) -> None:
        """Give every bundle that has none its line. While this process alone may write."""
        listed = {entry.file for entry in self.catalogue.entries()}
        self.catalogue.add([each for each in self.look().entries if each.file not in listed])

    def entry_of(self, file: str) -> ArchivedSession:
        """The line of a bundle, made from the bundle itself."""
        beside = self.beside(file)
        with self.opened(file) as (raw, _):
            return ArchivedSession(
                session=beside.session,
                archived_at=beside.archived_at,
                operation=beside.operation,
                file=file,
                archive_bytes=os.fstat(raw.fileno()).st_size,
                sha256=bundle.digest_of(raw),
                holds=beside.holds,
            )

    def beside(self, file: str) -> Beside:
        with self.opened(file) as (raw, codec):
            return bundle.read_beside(raw, codec)

    def verify(self, file: str) -> Beside:
        """Read a bundle to its end and compare; raises `DamageError`."""
        with self.opened(file) as (raw, codec):
            return bundle.verify(raw, codec)

    @contextlib.contextmanager
    def opened(self, file: str) -> Iterator[tuple[IO[bytes], Codec]]:
        """A bundle, to be read. A link in its place is refused."""
        codec = _codec(file)
        fd = open_regular(self.path / file, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(fd, "rb") as raw:
            yield raw, codec

    def status(self, file: str) -> os.stat_result | None:
        _codec(file)
        try:
            return (self.path / file).lstat()
        except FileNotFoundError:
            return None

    def put(
        self,
        removal: Removal,
        codec: Codec,
        write: Callable[[IO[bytes]], Beside],
        check: Callable[[IO[bytes]], None],
    ) -> ArchivedSession:
        """Make the bundle of a session: written, flushed, read back and compared, then named.

        `check` raises when the session could not come back from it. Its name is durable after
        `sync`, which a batch calls once.
        """
        session_id = check_foreign_id(removal.item.id)
        temporary = self._temporary(removal)
        try:
            with os.fdopen(os.open(temporary, _NEW, PRIVATE_FILE), "w+b") as raw:
                beside = write(raw)
                raw.flush()
                os.fsync(raw.fileno())
                raw.seek(0)
                _compare(raw, codec, beside)
                raw.seek(0)
                check(raw)
                raw.seek(0)
                digest = bundle.digest_of(raw)
                size = raw.tell()
            file = self._give_name(temporary, session_id, codec, beside.holds)
        finally:
            temporary.unlink(missing_ok=True)
        return ArchivedSession(
            session=beside.session,
            archived_at=beside.archived_at,
            operation=beside.operation,
            file=file,
            archive_bytes=size,
            sha256=digest,
            holds=beside.holds,
        )

    def sync(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            sync_dir(self.path)

    def drop(self, files: Iterable[str], operation: str) -> int:
        """Remove bundles for good, the reference before the data. The bytes that this freed."""
        gone = tuple(files)
        freed = 0
        with storage_errors(f"remove from the archive {self.path}"):
            self.catalogue.drop(gone, operation)
            for file in gone:
                status = self.status(file)
                if status is not None:
                    (self.path / file).unlink()
                    freed += allocated_bytes(status)
            if gone:
                self.sync()
                self.catalogue.forget_gone()
        return freed

    def to_trash(self, removal: Removal) -> int:
        """Move a bundle into the trash of an operation; the bytes it takes there."""
        copy = self.trash.path(removal)
        make_private_dir(copy.parent)
        if copy.exists():
            raise StorageError("its place in the trash is taken")
        self.catalogue.drop([removal.item.id], removal.operation)  # the reference before the data
        (self.path / removal.item.id).rename(copy)
        sync_dir(copy.parent)
        self.sync()
        return allocated_bytes(copy.lstat())

    def in_trash(self, removal: Removal) -> int | None:
        """The bytes of a bundle in the trash; None when it is not there."""
        try:
            return allocated_bytes(self.trash.path(removal).lstat())
        except FileNotFoundError:
            return None

    def empty(self, removal: Removal) -> None:
        self.trash.path(removal).unlink()
        self.trash.drop_if_empty(removal.operation)

    def from_trash(self, removal: Removal) -> str:
        """Give a bundle its name again, or one like it when that is taken; then its line."""
        copy = self.trash.path(removal)
        codec = _codec(removal.item.id)
        with os.fdopen(open_regular(copy), "rb") as raw:
            beside = bundle.verify(raw, codec)
        file = self._give_name(copy, beside.session.id, codec, beside.holds)
        self.sync()
        self.catalogue.add([self.entry_of(file)])
        copy.unlink(missing_ok=True)  # the new name before the old one goes
        self.trash.drop_if_empty(removal.operation)
        return file

    def forget_unfinished(self, removal: Removal) -> None:
        """Drop what a killed run left of a bundle that never got its name."""
        self._temporary(removal).unlink(missing_ok=True)

    def _give_name(self, temporary: Path, session_id: str, codec: Codec, holds: Holds) -> str:
        for number in count(1):
            middle = ".files" if holds is Holds.FILES else ""
            middle += "" if number == 1 else f".{number}"
            file = f"{file_stem(session_id)}{middle}{codec.suffix}"
            try:
                os.link(temporary, self.path / file)
            except FileExistsError:
                continue
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if (self.path / file).exists():
                    continue
                temporary.rename(self.path / file)
            return file
        raise AssertionError  # count() has no end

    def _temporary(self, removal: Removal) -> Path:
        """Known from the intent alone, so that the next run finds it after a kill."""
        return self.path / f".{removal.operation}-{removal.number}.tmp"

    def _bundles(self, folder: Path | None = None) -> Iterator[str]:
        try:
            with os.scandir(folder or self.path) as entries:
                for entry in entries:
                    if codec_of(entry.name) is not None and entry.is_file(follow_symlinks=False):
                        yield entry.name
        except (FileNotFoundError, NotADirectoryError):
            return


def _is_same(one: Path, other: Path) -> bool:
    with contextlib.suppress(OSError):
        return one.samefile(other)
    return False


def _compare(raw: IO[bytes], codec: Codec, written: Beside) -> None:
    """Read back: what cannot be read is not archived, and what changed meanwhile is not either."""
    try:
        found = bundle.verify(raw, codec)
    except DamageError as error:
        raise DamageError(f"read back, {error.message}; it stays in the store") from None
    if found != written:
        raise DamageError("read back, it is not what was written; it stays in the store")


def _codec(file: str) -> Codec:
    codec = None if "/" in file or "\0" in file else codec_of(file)
    if codec is None:
        raise DamageError(f"{file!r} is not the name of a bundle")
    return codec

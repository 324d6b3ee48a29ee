"""Reads the files of sessions for the archive, and restores them in place."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import IO

from holdfast.errors import DamageError
from holdfast.homes.sessions import folder as session_folder
from holdfast.homes.sessions.folder import FOLDER, SessionFileName
from holdfast.stores.archive import bundle
from holdfast.stores.archive.bundle import ChangedError, SourceFile
from holdfast.stores.archive.bundle_manifest import BundleManifest, PackedFile
from holdfast.stores.archive.codec import Codec
from holdfast.stores.files import (
    PRIVATE_FILE,
    RIGHTS,
    give_to,
    link_new,
    lstat_at,
    make_private_dir,
    open_dir,
    version_of,
)

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1024 * 1024


class SessionFolder:
    """The `sessions/` folder of a home, reached through its descriptor: no link is followed."""

    def __init__(
        self,
        root: Path,
        parse: Callable[[str], SessionFileName | None] = session_folder.parse,
        stems: Callable[[str], Collection[str]] = lambda name: (name,),
    ) -> None:
        """`stems` returns the names of a session in file names."""
        self.path = root / FOLDER
        self.parse = parse
        self._stems = stems

    def of(self, ids: Collection[str]) -> Mapping[str, Sequence[SourceFile]]:
        """The files of these sessions, by session: `a` does not own a file of `a_b`."""
        try:
            with open_dir(self.path) as folder:
                return self._of(folder, ids)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            if error.errno != errno.ELOOP:  # a link is not a folder of this home
                raise
            return {}

    def in_the_way(self, manifest: BundleManifest) -> Sequence[str]:
        """Names of a bundle's files that other files have. A file with the same content does not
        count."""
        try:
            with open_dir(self.path) as folder:
                return [file.name for file in manifest.files if not is_free(folder, file)]
        except FileNotFoundError:
            return []

    def has_all(self, manifest: BundleManifest) -> bool:
        """True if each file of a bundle is in place and identical."""
        if not manifest.files:
            return True
        try:
            with open_dir(self.path) as folder:
                return all(
                    lstat_at(file.name, folder) is not None and is_free(folder, file)
                    for file in manifest.files
                )
        except FileNotFoundError:
            return False

    def put_back(self, manifest: BundleManifest, raw: IO[bytes], codec: Codec) -> Sequence[str]:
        """Restore the files of a bundle, with their modes and times.

        Never replaces anything. Returns the names that were taken in the meantime.
        """
        if not manifest.files:
            return []
        make_private_dir(self.path)
        wanted = {bundle.FILES + file.name: file for file in manifest.files}
        taken = []
        with open_dir(self.path) as folder, bundle.members(raw, codec) as members:
            for name, _, content in members:
                file = wanted.get(name)
                if file is None:
                    continue
                self.check_name(manifest, file)
                if not _put_back(folder, file, content):
                    taken.append(file.name)
            os.fsync(folder)
        return taken

    def _of(self, folder: int, ids: Collection[str]) -> Mapping[str, Sequence[SourceFile]]:
        found: dict[str, list[SourceFile]] = defaultdict(list)
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries)
        by_stem = {stem: name for name in ids for stem in self._stems(name)}
        for name in names:
            parsed = self.parse(name)
            if parsed is None or parsed.session not in by_stem:
                continue
            # Its session is in the store, so its name is proof enough, as in a scan. A file that is
            # removed with its session without being packed here would be lost.
            source = self._source(folder, name)
            if source is not None:
                found[by_stem[parsed.session]].append(source)
        return found

    def check_name(self, manifest: BundleManifest, file: PackedFile) -> None:
        """Reject names that a forged bundle could use to reach other files."""
        parsed = self.parse(file.name)
        if parsed is None or parsed.session not in self._stems(manifest.session.id):
            raise DamageError(f"{file.name} is not the name of a file of this session")

    def _source(self, folder: int, name: str) -> SourceFile | None:
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            link = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(status.st_mode) else None
        except FileNotFoundError:
            return None  # it was removed in the meantime
        if link is None and not stat.S_ISREG(status.st_mode):
            return None
        return SourceFile(
            name=name,
            status=status,
            open=lambda: self._open(name),
            link=link,
            version=version_of(status),
        )

    def _open(self, name: str) -> IO[bytes]:
        with open_dir(self.path) as folder:
            fd = os.open(name, _READ, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise ChangedError(f"{name} is no longer a file")
        return os.fdopen(fd, "rb")


def _put_back(folder: int, file: PackedFile, content: IO[bytes]) -> bool:
    """False if another file has its name."""
    if lstat_at(file.name, folder) is None:
        make_unnamed(folder, file, content)
        return give_name(folder, file)
    remove_unnamed(folder, file)
    return is_free(folder, file)


def _unnamed(file: PackedFile) -> str:
    """A predictable name, so that a run that finishes this one can clean up."""
    return f".{file.name}.tmp"


def give_name(folder: int, file: PackedFile) -> bool:
    """Give a file that was written before its name. False if another file has it."""
    temporary = _unnamed(file)
    try:
        if not link_new(temporary, file.name, folder=folder, new_folder=folder):
            if lstat_at(file.name, folder) is not None:
                return is_free(folder, file)
            os.rename(temporary, file.name, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:  # the name was taken in the meantime
        return is_free(folder, file)
    finally:
        remove_unnamed(folder, file)
    return True


def remove_unnamed(folder: int, file: PackedFile) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_unnamed(file), dir_fd=folder)


def is_free(folder: int, file: PackedFile) -> bool:
    """True if the name is free, or belongs to a file identical to the archived one."""
    there = lstat_at(file.name, folder)
    if there is None:
        return True
    if file.link is not None:
        is_link = stat.S_ISLNK(there.st_mode)
        return is_link and os.readlink(file.name, dir_fd=folder) == file.link
    if not stat.S_ISREG(there.st_mode) or there.st_size != file.bytes:
        return False
    fd = os.open(file.name, _READ, dir_fd=folder)
    with os.fdopen(fd, "rb") as content:
        return bundle.digest_of(content) == file.sha256


def make_unnamed(folder: int, file: PackedFile, content: IO[bytes], *, flush: bool = True) -> None:
    """Write a complete file under a temporary name. Without `flush` it is not on the disk yet."""
    name = _unnamed(file)
    remove_unnamed(folder, file)
    times = (file.mtime_ns, file.mtime_ns)
    if file.link is not None:
        os.symlink(file.link, name, dir_fd=folder)
        give_to(name, file.uid, file.gid, folder=folder)
        os.utime(name, ns=times, dir_fd=folder, follow_symlinks=False)
        return
    fd = os.open(name, _WRITE, PRIVATE_FILE, dir_fd=folder)
    with os.fdopen(fd, "wb") as target:
        while piece := content.read(_CHUNK):
            target.write(piece)
        target.flush()
        give_to(fd, file.uid, file.gid)
        os.fchmod(fd, file.mode & RIGHTS)
        os.utime(fd, ns=times)
        if flush:
            os.fsync(fd)

"""Restores many archived sessions, with their files, in few transactions and few flushes."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Self

from holdfast.errors import BusyError
from holdfast.homes.archive.session_files import (
    SessionFolder,
    give_name,
    is_free,
    make_unnamed,
    remove_unnamed,
)
from holdfast.homes.archive.session_return import TROUBLE, Returner, ended_by, in_the_way
from holdfast.homes.archive.session_rows import Ended, Rows
from holdfast.model.archive import Holds
from holdfast.model.report import Result
from holdfast.stores.archive.bundle_manifest import BundleManifest, PackedFile
from holdfast.stores.blobs.durable_batch import flush_of_many
from holdfast.stores.files import lstat_at, make_private_dir
from holdfast.value import dataclass

#: The most that one transaction stores, so that other writers wait less than a tenth of a second.
MOST_MESSAGES = 600
_MOST_BYTES = 2 * 1024 * 1024
#: Contents of files that wait for the rows of their sessions; no lock is held for them.
_MOST_OF_FILES = 8 * 1024 * 1024
_BACK: Ended = (Result.BROUGHT_BACK, "")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bundle:
    """A bundle that was read once and compared: exactly this content is restored."""

    file: str
    manifest: BundleManifest
    line: bytes
    contents: Mapping[str, bytes]


class _Batch(list[_Bundle]):
    """Bundles whose sessions are restored in one transaction."""

    def has_room_for(self, one: _Bundle) -> bool:
        waiting = (len(content) for each in (*self, one) for content in each.contents.values())
        return (
            sum(len(each.line) for each in (*self, one)) <= _MOST_BYTES
            and sum(waiting) <= _MOST_OF_FILES
        )

    def is_full(self) -> bool:
        return sum(each.manifest.session.message_count for each in self) >= MOST_MESSAGES


def bring_back_many(
    returner: Returner, files: Sequence[str], *, again: bool = True
) -> Sequence[Ended]:
    """Restore the sessions of these bundles, each completely or not at all. The caller drops the
    bundles. For `again` see `Returner.bring_back`."""
    rows = returner.rows()
    if rows is None or len(files) == 1:
        return [returner.bring_back(file, again=again) for file in files]
    with FilesBack(returner.files, len(files)) as coming:
        many = _Many(returner, rows, coming, again=again)
        for file in files:
            many.take(file)
        many.finish()
    return [many.ended[file] for file in files]


class _Many:
    """Collects bundles until they fill a transaction. A bundle that cannot be restored together
    with others is left to the returner, which reports what is wrong with it. Sessions are restored
    in the given order: if two have the same routing key, the first one gets it."""

    def __init__(self, returner: Returner, rows: Rows, coming: FilesBack, *, again: bool) -> None:
        self._returner = returner
        self._rows = rows
        self._coming = coming
        self._again = again
        self._batch = _Batch()
        #: Sessions whose rows are restored, while their files have no names yet.
        self._unnamed: list[str] = []
        self.ended: dict[str, Ended] = {}

    def take(self, file: str) -> None:
        found = self._read(file)
        if found is None:
            self._store()
            self._alone([file])
            return
        if not self._batch.has_room_for(found):
            self._store()
        self._batch.append(found)
        if self._batch.is_full():
            self._store()

    def finish(self) -> None:
        self._store()
        self._name()

    def _read(self, file: str) -> _Bundle | None:
        """Read a bundle; None if it is damaged, too large for memory, or holds only files."""
        try:
            read = self._returner.archive.read(file)
        except TROUBLE:
            return None
        if read.manifest.holds is not Holds.SESSION or read.line is None or read.contents is None:
            return None
        return _Bundle(file=file, manifest=read.manifest, line=read.line, contents=read.contents)

    def _store(self) -> None:
        batch, self._batch = self._batch, _Batch()
        free = self._free(batch)
        for has_room, some in itertools.groupby(batch, lambda each: each.file in free):
            group = list(some)
            if not has_room or not self._together(group):
                self._alone([each.file for each in group])

    def _free(self, batch: Sequence[_Bundle]) -> set[str]:
        """Return those bundles whose session ids and file names are free."""
        try:
            there = self._rows.read([each.manifest.session.id for each in batch])
            return {
                each.file
                for each in batch
                if each.manifest.session.id not in there
                and not self._returner.files.in_the_way(each.manifest)
            }
        except TROUBLE:
            return set()

    def _together(self, group: Sequence[_Bundle]) -> bool:
        """Restore a group in one transaction. False if none was restored."""
        try:
            if not self._rows.put_back_together([(each.manifest, each.line) for each in group]):
                return False
        except BusyError as error:  # each of them would wait just as long
            self.ended |= {each.file: ended_by(error, each.file) for each in group}
            return True
        except TROUBLE:
            return False
        for each in group:
            self.ended[each.file] = _BACK
            try:
                self._coming.put(each.file, each.manifest, each.contents)
            except TROUBLE as error:
                self.ended[each.file] = ended_by(error, each.file)
            else:
                self._unnamed.append(each.file)
        return True

    def _alone(self, files: Sequence[str]) -> None:
        self._name()  # the returner has to see which names are taken
        for file in files:
            self.ended[file] = self._returner.bring_back(file, again=self._again)

    def _name(self) -> None:
        try:
            taken = self._coming.finish()
        except OSError as error:
            self.ended |= {file: ended_by(error, file) for file in self._unnamed}
        else:
            self.ended |= {file: (Result.FAILED, in_the_way(taken[file])) for file in taken}
        self._unnamed.clear()


# --- Files ----------------------------------------------------------------------------------------


class FilesBack:
    """Writes files of bundles: complete, but without their names until `finish`.

    Write-order rule: the content of all files is on the disk before the first gets its name, and
    the names are before `finish` returns: only then may a bundle be dropped. A killed run leaves
    temporary names, which are derived from the files: the run that finishes it creates them again.
    """

    def __init__(self, folder: SessionFolder, sessions: int) -> None:
        """`sessions` is the approximate number of sessions with files."""
        self._folder = folder
        self._flush = flush_of_many(sessions)
        self._fd: int | None = None
        self._unnamed: list[tuple[str, PackedFile]] = []
        self._taken: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._fd is not None:
            for _, file in self._unnamed:
                with contextlib.suppress(OSError):
                    remove_unnamed(self._fd, file)
            os.close(self._fd)

    def put(self, name: str, manifest: BundleManifest, contents: Mapping[str, bytes]) -> None:
        """Write the files of one bundle. `finish` refers to it by `name`."""
        for file in manifest.files:
            self._folder.check_name(manifest, file)
        for file in manifest.files:
            folder = self._opened()
            if lstat_at(file.name, folder) is None:
                content = io.BytesIO(contents.get(file.name, b""))
                make_unnamed(folder, file, content, flush=self._flush is None)
                self._unnamed.append((name, file))
            elif not is_free(folder, file):
                self._taken.setdefault(name, []).append(file.name)

    def finish(self) -> Mapping[str, list[str]]:
        """Flush the files and give them their names; more may follow. Returns the names that were
        taken in the meantime, by bundle. After an error, all bundles count as not restored."""
        taken, self._taken = self._taken, {}
        if self._fd is None:
            return taken
        if self._flush is not None and self._unnamed:
            self._flush(self._fd)
        while self._unnamed:
            name, file = self._unnamed[-1]
            if not give_name(self._fd, file):
                taken.setdefault(name, []).append(file.name)
            self._unnamed.pop()
        os.fsync(self._fd)
        return taken

    def _opened(self) -> int:
        """Opened before the first file is written: flushing the disk reports errors since then."""
        if self._fd is None:
            make_private_dir(self._folder.path)
            self._fd = os.open(self._folder.path, _FOLDER)
        return self._fd

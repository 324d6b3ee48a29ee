"""The operation log of a home: a folder of journals, one per file, numbered from 1."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.errors import DamageError, HoldfastError, StorageError
from holdfast.model.item import Problem
from holdfast.model.operation import BY_ITSELF, LogView, OperationAction
from holdfast.stores import journal
from holdfast.stores.files import make_private_dir, open_regular, storage_errors, sync_dir
from holdfast.stores.lock import HOME_WAIT, exclusive
from holdfast.stores.log_view import ReadLog, view_of

#: A command waits longer for a worker that started by itself: such a worker runs at low priority
#: and takes a while on a busy machine.
PATIENCE = {BY_ITSELF: 60.0}

#: An item of a session in a line of a journal.
_OF_SESSIONS = re.compile(rb'"kind": ?"(?:session|archived_session|files|archived_files)"')
#: Identifies the version of a file that was read: device, inode, size and both times.
_Stamp = tuple[int, int, int, int, int]


class FileOperationLog:
    """`finish` completes what a change left to do in the home. It runs before and after every
    change, so also after a failed one, and before the first one after a kill."""

    def __init__(
        self,
        folder: Path,
        trash: Path,
        finish: Callable[[], None] = lambda: None,
        *,
        lock_wait: float = HOME_WAIT,
    ) -> None:
        self._folder = folder
        self._trash = trash
        self._finish = finish
        self._lock_wait = lock_wait
        #: Finished journals as last read: one command reads the log several times, and finished
        #: journals are not written any more. A changed file is read again all the same.
        self._finished: dict[Path, tuple[_Stamp, journal.FileRecord]] = {}
        #: The records last read and their view: an undo asks for it three times.
        self._viewed: Sequence[journal.FileRecord] = ()
        self._view: LogView | None = None

    def read(self) -> LogView:
        records, problems = self._read_all()
        if problems:
            return view_of(records, problems)
        # A record is the same object only while its journal is finished and unchanged.
        if self._view is None or [*map(id, records)] != [*map(id, self._viewed)]:
            self._viewed, self._view = records, view_of(records, problems)
        return self._view

    @contextlib.contextmanager
    def writing(self, command: str) -> Iterator[FileLogWriter]:
        from holdfast.stores.disk_reserve import give_back_if_full  # noqa: PLC0415 - no list writes

        give_back_if_full(self._folder.parent)  # before the first byte has to be written
        with storage_errors(f"create the operation log {self._folder}"):
            make_private_dir(self._folder)
        check_trash(self._trash)
        lock = self._folder / "lock"
        with exclusive(lock, holder=command, wait=self._lock_wait, patience=PATIENCE):
            self._finish_if_possible()
            try:
                yield FileLogWriter(self._folder, self._trash, *self._read_all())
            finally:
                self._finish_if_possible()

    def _finish_if_possible(self) -> None:
        """What cannot be finished now is left to the next run."""
        with contextlib.suppress(HoldfastError):
            self._finish()

    def _read_all(self) -> tuple[list[journal.FileRecord], list[Problem]]:
        """Read every journal, in order; those that cannot be read become problems."""
        records: dict[str, journal.FileRecord] = {}
        problems: list[Problem] = []
        known, self._finished = self._finished, {}
        for path in _journals(self._folder):
            try:
                stamp = _stamp(path)
                before, record = known.get(path, (None, None))
                if before != stamp:
                    record = journal.read(path, records)
            except DamageError as error:
                problems.append(Problem(path=str(path), reason=error.message))
            except OSError as error:
                problems.append(Problem(path=str(path), reason=str(error.strerror or error)))
            else:
                if record is not None:
                    records[record.operation] = record
                    if record.finished_at is not None:
                        self._finished[path] = (stamp, record)
        return list(records.values()), problems


class FileLogWriter(ReadLog[journal.FileRecord]):
    """The log while the lock is held."""

    def __init__(
        self,
        folder: Path,
        trash: Path,
        records: Sequence[journal.FileRecord],
        problems: Sequence[Problem],
    ) -> None:
        super().__init__(records, problems)
        self._folder = folder
        self._trash = trash

    def begin(
        self,
        *,
        action: OperationAction,
        command: str,
        at: float,
        undoes: str | None = None,
        redoes: str | None = None,
    ) -> AbstractContextManager[journal.FileJournal]:
        path = self._folder / f"{self._next()}.jsonl"
        return journal.create(
            path, action=action, command=command, at=at, undoes=undoes, redoes=redoes
        )

    def forget(self, *, before: float) -> int:
        old = self.droppable(before)
        for record in old:
            with storage_errors(f"drop operation {record.operation} from the log"):
                record.path.unlink()
        if old:
            sync_dir(self._folder)
        return len(old)

    def _next(self) -> int:
        """One more than the largest number ever used here, damaged journals included.

        Trash that outlived its journal counts too: its folder must not be reused.
        """
        with storage_errors(f"clean up {self._folder}"):
            for path in _journals(self._folder):
                if path.stat().st_size == 0 or _torn_header(path):
                    path.unlink()
                    sync_dir(self._folder)
        return max(numbers_in(self._folder, self._trash), default=0) + 1


def numbers_in(folder: Path, trash: Path) -> Sequence[int]:
    """The operation numbers that appear on disk, as a journal or as a folder in the trash."""
    used = [path.stem for path in _journals(folder)]
    if trash.is_dir():
        used += [path.name for path in trash.iterdir() if _is_number(path.name)]
    return [int(number) for number in used]


def names_sessions(folder: Path) -> bool:
    """True if an operation of this log was about sessions of a store, and not only about files. A
    journal that cannot be read may be one of them."""
    for path in _journals(folder):
        try:
            with os.fdopen(open_regular(path), "rb") as lines:
                if any(_OF_SESSIONS.search(line) for line in lines):
                    return True
        except (OSError, StorageError):
            return True
    return False


def check_trash(trash: Path) -> None:
    """Raise unless that folder can hold undo copies."""
    if trash.is_symlink() or (trash.exists() and not trash.is_dir()):
        raise StorageError(
            f"{trash} is not a folder of this home; nothing was done.",
            hint="Move it away: removed things stay in the home until the trash is emptied.",
        )


def _journals(folder: Path) -> list[Path]:
    try:
        names = [path for path in folder.iterdir() if path.suffix == ".jsonl"]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(
        (path for path in names if _is_number(path.stem)), key=lambda path: int(path.stem)
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _torn_header(path: Path) -> bool:
    """True if a kill tore the first line: then nothing had begun."""
    with os.fdopen(open_regular(path), "rb") as lines:
        return not lines.readline().endswith(b"\n")


def _stamp(path: Path) -> _Stamp:
    at = path.lstat()
    return at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns

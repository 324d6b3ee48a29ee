"""The rows of sessions in a database of another agent, whose tables change from release to release:
those that we know and that are there, and those that name sessions and that we do not know."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.model.part import Role, Rows, RowsPart
from holdfast.stores.sqlite.foreign import columns
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """`rows` are the known tables that are there, with the column that names a session. `unknown`
    are other tables that name sessions: rows would stay behind in them."""

    path: Path
    rows: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]

    @classmethod
    def of(cls, path: Path, known: Iterable[tuple[str, str]], *, naming: str) -> Tables:
        """Look into a database, one that may be missing. `naming` is the column by which tables
        usually name a session."""
        there = columns(path) if path.exists() else set()
        wanted = tuple(known)
        others = {table for table, column in there if column == naming}
        return cls(
            path=path,
            rows=tuple(each for each in wanted if each in there),
            unknown=tuple(sorted(others - {table for table, _ in wanted})),
        )

    def part(self, session: str, role: Role = Role.REFERENCE) -> RowsPart:
        """The rows of one session."""
        return RowsPart(
            store=self.path,
            rows=tuple(Rows(table=t, column=c, value=session) for t, c in self.rows),
            role=role,
        )

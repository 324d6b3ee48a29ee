"""Kilo, a fork of OpenCode: the same home under names of its own.

kilo.db                        as OpenCode's database, with tables of its boards besides
storage/session_diff/ID.json   what a session changed
log/                           a file a start
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.homes.opencode import OpenCode
from holdfast.model.part import Facts, Transcript
from holdfast.stores.sqlite.foreign import columns, is_sqlite

#: What tells its database from OpenCode's where one lies alone.
_OWN = ("kilo_board", "id")


class Kilo(OpenCode):
    facts = Facts(
        name="kilo",
        agent="Kilo",
        folder=".local/share/kilo",
        processes=("kilo", "kilocode", "@kilocode"),
        versions=("7",),
    )
    database = "kilo.db"

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        if not is_sqlite(path) or _OWN not in columns(path):
            return None
        return super().transcripts(path)

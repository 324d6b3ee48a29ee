"""Kilo, a fork of OpenCode: the same home under names of its own.

kilo.db                        like OpenCode's database, with additional tables for its boards
storage/session_diff/ID.json   what a session changed
log/                           one file per start
~/.local/state/kilo-sandbox-policy/HASH/   the permissions of a session
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from holdfast.homes.agents.agent_format import facts_of
from holdfast.homes.agents.opencode import OpenCode
from holdfast.model.part import FolderPart, Known, Places, Transcript, Unit
from holdfast.stores.sqlite.foreign import columns, is_sqlite
from holdfast.value import replace

#: Distinguishes its database from OpenCode's if the database is outside a home.
_OWN = ("kilo_board", "root_session_id")
_USUAL = (".local", "share", "kilo")


class Kilo(OpenCode):
    facts = facts_of(
        "kilo",
        processes=("kilo", ".kilo", "@kilocode"),
        versions=("7",),
        places=Places(
            files=("storage/session_diff/{id}.json",),
            stores=("kilo.db",),
            beside=("{sha}",),
        ),
    )
    database = "kilo.db"
    databases = (database,)

    def roots(self, root: Path) -> Sequence[Path]:
        return [root, *_policies(root)]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        for unit in super().units(root, known):
            name = sha256(unit.id.encode(errors="surrogateescape")).hexdigest()
            more = [FolderPart(path=each / name) for each in _policies(root)]
            yield replace(unit, parts=(*unit.parts, *more))

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        if not is_sqlite(path) or _OWN not in columns(path):
            return None
        return super().transcripts(path)


def _policies(root: Path) -> list[Path]:
    """The folders with the permissions of sessions, for a home in the default place."""
    if root.parts[-3:] != _USUAL:
        return []
    return [root.parents[1] / "state" / "kilo-sandbox-policy"]

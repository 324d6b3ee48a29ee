"""OpenCode.

opencode.db      sessions, messages, parts, and every change once more as an event
snapshot/P/W/    a git directory a working tree: trees without references, named only by parts
log/, repos/

Rows that refer to a session by a foreign key travel with it; events hang on `event_sequence`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.life import holder_of
from holdfast.homes.records import Record
from holdfast.model.part import (
    Facts,
    FilePart,
    Known,
    Leftover,
    Rows,
    RowsPart,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Json, Message, Relation, Tokens
from holdfast.stores.sqlite.foreign import columns, is_sqlite, reading, rows

_DATABASE = "opencode.db"
_NEEDED = {
    ("session", "id"),
    ("session", "directory"),
    ("session", "time_updated"),
    ("message", "data"),
    ("part", "data"),
}


class OpenCode:
    facts = Facts(
        name="opencode",
        agent="OpenCode",
        folder=".local/share/opencode",
        processes=("opencode", "opencode-ai"),
        versions=("1",),
    )

    def recognise(self, root: Path) -> bool:
        return (root / _DATABASE).is_file()

    def doubt(self, root: Path) -> str | None:
        """Rows that name a session and that no foreign key ties to it would stay behind."""
        there = columns(root / _DATABASE)
        if not there:
            return None
        if not there >= _NEEDED:
            table, column = min(_NEEDED - there)
            return f"{_DATABASE} has no column {table}.{column}"
        tied = {
            table
            for (table,) in rows(
                root / _DATABASE,
                "SELECT t.name FROM sqlite_schema AS t, pragma_foreign_key_list(t.name) AS k"
                " WHERE t.type = 'table' AND k.\"table\" IN ('session', 'message')",
            )
        }
        loose = {table for table, column in there if column == "session_id"} - tied
        return f"{_DATABASE} has a table that is not known: {min(loose)}" if loose else None

    def roots(self, root: Path) -> Sequence[Path]:
        return [root]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        if not columns(_database(root)):
            return  # just being set up
        for name, parent, cwd, title, model, started, active in rows(
            _database(root),
            "SELECT id, parent_id, directory, title, model, time_created, time_updated FROM session"
            " ORDER BY time_created, id",
        ):
            yield Unit(
                id=name,
                active=active / 1000,
                started=started / 1000,
                parent=parent or "",
                relation=Relation.DELEGATE if parent else None,
                cwd=cwd or "",
                title=title or "",
                model=_model(model),
                parts=(
                    RowsPart(
                        store=_database(root),
                        rows=(
                            Rows(
                                table="session",
                                column="id",
                                value=name,
                                stamp="max(time_updated)",
                            ),
                            Rows(
                                table="event_sequence",
                                column="aggregate_id",
                                value=name,
                                stamp="max(seq)",
                            ),
                        ),
                    ),
                ),
            )

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        for kind, pattern in (
            ("temporary-pack", "snapshot/*/*/objects/pack/tmp_pack_*"),
            ("temporary-object", "snapshot/*/*/objects/*/tmp_obj_*"),
            ("log", "log/*"),
        ):
            for path in sorted(root.glob(pattern)):
                yield Leftover(
                    kind=kind,
                    id=str(path.relative_to(root)).replace("/", ":"),
                    active=path.lstat().st_mtime,
                    parts=(FilePart(path=path),),
                )

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        with reading(_database(root)) as db:
            found = db.execute(
                "SELECT m.id, m.data, p.data FROM message AS m LEFT JOIN part AS p"
                " ON p.message_id = m.id WHERE m.session_id = ?"
                " ORDER BY m.time_created, m.id, p.id",
                (unit.id,),
            )
            last: str | None = None
            head: Record = {}
            parts: list[Record] = []
            for name, data, part in found:
                if name != last:
                    if last is not None:
                        yield from _messages(head, parts)
                    last, head, parts = name, _object(data), []
                parts.append(_object(part))
            if last is not None:
                yield from _messages(head, parts)

    def signs(self, root: Path, now: float) -> Signs:
        """An answer without an end is in progress, if somebody has the database open: a crash
        leaves it so for ever. Which session an idle process shows cannot be told."""
        busy = holder_of(root / _DATABASE)
        if busy is None or not columns(root / _DATABASE):
            return Signs()
        open_ = rows(
            root / _DATABASE,
            "SELECT DISTINCT session_id FROM message WHERE json_extract(data, '$.role') ="
            " 'assistant' AND json_extract(data, '$.time.completed') IS NULL",
        )
        return Signs(units={name: busy for (name,) in open_})

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        """Every session of a database, whatever its name."""
        if not is_sqlite(path) or not columns(path) >= _NEEDED:
            return None
        return (
            Transcript(path=path, unit=unit, messages=self.messages(path, unit))
            for unit in self.units(path, lambda _: None)
        )


def _database(root: Path) -> Path:
    """In a home, or a database that lies alone."""
    return root if root.is_file() else root / _DATABASE


def _messages(head: Record, parts: Sequence[Record]) -> Iterator[Message]:
    time = head.get("time") or {}
    at = time.get("created")
    at = at / 1000 if isinstance(at, int | float) else None
    of = {
        kind: [p for p in parts if p.get("type") == kind] for kind in ("text", "reasoning", "tool")
    }
    calls: list[Json] = [
        {
            "id": each.get("callID"),
            "name": each.get("tool"),
            "arguments": (each.get("state") or {}).get("input"),
        }
        for each in of["tool"]
    ]
    yield Message(
        role=str(head.get("role") or "assistant"),
        content="\n".join(str(each.get("text") or "") for each in of["text"]),
        timestamp=at,
        reasoning="\n".join(str(each.get("text") or "") for each in of["reasoning"]) or None,
        tool_calls=calls or None,
        tokens=_tokens(head.get("tokens")),
        cost=head.get("cost"),
    )
    for each in of["tool"]:
        state = each.get("state") or {}
        if state.get("output") or state.get("error"):
            yield Message(
                role="tool",
                content=str(state.get("output") or state.get("error")),
                timestamp=at,
                tool_name=each.get("tool"),
                tool_call_id=each.get("callID"),
            )


def _tokens(said: Any) -> Tokens | None:
    if not isinstance(said, dict):
        return None
    cache = said.get("cache") or {}
    return Tokens(
        input=int(said.get("input") or 0) + int(cache.get("write") or 0),
        output=int(said.get("output") or 0) + int(said.get("reasoning") or 0),
        cached=int(cache.get("read") or 0),
    )


def _model(said: str | None) -> str:
    return str(_object(said).get("id") or "") if said else ""


def _object(text: str | None) -> Record:
    said = json.loads(text) if text else {}
    return said if isinstance(said, dict) else {}

"""OpenCode.

opencode.db      sessions, messages, parts, and a second copy of every change as an event
snapshot/P/W/    one git directory per working tree: trees without refs, named only by parts
storage/session_diff/ID.json   what a session changed
storage/         sessions of earlier releases, imported into the database
log/, repos/

Rows with a foreign key to a session move with it; events depend on `event_sequence`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import AgentFormat, facts_of
from holdfast.homes.agents.json_lines import Record, is_plain_name, object_in, within
from holdfast.homes.agents.leftovers import leftover, matching, name_below
from holdfast.homes.agents.message_blocks import tool_call
from holdfast.homes.agents.session_tables import lacks, not_known, sessions_of, untied
from holdfast.model.part import (
    FilePart,
    Known,
    Leftover,
    Part,
    Places,
    Rows,
    RowsPart,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Json, Message, Relation, Tokens
from holdfast.stores.sqlite.foreign import columns, reading, rows
from holdfast.value import replace

_NEEDED = {
    *(("session", each) for each in ("id", "parent_id", "directory", "title", "model")),
    *(("session", each) for each in ("time_created", "time_updated")),
    ("message", "session_id"),
    ("part", "message_id"),
    ("message", "data"),
    ("part", "data"),
}
#: More tables with rows of a session, listed for their size: they would move with it in any case.
_WEIGHTY = (("message", "session_id"), ("part", "session_id"), ("event", "aggregate_id"))
#: When the user archived a session. A release may lack this column.
_ARCHIVED = ("session", "time_archived")
_LEFTOVERS = (
    ("temporary-pack", "snapshot/*/*/objects/pack/tmp_pack_*"),
    ("temporary-object", "snapshot/*/*/objects/*/tmp_obj_*"),
    ("log", "log/*"),
)
#: Arguments of a process that serves sessions of any folder.
_SERVERS = ("serve", "web", "acp", "attach")


class OpenCode(AgentFormat):
    facts = facts_of(
        "opencode",
        processes=("opencode", "opencode-ai"),
        versions=("1",),
        places=Places(
            files=("storage/session_diff/{id}.json",),
            stores=("opencode.db",),
        ),
    )

    #: A fork overrides these.
    database = "opencode.db"
    databases = (database,)

    def recognise(self, root: Path) -> bool:
        return self._database(root).is_file()

    def is_proven(self, root: Path) -> bool:
        return self.recognise(root)

    def doubt(self, root: Path) -> str | None:
        """Rows that name a session without a foreign key to it would stay behind."""
        there = columns(self._database(root))
        for release in _releases(self._database(root), there):
            if release.partition(".")[0] not in self.facts.versions:
                return f"{self.facts.agent} {release} is newer than Holdfast supports"
        if not there:
            return None
        path = self._database(root)
        loose = untied(path, there, naming="session_id", to=("session", "message"))
        return lacks(path, there, _NEEDED) or not_known(path, loose)

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        there = columns(self._database(root))
        if not there >= _NEEDED:
            return  # just being created, or changed by another release
        weighty = [each for each in _WEIGHTY if each in there]
        told = _last_messages(self._database(root), there)
        archived = "time_archived" if _ARCHIVED in there else "NULL"
        for name, parent, cwd, title, model, started, active, put_away in rows(
            self._database(root),
            "SELECT id, parent_id, directory, title, model, time_created, time_updated, "  # noqa: S608 - our own constants
            f"{archived} FROM session ORDER BY time_created, id",
        ):
            yield Unit(
                id=name,
                active=max(active, told.get(name, 0)) / 1000,
                started=started / 1000,
                parent=parent or "",
                relation=Relation.DELEGATE if parent else None,
                cwd=cwd or "",
                title=title or "",
                model=str(object_in(model).get("id") or ""),
                parts=_parts(root, self._database(root), name, weighty, marked=_ARCHIVED in there),
                archived=bool(put_away),
            )

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """A snapshot belongs to the project: sessions name trees in it. Without it they can go on,
        but not revert a change. So it counts as used when the last session of its project was."""
        for kind, path in matching(root, _LEFTOVERS):
            yield from leftover(kind, path, name_below(root, path))
        used = _last_used(self._database(root))
        for path in sorted(root.glob("snapshot/*/*/")):
            if not path.is_symlink():
                for each in leftover("snapshot", path, name_below(root, path)):
                    yield replace(each, active=max(used.get(path.parent.name, 0.0), each.active))

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        with reading(self._database(root)) as db:
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
                    last, head, parts = name, object_in(data), []
                parts.append(object_in(part))
            if last is not None:
                yield from _messages(head, parts)

    def signs(self, root: Path, now: float) -> Signs:
        """An answer without an end is in progress if a process has the database open; without one,
        it is left over from a crash. Which session an idle process shows is unknown: its working
        directory protects, and a process that serves other folders protects all sessions."""
        holders = life.holders_of(self._database(root))
        if not holders or not columns(self._database(root)) >= _NEEDED:
            return Signs()
        busy = f"process {next(iter(holders))} has {self.database} open"
        open_ = rows(
            self._database(root),
            "SELECT DISTINCT session_id FROM message WHERE json_extract(data, '$.role') ="
            " 'assistant' AND json_extract(data, '$.time.completed') IS NULL",
        )
        serves = any(word in _SERVERS for words in holders.values() for word in words[1:])
        return Signs(
            units={name: busy for (name,) in open_},
            home=f"{busy}, for sessions of any folder" if serves else None,
            rewrites=busy,
        )

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        return sessions_of(self, path, having=_NEEDED)

    def _database(self, root: Path) -> Path:
        """The database of a home, or a database outside one, given by itself."""
        return root if root.is_file() else root / self.database


def _parts(
    root: Path, database: Path, name: str, weighty: Sequence[tuple[str, str]], *, marked: bool
) -> tuple[Part, ...]:
    stamp = "max(time_updated)"
    stamp = f"{stamp} || ':' || coalesce(max({_ARCHIVED[1]}), '')" if marked else stamp
    found = (
        Rows(table="session", column="id", value=name, stamp=stamp),
        Rows(table="event_sequence", column="aggregate_id", value=name, stamp="max(seq)"),
        *(
            Rows(table=table, column=column, value=name, stamp="count(*)")
            for table, column in weighty
        ),
    )
    changed = FilePart(path=root / "storage" / "session_diff" / f"{name}.json")
    return (RowsPart(store=database, rows=found), *([changed] if is_plain_name(name) else []))


def _last_used(database: Path) -> Mapping[str, float]:
    """When each project's sessions were last used."""
    there = columns(database)
    if ("session", "project_id") not in there:
        return {}
    told = _last_messages(database, there)
    used = defaultdict[str, float](float)
    for project, name, at in rows(database, "SELECT project_id, id, time_updated FROM session"):
        used[project] = max(used[project], at / 1000, told.get(name, 0) / 1000)
    return used


def _last_messages(database: Path, there: Collection[tuple[str, str]]) -> Mapping[str, int]:
    """When the last message of each session was begun, in milliseconds: its row may lag behind."""
    if ("message", "time_created") not in there:
        return {}
    found = rows(database, "SELECT session_id, max(time_created) FROM message GROUP BY session_id")
    return {name: at for name, at in found if isinstance(at, int)}


def _releases(database: Path, there: Collection[tuple[str, str]]) -> list[str]:
    """The releases that wrote sessions. Builds without a number are custom ones."""
    if ("session", "version") not in there:
        return []
    found = rows(database, "SELECT DISTINCT version FROM session")
    return [release for (release,) in found if str(release)[:1].isdigit()]


def _messages(head: Record, parts: Sequence[Record]) -> Iterator[Message]:
    at = _moment(head, "created")
    of = {
        kind: [p for p in parts if p.get("type") == kind] for kind in ("text", "reasoning", "tool")
    }
    calls: list[Json] = [
        tool_call(each.get("tool"), (each.get("state") or {}).get("input"), each.get("callID"))
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
            ended = _moment(state, "end")
            yield Message(
                role="tool",
                content=str(state.get("output") or state.get("error")),
                # A call and its result are one record. Anything between them, such as a checkpoint
                # before the tool, needs a time between the two.
                timestamp=at if ended is None else ended,
                tool_name=each.get("tool"),
                tool_call_id=each.get("callID"),
            )


def _moment(said: Record, name: str) -> float | None:
    at = within(said, "time").get(name)
    return at / 1000 if isinstance(at, int | float) else None


def _tokens(said: Any) -> Tokens | None:
    if not isinstance(said, dict):
        return None
    cache = said.get("cache") or {}
    return Tokens(
        input=int(said.get("input") or 0) + int(cache.get("write") or 0),
        output=int(said.get("output") or 0) + int(said.get("reasoning") or 0),
        cached=int(cache.get("read") or 0),
    )

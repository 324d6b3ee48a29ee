"""OpenClaw.

agents/NAME/agent/openclaw-agent.sqlite   the sessions of an agent: one node each, with windows (a
                                          reset begins a new one), and the events of those, as text
                                          or compressed; a full-text index, archived transcripts
agents/NAME/sessions/cold/                events of a window that were put away as a file, which
                                          stays when they are taken back into the database
agents/NAME/sessions/                     transcripts of earlier releases
tmp/openclaw-UID/gateway.*.lock           the process that has the home, one at a time
state/openclaw.sqlite                     devices, tasks, leases; nothing about sessions
cache/                                    scripts of its web page
/tmp/openclaw/                            a log per day, shared by all homes of the user

Most tables refer to a node or a window by a foreign key; the others are listed here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import AgentFormat, facts_of
from holdfast.homes.agents.json_lines import Record, document_in, is_plain_name, parsed
from holdfast.homes.agents.leftovers import leftover, matching, name_below
from holdfast.homes.agents.pi import told
from holdfast.homes.agents.session_tables import lacks, naming_one, not_known, sessions_of
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
    digest,
)
from holdfast.model.session import Message, Relation
from holdfast.stores.files import read_file
from holdfast.stores.sqlite.foreign import columns, named_rows, reading, rows
from holdfast.value import dataclass, field

if sys.platform != "win32":
    import pwd

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_DATABASES = "agents/*/agent/openclaw-agent.sqlite"
_NEEDED = {
    *(("session_nodes", each) for each in ("session_key", "current_session_id", "updated_at")),
    *(("session_windows", each) for each in ("session_id", "session_key", "created_at", "model")),
    *(("transcript_events", each) for each in ("session_id", "seq", "event_json", "event_zstd")),
}
#: The database version that was tested.
_VERSION = 23
#: Tables that belong to a session without a foreign key to it, by the session's key.
_BY_KEY = (
    ("session_canonical_validation_pending", "session_key"),
    ("session_goal_operations", "session_key"),
    ("session_transcript_archives", "session_key"),
    ("message_tool_run_outcomes", "session_key"),
)
#: The same by the id of a window. Events do have a foreign key; they are listed for their size and
#: their stamp.
_BY_WINDOW = (
    ("transcript_events", "session_id", "count(*) || ':' || max(seq)"),
    ("context_engine_turn_outbox", "session_id", ""),
    ("session_transcript_fts_rows", "session_id", ""),
    ("session_transcript_fts", "session_id", "count(*)"),
)
#: Tables that name sessions but belong to the agent: its memory, and its channel messages.
_OTHERS = {
    "memory_entry_origins",
    "memory_session_tombstones",
    "conversation_deliveries",
    "standing_intents",
}
_PLAIN = re.compile(r"[A-Za-z0-9](?::?[A-Za-z0-9_-])*")
_NO_ID = re.compile(r"[^A-Za-z0-9_-]+")
_LEFTOVERS = (
    ("cache", "cache/*"),
    ("log", "logs/*"),
    ("old-transcript", "agents/*/sessions/*"),
    ("cold-archive", "agents/*/sessions/cold/*"),
    ("lock", "tmp/openclaw-*/gateway.*.lock*"),
)
#: Those that an agent's database has, or had.
_OF_AGENTS = ("old-transcript", "cold-archive")
_COLD = "cold"
_ARCHIVES = "session_transcript_cold_archives"
#: OpenClaw's log folder, wherever its home is. Shown only with the home in the default place.
LOGS = Path("/tmp/openclaw")  # noqa: S108 - OpenClaw's fixed path


class OpenClaw(AgentFormat):
    facts = facts_of(
        "openclaw",
        processes=("openclaw", "openclaw-agent", "openclaw-gateway"),
        versions=("2026",),
        places=Places(
            files=("agents/*/sessions/cold/*",),
            stores=("agents/*/agent/openclaw-agent.sqlite",),
        ),
    )
    proofs = (_DATABASES,)
    databases = (_DATABASES,)

    def recognise(self, root: Path) -> bool:
        return any(root.glob(_DATABASES))

    def doubt(self, root: Path) -> str | None:
        for path in _databases(root):
            there = columns(path)
            [[version]] = rows(path, "PRAGMA user_version")
            if there and version != _VERSION:
                return f"form {version} of {path.name} is not the one that Holdfast knows"
            why = lacks(path, there, _NEEDED) if there else None
            why = why or not_known(path, _loose(path, there))
            if why:
                return why
        return None

    def roots(self, root: Path) -> Sequence[Path]:
        return [root, LOGS] if _has_logs(root) else [root]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        for path in _databases(root):
            there = columns(path)
            if there >= _NEEDED:
                yield from _units(path, there)

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """An archive file holds the only copy of its events as long as the database names it. An
        agent without a database has nowhere to have taken its transcripts back to."""
        stored = {path.parents[1] for path in _databases(root)}
        named = {
            _cold_folder(database) / name
            for database in _databases(root)
            for name in _archives(database).values()
        }
        for kind, path in matching(root, _LEFTOVERS):
            if kind in _OF_AGENTS and not any(path.is_relative_to(each) for each in stored):
                continue
            if path not in named and not (kind == "old-transcript" and path.name == _COLD):
                yield from leftover(kind, path, name_below(root, path))
        for kind, path in matching(LOGS, [("log", "openclaw-*.log")]) if _has_logs(root) else ():
            yield from leftover(kind, path, f"tmp:{path.name}")

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        for path in _databases(root):
            keys = [key for (key,) in rows(path, "SELECT session_key FROM session_nodes")]
            windows = rows(
                path,
                "SELECT session_id FROM session_windows WHERE session_key = ?"
                " ORDER BY created_at, session_id",
                (next((each for each in keys if _id(each) == unit.id), None),),
            )
            archives = _archives(path) if windows else {}
            for (window,) in windows:
                for event in _cold_events(path, window) if window in archives else ():
                    yield from told(event)
                with reading(path) as db:
                    for text, packed in db.execute(
                        "SELECT event_json, event_zstd FROM transcript_events"
                        " WHERE session_id = ? ORDER BY seq",
                        (window,),
                    ):
                        yield from told(_event(text, packed))

    def signs(self, root: Path, now: float) -> Signs:
        """One process has the whole home, embedded or as a gateway. Its locks on the databases next
        to the lock files end with it; the lock files survive a crash, so the start time of the
        process must match."""
        locks = sorted(root.glob("tmp/openclaw-*/gateway.*.lock.sqlite"))
        if held := life.held({path.name: path for path in locks}):
            return Signs(home=next(iter(held.values())))
        for path in sorted(root.glob("tmp/openclaw-*/gateway.*.lock")):
            said = document_in(path)
            process, began = said.get("pid"), said.get("startTime")
            if isinstance(process, int):
                why = life.registered(process, began=None if began is None else str(began))
                if why:
                    return Signs(home=f"{path.name}: {why}")
        return Signs(home=life.opened_by(_databases(root)))

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        return sessions_of(self, path, having=_NEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Windows:
    """The windows of one session: their ids, the start of the first, and the archive name of each
    window whose events were archived."""

    ids: tuple[str, ...] = ()
    started: float | None = None
    model: str = ""
    cold: Mapping[str, str] = field(default_factory=dict)


def _units(path: Path, there: Collection[tuple[str, str]]) -> Iterator[Unit]:
    windows = _windows(path)
    cwds = _folders(path)
    told = _last_events(path, there)
    for row in named_rows(path, "SELECT * FROM session_nodes ORDER BY updated_at, session_key"):
        name = str(row["session_key"])
        mine = windows.get(name, _Windows())
        parent = _id(str(row.get("spawned_by") or ""))
        times = [row.get(each) for each in ("updated_at", "last_activity_at")]
        times += [told.get(each) for each in mine.ids]  # the row may lag behind
        yield Unit(
            id=_id(name),
            active=max((each for each in times if isinstance(each, int)), default=0) / 1000,
            started=mine.started,
            parent=parent,
            relation=Relation.DELEGATE if parent else None,
            source=str(row.get("created_via") or ""),
            cwd=next((cwds[each] for each in reversed(mine.ids) if each in cwds), ""),
            title=str(row.get("display_name") or row.get("label") or ""),
            model=mine.model,
            pinned=bool(row.get("pinned_at")),
            archived=bool(row.get("archived_at")),
            parts=_parts(path, name, mine, {table for table, _ in there}),
        )


def _id(key: str) -> str:
    """The key of a session as an id: `agent:main:explicit:one` becomes `agent.main.explicit.one`. A
    key with other characters than words and colons gets a checksum, so that ids stay unique."""
    name = _NO_ID.sub(".", key).strip(".")
    return name if not key or _PLAIN.fullmatch(key) else f"{name}.{digest(key)[:8]}"


def _windows(path: Path) -> Mapping[str, _Windows]:
    cold = _archives(path)
    found: dict[str, _Windows] = {}
    for name, key, at, model in rows(
        path,
        "SELECT session_id, session_key, created_at, model FROM session_windows"
        " ORDER BY created_at, session_id",
    ):
        before = found.get(str(key), _Windows())
        found[str(key)] = _Windows(
            ids=(*before.ids, str(name)),
            started=before.started or at / 1000,
            model=str(model or before.model),
            cold={**before.cold, **({str(name): cold[str(name)]} if str(name) in cold else {})},
        )
    return found


def _last_events(path: Path, there: Collection[tuple[str, str]]) -> Mapping[str, object]:
    """When the last event of each window was written, in milliseconds."""
    if ("transcript_events", "created_at") not in there:
        return {}
    found = rows(
        path,
        "SELECT session_id, (SELECT created_at FROM transcript_events AS e"
        " WHERE e.session_id = w.session_id ORDER BY seq DESC LIMIT 1) FROM session_windows AS w",
    )
    return {str(name): at for name, at in found}


def _archives(path: Path) -> Mapping[str, str]:
    """The archive of each window whose events were archived."""
    if not rows(path, "SELECT 1 FROM sqlite_schema WHERE name = ?", (_ARCHIVES,)):
        return {}
    asked = f"SELECT session_id, archive_name FROM {_ARCHIVES}"  # noqa: S608 - our own constant
    return {str(name): str(file) for name, file in rows(path, asked)}


def _cold_folder(path: Path) -> Path:
    """The folder with the archives of a database."""
    above = path.parent.parent / "sessions" if path.parent.name == "agent" else path.parent
    return above / _COLD


def _cold_events(path: Path, window: str) -> Iterator[Record]:
    """The archived events of a window, from the file or from the database."""
    [[name, blob]] = rows(
        path,
        f"SELECT archive_name, archive_blob FROM {_ARCHIVES} WHERE session_id = ?",  # noqa: S608
        (window,),
    )
    try:
        file = _cold_folder(path) / str(name)
        packed = blob if blob or not is_plain_name(str(name)) else read_file(file)
        said = zstd.decompress(packed or b"")
    except (FileNotFoundError, zstd.ZstdError):
        return
    for record in (each for line in said.split(b"\n") for each in parsed(line)):
        row = record.get("row")
        if record.get("kind") == "event" and isinstance(row, dict):
            yield _event(row.get("event_json"), None)


def _has_logs(root: Path) -> bool:
    """True if the user's logs are shown with this home: only the one in the default place has them.
    The user's home folder comes from the system, not from the environment."""
    if sys.platform == "win32":
        return False
    owner = pwd.getpwuid(os.getuid()).pw_dir
    return os.path.realpath(root) == os.path.join(os.path.realpath(owner), OpenClaw.facts.folder)  # noqa: PTH118 - plain strings


def _folders(path: Path) -> Mapping[str, str]:
    """The working directory of each window, from its first event."""
    first = rows(
        path, "SELECT session_id, event_json, event_zstd FROM transcript_events WHERE seq = 0"
    )
    said = {str(name): _event(text, packed) for name, text, packed in first}
    return {name: str(event["cwd"]) for name, event in said.items() if event.get("cwd")}


def _parts(path: Path, name: str, mine: _Windows, tables: Collection[str]) -> tuple[Part, ...]:
    named = [
        Rows(table="session_nodes", column="session_key", value=name),
        *(Rows(table=table, column=column, value=name) for table, column in _BY_KEY),
        *(
            Rows(table=table, column=column, value=window, stamp=stamp)
            for window in mine.ids
            for table, column, stamp in _BY_WINDOW
        ),
    ]
    cold = _cold_folder(path)
    return (
        RowsPart(
            store=path,
            rows=tuple(each for each in named if each.table in tables),
            numbered=("session_transcript_fts_rows", "session_transcript_fts"),
        ),
        *(FilePart(path=cold / each) for each in mine.cold.values() if is_plain_name(each)),
    )


def _loose(path: Path, there: Collection[tuple[str, str]]) -> set[str]:
    """Unknown tables that name sessions without a foreign key to one."""
    naming = naming_one(there, "session_id", "session_key")
    tied = {
        str(table)
        for (table,) in rows(
            path,
            "SELECT DISTINCT t.name FROM sqlite_schema AS t, pragma_foreign_key_list(t.name)"
            " WHERE t.type = 'table'",
        )
    }
    known = {"session_nodes", *_OTHERS}
    known |= {table for table, _ in _BY_KEY} | {table for table, _, _ in _BY_WINDOW}
    return naming - tied - known


def _databases(root: Path) -> list[Path]:
    """The databases of a home, or one database outside a home."""
    return [root] if root.is_file() else sorted(root.glob(_DATABASES))


def _event(text: Any, packed: Any) -> Record:
    """One event; long ones are compressed. Empty if it is damaged."""
    if isinstance(packed, bytes):
        try:
            return next(parsed(zstd.decompress(packed)), {})
        except zstd.ZstdError:
            return {}
    return next(parsed(str(text).encode()), {}) if text else {}

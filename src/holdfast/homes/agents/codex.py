"""Codex.

sessions/Y/M/D/rollout-TIME-ID.jsonl   the transcript; archived_sessions/ holds those it archived
state_5.sqlite                         one row per thread, with the absolute path of its rollout
thread_history_1.sqlite                turns and items, with byte offsets into the rollout
goals_1, memories_1, queue_1, logs_2   more rows about threads
thread-writer-locks/ID.lock            locked while a process writes the thread
shell_snapshots/ID.*, tui-thread-reference-capabilities/ID, history.jsonl
packages/                              the daemon's program, one copy per release

A rollout is moved whole or not at all: databases point into it by offset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import TranscriptFormat, facts_of, trace
from holdfast.homes.agents.appended_transcript import Lines
from holdfast.homes.agents.json_lines import (
    Record,
    document_in,
    first_records,
    last_records,
    moment,
    names_in,
    object_in,
    objects_in,
    opening,
    starting_with,
    unit_of,
    within,
)
from holdfast.homes.agents.leftovers import leftover, matching, programs
from holdfast.homes.agents.message_blocks import CODEX, item_messages, item_text
from holdfast.homes.agents.session_tables import Tables, not_known
from holdfast.model.part import (
    FilePart,
    Known,
    Leftover,
    Part,
    Places,
    Role,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Message, Relation
from holdfast.stores.files import read_file
from holdfast.stores.sqlite.foreign import columns, named_rows, rows
from holdfast.value import replace

#: The rows that belong to a thread: table and column, by database and its known version.
_BELONG = {
    "state_5": (
        ("threads", "id"),
        ("thread_read_receipts", "thread_id"),
        ("thread_spawn_edges", "child_thread_id"),
        ("thread_attachments", "thread_id"),
        ("thread_dynamic_tools", "thread_id"),
        ("guardian_review_feedback", "thread_id"),
    ),
    "thread_history_1": (
        ("thread_history_projection_state", "thread_id"),
        ("thread_turns", "thread_id"),
        ("thread_items", "thread_id"),
        ("thread_realtime_items", "thread_id"),
    ),
    "goals_1": (("thread_goals", "thread_id"), ("thread_goal_continuation_deferrals", "thread_id")),
    "memories_1": (("stage1_outputs", "thread_id"),),
    "queue_1": (("queued_items", "thread_id"), ("queued_thread_revisions", "thread_id")),
    "logs_2": (("logs", "thread_id"),),
}
#: What of a thread's row is told by its stamp, where the release has it. A pin changes nothing else
#: in the row, not even its length.
_TOLD = (
    *("updated_at", "updated_at_ms", "recency_at_ms", "archived", "archived_at", "is_pinned"),
    *("title", "name", "rollout_path", "tokens_used"),
)
#: The progress of a task of Codex's own. It names the last thread, and stays.
_MARKS = {"rollout_migration_state"}
#: How messages begin that Codex itself wrote, if the rollout does not name their author.
_CONTEXT = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<skills_instructions>",
    "# AGENTS.md instructions",
)
_LEFTOVERS = (
    ("shell-snapshot", "shell_snapshots/*"),
    ("marker", "tui-thread-reference-capabilities/*"),
    ("daemon-log", "app-server-daemon/*.log"),
    ("temporary", ".tmp/plugins-clone-*"),
)
_STATE = "state_5"
#: `codex archive` moves the rollout here.
_ARCHIVED = "archived_sessions"
_DATABASE = re.compile(r"([a-z_]+)_(\d+)\.sqlite")
_ROLLOUT = re.compile(r"rollout-.+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl")


class Codex(TranscriptFormat):
    facts = facts_of(
        "codex",
        processes=("codex",),
        versions=tuple(_BELONG),
        places=Places(
            files=(
                "sessions/*/*/*/rollout-*-{id}.jsonl",
                "archived_sessions/rollout-*-{id}.jsonl",
                "shell_snapshots/{id}.*",
                "tui-thread-reference-capabilities/{id}",
                "thread-writer-locks/{id}.lock",
            ),
            stores=("*.sqlite",),
            lines=("history.jsonl",),
        ),
    )
    proofs = (
        "state_[0-9]*.sqlite",
        "sessions/[0-9][0-9][0-9][0-9]/[0-9][0-9]/*/rollout-*.jsonl",
        "archived_sessions/rollout-*.jsonl",
    )
    emptied = ("sessions/[0-9][0-9][0-9][0-9]/[0-9][0-9]",)
    folders = ("sessions/*/*/*", "archived_sessions")
    databases = tuple(f"{name}.sqlite" for name in _BELONG)
    #: Only these records of a rollout are messages or usage.
    having = (b'"response_item"', b'"token_usage_record"', b'"token_count"')

    def recognise(self, root: Path) -> bool:
        """Other agents' homes have `sessions` and `config.toml` too; a year below `sessions` is
        Codex's."""
        return (
            any(root.glob("state_*.sqlite"))
            or (root / _ARCHIVED).is_dir()
            or ((root / "sessions").is_dir() and (root / "installation_id").is_file())
            or any(root.glob("sessions/[0-9][0-9][0-9][0-9]/[0-9][0-9]"))
        )

    def doubt(self, root: Path) -> str | None:
        if why := _strange_database(root):
            return why
        try:
            if _names_another_place(root / "config.toml"):
                return "its databases are elsewhere (`sqlite_home` in config.toml)"
        except OSError as error:
            return f"config.toml cannot be read ({error.strerror})"
        return _why_strange(_tables(root))

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        tables = _tables(root)
        threads, parents = _threads(root)
        rollouts = _rollouts(root)
        snapshots = sorted(names_in(root / "shell_snapshots"))
        stamps = _stamps(root)
        for name in sorted({*threads, *rollouts}):
            path = rollouts.get(name)
            unit = threads.get(name)
            if unit is None and path is not None:  # older than the database, or not in it yet
                unit = unit_of(path, known, partial(_read, name), name=name)
            elif unit is not None and path is not None:
                # A row may lag behind: a rollout copied from another machine, or a killed process.
                told = unit_of(path, known, partial(_told, unit), name=name)
                unit = replace(unit, active=max(unit.active, told.active if told else 0.0))
            if unit is not None:
                put_away = path is not None and path.parent.name == _ARCHIVED
                parent = parents.get(name) or unit.parent
                yield replace(
                    unit,
                    parts=_parts(root, name, path, tables, snapshots, stamps),
                    parent=parent,
                    relation=Relation.DELEGATE if parent else None,
                    transcript=path,
                    archived=unit.archived or put_away,
                )

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        threads = {*_threads(root)[0], *_rollouts(root)}
        for releases in sorted(root.glob("packages/*/releases")):
            found = sorted(releases.iterdir(), key=lambda path: path.lstat().st_mtime)
            yield from programs(found, releases.parent.name)  # the daemon runs from the latest
        for kind, path in matching(root, _LEFTOVERS):
            if path.name[:36] not in threads:
                yield from leftover(kind, path)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        return iter(()) if unit.transcript is None else super().messages(root, unit)

    def signs(self, root: Path, now: float) -> Signs:
        """A process that writes a thread holds the thread's lock. The daemon outlives its windows,
        and may resume any thread."""
        locks = root.glob("thread-writer-locks/*-*.lock")
        return Signs(
            units=life.held({path.stem: path for path in locks}),
            home=_daemon(root / "app-server-daemon"),
        )

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        for said in opening(path):
            meta = said.get("payload")
            if said.get("type") == "session_meta" and isinstance(meta, dict) and "id" in meta:
                return iter([self.told(path, _read(str(meta["id"]), path))])
        return None

    def spoken(self, lines: Lines) -> Iterator[Message]:
        """The messages of a rollout. The usage of an answer is recorded after it."""
        waiting: list[Message] = []
        for said in lines:
            if not waiting:
                lines.settle()
            payload = said.get("payload")
            if not isinstance(payload, dict):
                continue
            if said.get("type") == "response_item":
                at = moment(said.get("timestamp"))
                waiting += item_messages(payload, at=at, injected=_is_injected(payload))
            elif waiting:
                usage = payload.get("usage") or (payload.get("info") or {}).get("last_token_usage")
                yield from waiting[:-1]
                last = waiting[-1]
                yield replace(last, tokens=CODEX(usage)) if last.role == "assistant" else last
                waiting = []
        yield from waiting


def _daemon(folder: Path) -> str | None:
    """Return why the daemon counts as running, by its lock or process; None if it does not."""
    if why := life.locked(folder / "daemon.lock"):
        return f"{why}: its daemon is running"
    path = folder / "daemon.pid"
    try:
        said = document_in(path) if path.exists() else {}
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"
    process, began = said.get("pid"), within(said, "processIdentity").get("startTicks")
    if not isinstance(process, int):  # torn; the lock check covers a write in progress
        return None
    if life.registered(process, began=None if began is None else str(began)) is None:
        return None
    return f"process {process} is its daemon, which keeps running after its windows are closed"


def _is_injected(payload: Record) -> bool:
    """True if Codex itself wrote a message. A current rollout records this for each part of it."""
    noted = within(payload, "internal_chat_message_metadata_passthrough")
    pieces = noted.get("content_item_metadata")
    if isinstance(pieces, list) and pieces:
        makers = (within(each, "provenance") for each in objects_in(pieces))
        return all(each.get("type") == "harness" for each in makers)
    return payload.get("role") == "developer" or item_text(payload).startswith(_CONTEXT)


def _strange_database(root: Path) -> str | None:
    """A database that we do not know, or that is not where it was: it says what is pinned."""
    for name in sorted(names_in(root)):
        found = _DATABASE.fullmatch(name)
        if found is not None and _is_strange(found[1], int(found[2]), root):
            return f"{name} is not known"
        if found is not None and not (root / name).exists():
            return f"{name} is a symbolic link to nothing"
    return None


def _is_strange(name: str, number: int, root: Path) -> bool:
    """True if we do not know this database. An earlier version may still be next to its successor,
    which took over its contents."""
    known = next((each for each in _BELONG if each.rpartition("_")[0] == name), None)
    if known is None:
        return True
    newest = int(known.rpartition("_")[2])
    return number > newest or (number < newest and not (root / f"{known}.sqlite").exists())


def _why_strange(tables: Mapping[str, Tables]) -> str | None:
    """Why the databases of a home are not ones that we know."""
    for name, each in tables.items():
        if name == _STATE and ("threads", "id") not in each.rows:
            return f"{each.path.name} has no table of threads: Codex may be changing it"
        if why := not_known(each.path, {*each.unknown} - _MARKS):
            return why
    return None


def _names_another_place(config: Path) -> bool:
    try:
        lines = read_file(config).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return False
    return any(line.partition("=")[0].strip() == "sqlite_home" for line in lines)


def _rollouts(root: Path) -> Mapping[str, Path]:
    """The transcripts by thread. The paths in the database are absolute, and wrong after the home
    was copied or moved: only names count."""
    places = (f"{_ARCHIVED}/rollout-*.jsonl", "sessions/*/*/*/rollout-*.jsonl")
    found = (path for pattern in places for path in root.glob(pattern))
    return {name[1]: path for path in found if (name := _ROLLOUT.fullmatch(path.name))}


def _tables(root: Path) -> Mapping[str, Tables]:
    there = {name: root / f"{name}.sqlite" for name in _BELONG}
    return {
        name: Tables.of(path, _BELONG[name], naming="thread_id")
        for name, path in there.items()
        if path.exists()
    }


def _threads(root: Path) -> tuple[Mapping[str, Unit], Mapping[str, str]]:
    """The threads in the database, and the parents of those that another thread started."""
    path = root / f"{_STATE}.sqlite"
    there = columns(path) if path.exists() else set()
    if ("threads", "id") not in there:
        return {}, {}
    found = named_rows(path, "SELECT * FROM threads")
    edges = []
    if ("thread_spawn_edges", "parent_thread_id") in there:
        edges = rows(path, "SELECT child_thread_id, parent_thread_id FROM thread_spawn_edges")
    parents = {str(child): str(parent) for child, parent in edges}
    return {str(row["id"]): _from_row(row) for row in found}, parents


def _stamps(root: Path) -> Mapping[str, str]:
    """The expression that changes with the row of a thread."""
    path = root / f"{_STATE}.sqlite"
    there = columns(path) if path.exists() else set()
    told = [f"coalesce(max({each}), '')" for each in _TOLD if ("threads", each) in there]
    return {"threads": " || ':' || ".join(told)} if told else {}


def _from_row(row: Record) -> Unit:
    active = row.get("recency_at_ms") or row.get("updated_at_ms")
    started = row.get("created_at_ms")
    return Unit(
        id=str(row["id"]),
        active=active / 1000 if active else float(row.get("updated_at") or 0),
        parts=(),
        started=started / 1000 if started else row.get("created_at"),
        source=_source(row.get("source"))[0],
        parent=_source(row.get("source"))[1],
        cwd=str(row.get("cwd") or ""),
        title=str(row.get("name") or row.get("title") or ""),
        model=str(row.get("model") or ""),
        pinned=bool(row.get("is_pinned")),
        archived=bool(row.get("archived")),
    )


def _source(said: Any) -> tuple[str, str]:
    """Where a thread came from, and the thread that started it. Codex writes a word, or for a
    subagent an object (in a row as JSON text)."""
    if isinstance(said, str) and said.startswith("{"):
        said = object_in(said) or said
    if not isinstance(said, dict):
        return str(said or ""), ""
    source = next(iter(said), "")
    parent = within(said, source, "thread_spawn").get("parent_thread_id")
    return source, str(parent or "")


def _read(name: str, path: Path) -> Unit:
    meta: Record = {}
    started = None
    model = ""
    for said in first_records(path):
        payload = said.get("payload")
        if not isinstance(payload, dict):
            continue
        if said.get("type") == "session_meta" and not meta:
            meta, started = payload, moment(said.get("timestamp"))
        elif said.get("type") == "turn_context":
            model = str(payload.get("model") or "")
            break
    source, parent = _source(meta.get("source"))
    return Unit(
        id=name,
        active=_last_record(path) or path.stat().st_mtime,
        parts=(),
        started=started,
        source=source,
        parent=parent,
        relation=Relation.DELEGATE if parent else None,
        cwd=str(meta.get("cwd") or ""),
        model=model,
        transcript=path,
    )


def _told(row: Unit, path: Path) -> Unit:
    """The unit of a row, with what its rollout tells."""
    return replace(row, active=_last_record(path) or path.stat().st_mtime)


def _last_record(path: Path) -> float | None:
    """When the last record was written."""
    times = (moment(said.get("timestamp")) for said in last_records(path))
    return next((at for at in times if at), None)


def _parts(
    root: Path,
    name: str,
    path: Path | None,
    tables: Mapping[str, Tables],
    snapshots: Sequence[str],
    stamps: Mapping[str, str],
) -> tuple[Part, ...]:
    return (
        *(
            each.part(name, Role.TRACE if database.startswith("logs_") else Role.REFERENCE, stamps)
            for database, each in tables.items()
            if each.rows
        ),
        *(() if path is None else (FilePart(path=path),)),
        *(
            FilePart(path=root / "shell_snapshots" / each)
            for each in starting_with(f"{name}.", snapshots)
        ),
        FilePart(path=root / "tui-thread-reference-capabilities" / name),
        FilePart(path=root / "thread-writer-locks" / f"{name}.lock"),
        trace(root / "history.jsonl", name, key="session_id", lines=True),
    )

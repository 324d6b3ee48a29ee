"""Codex.

sessions/Y/M/D/rollout-TIME-ID.jsonl   the transcript; archived_sessions/ holds those it archived
state_5.sqlite                         a row a thread, with the absolute path of its rollout
thread_history_1.sqlite                turns and items, with byte offsets into the rollout
goals_1, memories_1, queue_1, logs_2   more rows about threads
thread-writer-locks/ID.lock            locked while somebody writes the thread
shell_snapshots/ID.*, tui-thread-reference-capabilities/ID, history.jsonl
packages/                              programs of the daemon, a copy a release

A rollout moves whole or not at all: databases point into it by offset.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes import life
from holdfast.homes.records import (
    Record,
    first_records,
    last_records,
    moment,
    opening,
    records,
    text_of,
)
from holdfast.model.part import (
    Facts,
    FilePart,
    FolderPart,
    Known,
    Leftover,
    LinePart,
    Part,
    Role,
    Rows,
    RowsPart,
    Signs,
    Transcript,
    Unit,
)
from holdfast.model.session import Message, Relation, Tokens
from holdfast.stores.sqlite.foreign import columns, named_rows, rows
from holdfast.value import dataclass, replace

#: The rows that belong to a thread: by database, with its known version, table and column.
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
_ROLLOUT = re.compile(r"rollout-.+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """One database: which of the known tables it has, and which unknown ones name threads."""

    path: Path
    rows: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]
    role: Role


class Codex:
    facts = Facts(
        name="codex",
        agent="Codex",
        folder=".codex",
        environment="CODEX_HOME",
        processes=("codex",),
        versions=tuple(_BELONG),
    )

    def recognise(self, root: Path) -> bool:
        if not any((root / each).is_dir() for each in ("sessions", "archived_sessions")):
            return any(root.glob("state_*.sqlite"))
        return any((root / each).exists() for each in ("config.toml", "installation_id")) or any(
            root.glob("state_*.sqlite")
        )

    def doubt(self, root: Path) -> str | None:
        for path in sorted(root.glob("*_*.sqlite")):
            if path.stem not in _BELONG:
                return f"{path.name} is not known"
        for store in _stores(root):
            if store.unknown:
                return f"{store.path.name} has a table that is not known: {store.unknown[0]}"
        return None

    def roots(self, root: Path) -> Sequence[Path]:
        return [root]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        stores = _stores(root)
        threads, parents = _threads(root)
        rollouts = _rollouts(root)
        for name in sorted({*threads, *rollouts}):
            path = rollouts.get(name)
            unit = threads.get(name)
            if unit is None and path is not None:  # older than the database, or not in it yet
                unit = known(path) or _read(name, path)
            if unit is not None:
                parent = parents.get(name, "")
                yield replace(
                    unit,
                    parts=_parts(root, name, path, stores),
                    parent=parent,
                    relation=Relation.DELEGATE if parent else None,
                )

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        threads = {*_threads(root)[0], *_rollouts(root)}
        for path in sorted(root.glob("packages/*/releases/*")):
            yield _leftover("program", path, f"{path.parts[-3]}-{path.name}")
        for kind, pattern in (
            ("shell-snapshot", "shell_snapshots/*"),
            ("marker", "tui-thread-reference-capabilities/*"),
            ("daemon-log", "app-server-daemon/*.log"),
            ("temporary", ".tmp/plugins-clone-*"),
        ):
            for path in sorted(root.glob(pattern)):
                if path.name[:36] not in threads:
                    yield _leftover(kind, path, path.name)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        path = _rollouts(root).get(unit.id)
        if path is not None:
            yield from spoken(path)

    def signs(self, root: Path, now: float) -> Signs:
        """Whoever writes a thread holds the lock of that thread. The daemon keeps threads in memory
        and holds their locks too; its own lock file says that it runs."""
        held = {path.stem: life.locked(path) for path in root.glob("thread-writer-locks/*-*.lock")}
        return Signs(
            units={name: why for name, why in held.items() if why},
            rewrites=life.locked(root / "app-server-daemon" / "daemon.lock"),
        )

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        for said in opening(path):
            meta = said.get("payload")
            if said.get("type") == "session_meta" and isinstance(meta, dict) and "id" in meta:
                unit = _read(str(meta["id"]), path)
                return iter([Transcript(path=path, unit=unit, messages=spoken(path))])
        return None


def spoken(path: Path) -> Iterator[Message]:
    """What was said in a rollout. The usage of an answer is recorded after it."""
    waiting: list[Message] = []
    for said in records(path, (b'"response_item"', b'"token_usage_record"', b'"token_count"')):
        payload = said.get("payload")
        if not isinstance(payload, dict):
            continue
        if said.get("type") == "response_item":
            waiting += _message(payload, moment(said.get("timestamp")))
        elif waiting:
            usage = payload.get("usage") or (payload.get("info") or {}).get("last_token_usage")
            yield from waiting[:-1]
            last = waiting[-1]
            yield replace(last, tokens=_tokens(usage)) if last.role == "assistant" else last
            waiting = []
    yield from waiting


def _message(payload: Record, at: float | None) -> list[Message]:
    match payload.get("type"):
        case "message":
            kinds = ("input_text", "output_text", "text")
            text = text_of(payload.get("content"), kinds)
            role = str(payload.get("role") or "assistant")
            return [Message(role=role, content=text, timestamp=at)]
        case "reasoning":
            text = text_of(payload.get("summary"), ("summary_text",))
            return [Message(role="assistant", reasoning=text, timestamp=at)] if text else []
        case "function_call" | "custom_tool_call" | "local_shell_call":
            call = {
                "id": payload.get("call_id"),
                "name": payload.get("name") or payload["type"],
                "arguments": payload.get("arguments")
                or payload.get("input")
                or payload.get("action"),
            }
            return [Message(role="assistant", content="", timestamp=at, tool_calls=[call])]
        case "function_call_output" | "custom_tool_call_output":
            output = payload.get("output")
            text = output if isinstance(output, str) else json.dumps(output)
            called = payload.get("call_id")
            return [Message(role="tool", content=text, timestamp=at, tool_call_id=called)]
        case _:
            return []


def _tokens(usage: Any) -> Tokens | None:
    if not isinstance(usage, dict):
        return None
    cached = int(usage.get("cached_input_tokens") or 0)
    return Tokens(
        input=int(usage.get("input_tokens") or 0) - cached,
        output=int(usage.get("output_tokens") or 0),
        cached=cached,
    )


def _rollouts(root: Path) -> Mapping[str, Path]:
    """The transcripts by thread. Their paths in the database are absolute, and those of another
    home after a copy or a move: only names count."""
    found = {}
    for pattern in ("archived_sessions/rollout-*.jsonl", "sessions/*/*/*/rollout-*.jsonl"):
        for path in root.glob(pattern):
            name = _ROLLOUT.fullmatch(path.name)
            if name is not None:
                found[name[1]] = path
    return found


def _stores(root: Path) -> Sequence[_Store]:
    found = []
    for name, wanted in _BELONG.items():
        path = root / f"{name}.sqlite"
        if not path.exists():
            continue
        there = columns(path)
        naming = {table for table, column in there if column == "thread_id"}
        found.append(
            _Store(
                path=path,
                rows=tuple(each for each in wanted if each in there),
                unknown=tuple(sorted(naming - {table for table, _ in wanted})),
                role=Role.TRACE if name.startswith("logs_") else Role.REFERENCE,
            )
        )
    return found


def _threads(root: Path) -> tuple[Mapping[str, Unit], Mapping[str, str]]:
    """The threads in the database, and the parents of those that another thread started."""
    path = root / "state_5.sqlite"
    if not path.exists():
        return {}, {}
    found = named_rows(path, "SELECT * FROM threads")
    edges = rows(path, "SELECT child_thread_id, parent_thread_id FROM thread_spawn_edges")
    parents = {str(child): str(parent) for child, parent in edges}
    return {str(row["id"]): _from_row(row) for row in found}, parents


def _from_row(row: Record) -> Unit:
    active = row.get("recency_at_ms") or row.get("updated_at_ms")
    started = row.get("created_at_ms")
    return Unit(
        id=str(row["id"]),
        active=active / 1000 if active else float(row.get("updated_at") or 0),
        parts=(),
        started=started / 1000 if started else row.get("created_at"),
        source=str(row.get("source") or ""),
        cwd=str(row.get("cwd") or ""),
        title=str(row.get("name") or row.get("title") or ""),
        model=str(row.get("model") or ""),
    )


def _read(name: str, path: Path) -> Unit:
    meta: Record = {}
    started = None
    for said in first_records(path):
        if said.get("type") == "session_meta" and isinstance(said.get("payload"), dict):
            meta, started = said["payload"], moment(said.get("timestamp"))
            break
    times = (moment(said.get("timestamp")) for said in last_records(path))
    return Unit(
        id=name,
        active=next((at for at in times if at), None) or path.stat().st_mtime,
        parts=(),
        started=started,
        source=str(meta.get("source") or ""),
        cwd=str(meta.get("cwd") or ""),
    )


def _parts(root: Path, name: str, path: Path | None, stores: Sequence[_Store]) -> tuple[Part, ...]:
    rows = (
        RowsPart(
            store=store.path,
            rows=tuple(
                Rows(table=table, column=column, value=name) for table, column in store.rows
            ),
            role=store.role,
        )
        for store in stores
        if store.rows
    )
    snapshots = sorted(root.glob(f"shell_snapshots/{glob.escape(name)}.*"))
    return (
        *rows,
        *(() if path is None else (FilePart(path=path),)),
        *(FilePart(path=each) for each in snapshots),
        FilePart(path=root / "tui-thread-reference-capabilities" / name),
        FilePart(path=root / "thread-writer-locks" / f"{name}.lock"),
        LinePart(
            path=root / "history.jsonl", key="session_id", value=name, lines=True, role=Role.TRACE
        ),
    )


def _leftover(kind: str, path: Path, name: str) -> Leftover:
    part = FolderPart(path=path) if path.is_dir() and not path.is_symlink() else FilePart(path=path)
    return Leftover(kind=kind, id=name, active=path.lstat().st_mtime, parts=(part,))

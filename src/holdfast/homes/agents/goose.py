"""Goose.

sessions/sessions.db     sessions and their messages; no other file belongs to a session
sessions/*.jsonl         transcripts of earlier releases, imported into the database
../../state/goose/logs/  a log per start, and the last requests to a model in full

With GOOSE_PATH_ROOT, the two folders are `data` and `state` below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import AgentFormat, facts_of
from holdfast.homes.agents.json_lines import INJECTED, Record, moment, text_of
from holdfast.homes.agents.leftovers import leftover, matching, name_below
from holdfast.homes.agents.message_blocks import blocks_of, tokens_in, tool_call
from holdfast.homes.agents.session_tables import Tables, has_or_hides, lacks, not_known, sessions_of
from holdfast.model.part import Known, Leftover, Places, Rows, RowsPart, Signs, Transcript, Unit
from holdfast.model.session import Message, Relation, Tokens
from holdfast.model.usage import Usage
from holdfast.stores.sqlite.foreign import columns, named_rows, reading, rows
from holdfast.value import replace

_DATABASE = Path("sessions") / "sessions.db"
_BELONG = (("sessions", "id"), ("messages", "session_id"))
_NEEDED = {
    *(("sessions", each) for each in ("id", "name", "working_dir", "created_at", "updated_at")),
    *(("messages", each) for each in ("id", "session_id", "role", "content_json")),
    ("messages", "created_timestamp"),
    ("schema_version", "version"),
}
#: The newest schema that was tested.
_NEWEST = 13
#: Goose's placeholder titles for a session.
_UNNAMED = ("CLI Session", "New session", "New Chat")
_STARTED = '"subagent_session_id"'
_SUBAGENT = re.compile(rf'{_STARTED}:\s*"([^"]+)"')
_LOGS = (
    ("log", "logs/*/*/*.log"),
    ("request", "logs/llm_request.*.jsonl"),
)


class Goose(AgentFormat):
    facts = facts_of(
        "goose",
        processes=("goose", "goosed"),
        versions=("1",),
        places=Places(
            stores=("sessions/sessions.db",),
        ),
    )
    proofs = ("sessions/sessions.db",)
    left = (("old-transcript", "sessions/*.jsonl"),)
    databases = (str(_DATABASE),)

    def recognise(self, root: Path) -> bool:
        return _database(root).is_file()

    def is_proof(self, path: Path) -> bool:
        return has_or_hides(path, ("sessions", "working_dir"))

    def doubt(self, root: Path) -> str | None:
        there = columns(_database(root))
        if not there:
            return None
        if why := lacks(_database(root), there, _NEEDED):
            return why
        [[version]] = rows(_database(root), "SELECT max(version) FROM schema_version")
        if version is not None and int(version) > _NEWEST:
            return f"schema {version} of {_DATABASE.name} is newer than Holdfast supports"
        tables = Tables.of(_database(root), _BELONG, naming="session_id")
        return not_known(tables.path, tables.unknown)

    def roots(self, root: Path) -> Sequence[Path]:
        state = _state(root)
        return [root] if state is None else [root, state]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        path = _database(root)
        if not columns(path) >= _NEEDED:
            return  # just being created, or changed by another release
        found = named_rows(path, "SELECT * FROM sessions ORDER BY created_at, id")
        parents = _parents(path) if any(_is_subagent(row) for row in found) else {}
        told = _last_messages(path)
        for row in found:
            unit = _unit(path, row)
            unit = replace(unit, active=max(unit.active, told.get(unit.id, 0.0)))
            parent = parents.get(unit.id, "") if _is_subagent(row) else ""
            yield replace(unit, parent=parent, relation=Relation.DELEGATE if parent else None)

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        yield from super().leftovers(root)
        state = _state(root)
        if state is not None:
            for kind, path in matching(state, _LOGS):
                yield from leftover(kind, path, name_below(state, path))

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        with reading(_database(root)) as db:
            for role, content, at, metadata in db.execute(
                "SELECT role, content_json, created_timestamp, metadata_json FROM messages"
                " WHERE session_id = ? ORDER BY id",
                (unit.id,),
            ):
                hidden = _json(metadata, {}).get("userVisible") is False
                yield from _messages(role, _json(content, []), float(at), hidden=hidden)

    def signs(self, root: Path, now: float) -> Signs:
        """Nothing shows which session a process has loaded, and a session resumed elsewhere works
        in another folder than it began in. So a process with the database open protects all
        sessions."""
        return Signs(home=life.opened_by([_database(root)]))

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        return sessions_of(self, path, having=_NEEDED)


def _database(root: Path) -> Path:
    """The database of a home, or a database outside one, given by itself."""
    return root if root.is_file() else root / _DATABASE


def _state(root: Path) -> Path | None:
    """The log folder of a home in one of its default places."""
    if root.name == "goose" and root.parent.name == "share":
        return root.parents[1] / "state" / "goose"
    return root.with_name("state") if root.name == "data" else None


def _is_subagent(row: Record) -> bool:
    return row.get("session_type") == "sub_agent"


def _parents(path: Path) -> Mapping[str, str]:
    """The parent of each subagent. Only the result of the call that started it has this."""
    calls = rows(
        path,
        "SELECT session_id, content_json FROM messages"
        " WHERE role = 'user' AND instr(content_json, ?)",
        (_STARTED,),
    )
    return {child: str(parent) for parent, said in calls for child in _SUBAGENT.findall(str(said))}


def _last_messages(path: Path) -> Mapping[str, float]:
    """When the last message of each session was written: its row may lag behind."""
    found = rows(
        path,
        "SELECT session_id, created_timestamp FROM messages"
        " WHERE id IN (SELECT max(id) FROM messages GROUP BY session_id)",
    )
    return {str(name): float(at) for name, at in found if isinstance(at, int | float)}


def _unit(path: Path, row: Record) -> Unit:
    name, kind = str(row["id"]), str(row.get("session_type") or "user")
    started = moment(row["created_at"])
    return Unit(
        id=name,
        active=moment(row["updated_at"]) or started or 0.0,
        started=started,
        source="" if kind == "user" else kind,
        cwd=str(row["working_dir"] or ""),
        title="" if row["name"] in _UNNAMED else str(row["name"] or ""),
        model=str(_json(row.get("model_config_json"), {}).get("model_name") or ""),
        used=_used(row),
        archived=bool(row.get("archived_at")),
        parts=(
            RowsPart(
                store=path,
                rows=(
                    Rows(table="sessions", column="id", value=name),
                    Rows(
                        table="messages",
                        column="session_id",
                        value=name,
                        stamp="count(*) || ':' || max(id)",
                    ),
                ),
            ),
        ),
    )


def _used(row: Record) -> Usage | None:
    """Goose records usage per session only, not per message."""
    tokens = tokens_in(
        row, input=("accumulated_input_tokens",), output=("accumulated_output_tokens",)
    )
    cost = row.get("accumulated_cost")
    if tokens is None or not tokens.total:
        return None
    priced = isinstance(cost, int | float)
    return Usage(tokens=tokens, cost=float(cost or 0.0), unpriced=Tokens() if priced else tokens)


def _messages(role: str, content: Any, at: float, *, hidden: bool) -> Iterator[Message]:
    answers = blocks_of(content, "toolResponse")
    for each in answers:
        value = (each.get("toolResult") or {}).get("value")
        said = value.get("content") if isinstance(value, dict) else value
        error = (each.get("toolResult") or {}).get("error")
        yield Message(
            role="tool",
            content=text_of(said) or str(error or ""),
            timestamp=at,
            tool_call_id=each.get("id"),
        )
    calls = []
    for each in blocks_of(content, "toolRequest"):
        value = (each.get("toolCall") or {}).get("value") or {}
        calls.append(tool_call(value.get("name"), value.get("arguments"), each.get("id")))
    text = text_of(content)
    thoughts = "\n".join(str(each.get("thinking")) for each in blocks_of(content, "thinking"))
    if text or calls or thoughts or not answers:
        yield Message(
            role=role,
            content=text,
            timestamp=at,
            tool_calls=[*calls] or None,
            reasoning=thoughts or None,
            extra={INJECTED: True} if hidden else {},
        )


def _json(text: Any, otherwise: Any) -> Any:
    try:
        said = json.loads(text)
    except (TypeError, ValueError):
        return otherwise
    return said if isinstance(said, type(otherwise)) else otherwise

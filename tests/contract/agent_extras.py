"""What the recorded homes do not have, added as each agent writes it: a title, a cost, a subagent.

The model of the recordings was free, and most of them were made without a person who names
sessions.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.stores.sqlite.foreign import add_newer_functions
from tests.contract.agents import openclaw, openhands, vibe

Extra = Callable[[Path], object]


def _sql(database: str, *statements: str) -> Extra:
    def add(root: Path) -> None:
        with closing(sqlite3.connect(root / database)) as db, db:
            add_newer_functions(db)
            for each in statements:
                assert db.execute(each).rowcount, each

    return add


def _text(pattern: str, old: str, new: str) -> Extra:
    """Other words in each file of this name."""

    def add(root: Path) -> None:
        changed = 0
        for path in sorted(root.glob(pattern)):
            text, number = re.subn(old, new, path.read_text())
            path.write_text(text)
            changed += number
        assert changed

    return add


def _line(pattern: str, record: Mapping[str, Any]) -> Extra:
    """One more line at the end of the first file of this name."""

    def add(root: Path) -> None:
        with min(root.glob(pattern)).open("a") as file:
            file.write(json.dumps(record) + "\n")

    return add


def _subagent_of_gemini(root: Path) -> None:
    chat = min(root.glob("tmp/*/chats/session-*.jsonl"))
    head = json.loads(chat.read_text().splitlines()[0])
    inside = chat.parent / head["sessionId"]
    inside.mkdir()
    said = {**head, "sessionId": "look-around-1", "kind": "subagent"}
    (inside / "look-around-1.jsonl").write_text(json.dumps(said) + "\n")


def _subagent_of_kimi(root: Path) -> None:
    main = min(root.glob("sessions/wd_*/session_*/agents/main"))
    shutil.copytree(main, main.with_name("look-around"))


def _title_of_vibe(root: Path) -> None:
    path = min(root.glob("logs/session/unified/*/meta.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "title": "A title"}))


_OPENCODE = "UPDATE message SET data = json_set(data, '$.cost', 0.5)"
_CHILD = (
    "UPDATE session SET parent_id = (SELECT min(id) FROM session)"
    " WHERE id = (SELECT max(id) FROM session)"
)
_KEY = "agent:main:explicit:lab-"


#: By the agent and the column of the table of agents.
def _subagent_of_droid(root: Path) -> None:
    """The head of a session names the one that asked it."""
    asked, other = sorted(root.glob("sessions/*/*.jsonl"))[:2]
    head, *rest = asked.read_text().splitlines(keepends=True)
    said = {**json.loads(head), "callingSessionId": other.stem}
    asked.write_text("".join([json.dumps(said) + "\n", *rest]))


EXTRAS: dict[tuple[str, str], Extra] = {
    ("droid", "subagents"): _subagent_of_droid,
    ("openhands", "subagents"): openhands.add_subagent,
    ("claude-code", "title"): _line("projects/*/*.jsonl", {"type": "ai-title", "aiTitle": "It"}),
    ("continue", "title"): _text(
        "sessions/*-*.json", '"title": "Untitled Session"', '"title": "It"'
    ),
    ("openclaw", "title"): _sql(openclaw.DATABASE, "UPDATE session_nodes SET label = 'It'"),
    ("pi", "title"): _line("sessions/*/*.jsonl", {"type": "session_info", "name": "It"}),
    ("qwen", "title"): _line(
        "projects/*/chats/*.jsonl",
        {"type": "system", "subtype": "custom_title", "systemPayload": {"customTitle": "It"}},
    ),
    ("vibe", "title"): _title_of_vibe,
    ("opencode", "cost"): _sql("opencode.db", _OPENCODE),
    ("kilo", "cost"): _sql("kilo.db", _OPENCODE),
    ("cline", "cost"): _text(
        "sessions/*/*.messages.json", '"inputTokens"', '"cost": 0.5, "inputTokens"'
    ),
    ("goose", "cost"): _sql("sessions/sessions.db", "UPDATE sessions SET accumulated_cost = 0.5"),
    ("gptme", "cost"): _text("logs/*/conversation.jsonl", '"usage":', '"cost": 0.5, "usage":'),
    ("openclaw", "cost"): _sql(
        openclaw.DATABASE,
        "UPDATE transcript_events"
        " SET event_json = replace(event_json, '\"total\":0}', '\"total\":1}')",
    ),
    ("openhands", "cost"): _text(
        "conversations/*/base_state.json", r'"accumulated_cost": ?0\.0', '"accumulated_cost":0.5'
    ),
    ("pi", "cost"): _text("sessions/*/*.jsonl", '"total":0}', '"total":1}'),
    ("codex", "subagents"): _sql(
        "state_5.sqlite",
        "INSERT INTO thread_spawn_edges SELECT min(id), max(id), 'open' FROM threads",
    ),
    ("gemini", "subagents"): _subagent_of_gemini,
    ("opencode", "subagents"): _sql("opencode.db", _CHILD),
    ("kilo", "subagents"): _sql("kilo.db", _CHILD),
    ("goose", "subagents"): _sql(
        "sessions/sessions.db",
        "UPDATE sessions SET session_type = 'sub_agent' WHERE id = '20261116_4'",
        "UPDATE messages SET content_json = replace(content_json, '\"text\":',"
        ' \'"subagent_session_id": "20261116_4", "text":\')'
        " WHERE session_id = '20261116_2' AND role = 'user'",
    ),
    ("kimi-code", "subagents"): _subagent_of_kimi,
    ("openclaw", "subagents"): _sql(
        openclaw.DATABASE,
        f"UPDATE session_nodes SET spawned_by = '{_KEY}one' WHERE session_key = '{_KEY}two'",  # noqa: S608
    ),
    ("vibe", "subagents"): vibe.add_subagent,
}

"""A store with four sessions, for tests of `holdfast sessions`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from holdfast import Message, Relation, Tokens
from holdfast.api.sessions import open_sessions
from holdfast.model.session import Json
from holdfast.services.sessions import Sessions
from tests.cli.machine import DAY, Machine

DISK = "20260101_090000_aaaaaa"
CRON = "cron_inbox-digest_20260110_090000"
CJK = "20260120_090000_cccccc"
EMPTY = "20260120_090000_cccddd"
EVERY = [EMPTY, CJK, CRON, DISK]  # the last active first

#: What SPEC §9 promises of a session in a list.
PROMISED = {
    "id",
    "source",
    "parent_id",
    "started_at",
    "last_active_at",
    "ended_at",
    "end_reason",
    "message_count",
    "bytes",
}
READING = [
    "list",
    "list --source cron --older-than 1d",
    "search disk",
    "search --part disk",
    "stats",
]
NAMING = ["show ID", "rename ID TITLE", "pin ID", "export --all", "export ID"]


class Time:
    """A clock that the builder of a store sets."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now

    def days_ago(self, days: float) -> None:
        self.now = time.time() - days * DAY


def fill(home: Path) -> None:
    """Four sessions: one that used a tool, one of a cron job, one in Chinese, one without words."""
    clock = Time()
    with open_sessions(home, clock=clock) as sessions:
        clock.days_ago(40)
        _about_the_disk(sessions)
        clock.days_ago(30)
        sessions.create(source="cron", id=CRON)
        said = "Nothing new in the inbox; the backup has total_size 14 MB."
        sessions.append(CRON, Message(role="assistant", content=said, tokens=30))
        sessions.end(CRON, "delivered")
        clock.days_ago(1)
        sessions.create(
            source="cli",
            id=CJK,
            title="中文標題",
            cwd="/work/alpha/sub",
            parent_id=DISK,
            relation=Relation.BRANCH,
        )
        parts: Json = [{"type": "text", "text": "先看看 max_total_size_mb"}, {"type": "image"}]
        sessions.append(
            CJK,
            Message(role="user", content="磁碟已滿怎麼辦"),
            Message(role="assistant", content=parts),
        )
        sessions.pin(CJK)
        clock.days_ago(0.1)
        sessions.create(source="cli", id=EMPTY)


def _about_the_disk(sessions: Sessions) -> None:
    sessions.create(
        source="telegram",
        id=DISK,
        title="Disk clean-up",
        model="Sonnet-4",
        cwd="/work/alpha",
        routing_key="telegram:42",
        extra={"chat": {"id": 42}},
    )
    call: Json = {"id": "c1", "function": {"name": "shell", "arguments": '{"command":"du -sh *"}'}}
    sessions.append(
        DISK,
        Message(role="user", content="The disk is full. What can go?", tokens=12),
        Message(
            role="assistant",
            content="Let me look.",
            tool_calls=[call],
            tokens=Tokens(input=800, output=25, cached=700),
            cost=0.002,
        ),
        Message(role="tool", content="12G\tcheckpoints", tool_name="shell", tool_call_id="c1"),
        Message(role="assistant", content="Old checkpoints can go.", tokens=40, cost=0.003),
    )
    sessions.end(DISK)


def ids(machine: Machine, *flags: str) -> list[str]:
    document = machine.json("sessions", "list", *flags)
    return [session["id"] for session in document["sessions"]]


def line(session_id: str, *texts: str, **more: Any) -> str:
    """A line of an export, with as little as one may have."""
    messages = [{"role": "user", "content": text} for text in texts]
    required = {"id": session_id, "source": "cli", "started_at": 1_700_000_000.0}
    return json.dumps({**required, "messages": messages, **more}) + "\n"


def take_in(machine: Machine, text: str, *flags: str, code: int = 0) -> Any:
    result = machine.run("--json", "sessions", "import", "-", *flags, stdin=text)
    assert result.code == code, result
    return result.document


def export(machine: Machine, *args: str) -> str:
    return machine.ok("sessions", "export", *args).out

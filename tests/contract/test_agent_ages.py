"""How old a session is: the latest of what its agent's index or database says and of what its
transcript says. Either may lag behind the other, after a crash or a copy from another machine."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.stores.sqlite.foreign import add_newer_functions
from tests.contract.agent_homes import DAY, FOUR
from tests.contract.agents import cline, copilot, goose, kilo, kimi_code, openclaw, vibe
from tests.contract.agents.home import AgentHome

CODEX = next(each for each in FOUR if each.name == "codex")
OPENCODE = next(each for each in FOUR if each.name == "opencode")
#: A week after the homes were made, and long before.
NOW = 1_794_800_000.0 + 7 * DAY
OLD = 1_794_800_000.0 - 200 * DAY
OLD_MS = int(OLD) * 1000
OLD_TEXT = "2026-04-30T04:00:00.000Z"


def change(database: str, statement: str, *values: object) -> Callable[[Path], None]:
    def lag(root: Path) -> None:
        with closing(sqlite3.connect(root / database)) as db, db:
            add_newer_functions(db)
            assert db.execute(statement, values).rowcount

    return lag


def lag_of_kimi(root: Path) -> None:
    for path in root.glob("sessions/*/*/state.json"):
        said = {**json.loads(path.read_text()), "createdAt": OLD_MS, "updatedAt": OLD_MS}
        path.write_text(json.dumps(said))


def lag_of_vibe(root: Path) -> None:
    """Of a session that was stopped before its description was written again."""
    for path in root.glob("logs/session/unified/*/meta.json"):
        times = dict.fromkeys(("start_time", "end_time", "bumped_at"), OLD_TEXT)
        path.write_text(json.dumps({**json.loads(path.read_text()), **times}))


def lag_of_events(root: Path) -> None:
    """Of Copilot, whose database may be ahead of the events."""
    for path in root.glob("session-state/*/events.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        said = (json.dumps({**line, "timestamp": OLD_TEXT}) for line in lines)
        path.write_text("".join(f"{line}\n" for line in said))


LAGS: dict[str, tuple[AgentHome, Callable[[Path], None]]] = {
    "codex": (
        CODEX,
        change(
            "state_5.sqlite",
            "UPDATE threads SET updated_at = ?, updated_at_ms = ?, recency_at = ?,"
            " recency_at_ms = ?, created_at = ?, created_at_ms = ?",
            *(int(OLD), OLD_MS) * 3,
        ),
    ),
    "opencode": (
        OPENCODE,
        change(
            "opencode.db", "UPDATE session SET time_created = ?, time_updated = ?", *[OLD_MS] * 2
        ),
    ),
    "kilo": (
        kilo.HOME,
        change("kilo.db", "UPDATE session SET time_created = ?, time_updated = ?", *[OLD_MS] * 2),
    ),
    "goose": (
        goose.HOME,
        change("sessions/sessions.db", "UPDATE sessions SET updated_at = '2026-04-30 04:00:00'"),
    ),
    "openclaw": (
        openclaw.HOME,
        change(
            openclaw.DATABASE,
            "UPDATE session_nodes SET updated_at = ?, last_activity_at = ?",
            *[OLD_MS] * 2,
        ),
    ),
    "cline": (cline.HOME, change("db/sessions.db", "UPDATE sessions SET updated_at = ?", OLD_TEXT)),
    "copilot": (copilot.HOME, lag_of_events),
    "kimi-code": (kimi_code.HOME, lag_of_kimi),
    "vibe": (vibe.HOME, lag_of_vibe),
}


@pytest.mark.parametrize("name", LAGS)
def test_the_latest_of_row_and_transcript_counts(name: str, tmp_path: Path) -> None:
    agent, lag = LAGS[name]
    root = tmp_path / "home"
    agent.make(root)
    lag(root)
    for _ in range(2):  # from the files, and from the notes of the first look
        with holdfast.open(root, clock=lambda: NOW) as home:
            whole = home.sessions.get(agent.whole)
            assert NOW - 8 * DAY < whole.last_active_at < NOW - 6 * DAY
            plan = home.plan_prune(older_than="30d")
            assert agent.whole not in {each.id for each in plan.removals}
            kept = {each.id: each.reason for each in plan.kept}
            assert kept[agent.whole] == "active within 30 d"

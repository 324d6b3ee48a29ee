"""Databases of agents: every row that names a session goes with it, as does what subagents have of
their own, and a table that we know nothing of is a reason not to touch the home."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from tests.contract.agent_homes import NOW
from tests.contract.agents import cline
from tests.contract.agents.recorded import RECORDED

_BY_NAME = {agent.name: agent for agent in RECORDED}


def test_what_a_subagent_of_cline_was_asked_goes_and_returns(tmp_path: Path) -> None:
    cline.make(tmp_path / "home")
    with cline.database(tmp_path / "home") as db:
        before = db.execute("SELECT * FROM subagent_spawn_queue").fetchall()
    [queued] = before
    with holdfast.open(tmp_path / "home", clock=lambda: NOW) as home:
        report = home.delete([queued[1]])
        assert not report.failed
        with cline.database(tmp_path / "home") as db:
            assert not db.execute("SELECT * FROM subagent_spawn_queue").fetchall()
        report.undo()
        with cline.database(tmp_path / "home") as db:
            assert db.execute("SELECT * FROM subagent_spawn_queue").fetchall() == before
        home.delete([queued[1]])
        home.trash.plan_empty().apply()
    store = (tmp_path / "home" / "db" / "sessions.db").read_bytes()
    assert queued[4].encode() not in store


def test_the_folder_of_a_subagent_of_cline_goes_and_returns(tmp_path: Path) -> None:
    """Cline makes one for a subagent that it takes for dead, and lists what it finds there."""
    root = tmp_path / "home"
    cline.make(root)
    with cline.database(root) as db:
        [(parent, child)] = db.execute(
            "SELECT parent_session_id, session_id FROM sessions WHERE is_subagent"
        )
    left = root / "sessions" / child / f"{child}.json"
    left.parent.mkdir()
    left.write_text('{"version": 1, "status": "failed"}')
    with holdfast.open(root, clock=lambda: NOW) as home:
        report = home.delete([parent])
        assert not report.failed
        assert not left.parent.exists()
        report.undo()
    assert left.read_text() == '{"version": 1, "status": "failed"}'


@pytest.mark.parametrize(
    ("agent", "database", "column"),
    [
        ("cline", "db/sessions.db", "root_session_id"),
        pytest.param("codex", "state_5.sqlite", "origin_thread_id", marks=pytest.mark.deep),
        pytest.param("copilot", "session-store.db", "parent_session_id", marks=pytest.mark.deep),
        pytest.param("goose", "sessions/sessions.db", "parent_session_id", marks=pytest.mark.deep),
        pytest.param("kilo", "kilo.db", "root_session_id", marks=pytest.mark.deep),
        ("opencode", "opencode.db", "root_session_id"),
        pytest.param(
            "openclaw",
            "agents/main/agent/openclaw-agent.sqlite",
            "parent_session_key",
            marks=pytest.mark.deep,
        ),
    ],
)
def test_a_table_with_a_column_like_that_of_a_session_is_not_passed_over(
    agent: str, database: str, column: str, tmp_path: Path
) -> None:
    root = tmp_path / "home"
    _BY_NAME[agent].make(root)
    with holdfast.open(root, clock=lambda: NOW) as home:
        assert not home.scan().problems
    with closing(sqlite3.connect(root / database)) as db:
        db.execute(f"CREATE TABLE moods ({column} TEXT, mood TEXT)")
    with holdfast.open(root, clock=lambda: NOW) as home:
        [problem] = home.scan().problems
    assert "moods" in problem.reason

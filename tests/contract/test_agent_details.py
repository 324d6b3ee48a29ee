"""What the laws do not ask of every agent: subagents, compressed events, stale locks, leftovers."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from holdfast.homes import life
from holdfast.homes.life import start_ticks
from holdfast.model.item import LEFTOVER
from holdfast.stores.sqlite.foreign import add_newer_functions
from tests.contract.agent_homes import NOW
from tests.contract.agents import goose, kimi_code, openclaw, vibe


def opened(root: Path) -> Home:
    return holdfast.open(root, clock=lambda: NOW)


def test_a_compressed_event_is_read(tmp_path: Path) -> None:
    openclaw.make(tmp_path / "home")
    with closing(sqlite3.connect(tmp_path / "home" / openclaw.DATABASE)) as db:
        [packed] = db.execute("SELECT count(event_zstd) FROM transcript_events").fetchone()
    assert packed
    with opened(tmp_path / "home") as home:
        first, *_ = home.sessions.messages("agent.main.explicit.lab-three")
        assert str(first.content).count("again") == 6_000
        report = home.delete(["agent.main.explicit.lab-three"])
        report.undo()
        assert str(next(iter(home.sessions.messages("agent.main.explicit.lab-three"))).content)


def _delegate_of_openclaw(root: Path) -> None:
    with closing(sqlite3.connect(root / openclaw.DATABASE)) as db, db:
        add_newer_functions(db)
        key = "agent:main:explicit:lab-"
        change = "UPDATE session_nodes SET spawned_by = ? WHERE session_key = ?"
        db.execute(change, (f"{key}one", f"{key}two"))


@pytest.mark.parametrize(
    ("agent", "marry", "child"),
    [
        (openclaw.HOME, _delegate_of_openclaw, "agent.main.explicit.lab-two"),
        (vibe.HOME, vibe.add_subagent, "child-ae909952595d7c9794382cd6"),
    ],
    ids=("openclaw", "vibe"),
)
def test_a_subagent_goes_and_returns_with_its_session(  # type: ignore[no-untyped-def]
    agent, marry, child: str, tmp_path: Path
) -> None:
    agent.make(tmp_path / "home")
    marry(tmp_path / "home")
    with opened(tmp_path / "home") as home:
        assert (home.sessions.get(child).parent_id, home.sessions.get(child).relation) == (
            agent.whole,
            "delegate",
        )
        report = home.delete([agent.whole])
        assert child not in {each.id for each in home.sessions.find()}
        assert not report.undo().failed
        assert home.sessions.get(child).parent_id == agent.whole


@pytest.mark.parametrize(
    ("process", "began", "alive"),
    [
        (os.getpid(), start_ticks(os.getpid()), True),
        (os.getpid(), "1", False),
        (2**22 - 1, "1", False),
    ],
    ids=("alive", "its number is used again", "gone"),
)
def test_a_lock_file_of_a_process(process: int, began: str, alive: bool, tmp_path: Path) -> None:
    openclaw.make(tmp_path / "home")
    path = tmp_path / "home" / "tmp" / "openclaw-0" / "gateway.state.lock"
    path.write_text(json.dumps({"pid": process, "startTime": int(began)}))
    with opened(tmp_path / "home") as home:
        assert bool(home.plan_prune(older_than="90d").removals) is not alive


def test_a_dead_process_that_nobody_collected_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert start_ticks(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays listed
        assert Path(f"/proc/{process.pid}").exists()
        assert start_ticks(process.pid) is None


def test_logs_of_goose_go_and_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "_processes", lambda: iter(()))  # a Goose of this machine
    root = tmp_path / ".local/share/goose"
    root.parent.mkdir(parents=True)
    goose.make(root)
    logs = tmp_path / ".local/state/goose/logs"
    before = {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()}
    (root / ".holdfast").mkdir()
    (root / ".holdfast/config.toml").write_text(
        "[sessions]\nauto_prune = true\nretention_days = 0\nleftovers_retention_days = 30\n"
    )
    with opened(root) as home:
        kinds = {each.source for each in home.scan().items if each.kind == LEFTOVER}
        assert kinds == {"log", "request"}
        home.maintain(force=True)
        assert not [path for path in logs.rglob("*") if path.is_file()]
        home.undo_latest()
    assert {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()} == before


def test_marks_of_kimi_go_with_their_session_or_are_left_over(tmp_path: Path) -> None:
    root = tmp_path / "home"
    kimi_code.make(root)
    [name] = {each.name.partition(".")[0] for each in (root / "sessions/.index-dirty").iterdir()}
    stray = root / "sessions/.index-dirty" / "session_gone.1794803783482"
    stray.touch()
    with opened(root) as home:
        marks = [each.id for each in home.scan().items if each.kind == LEFTOVER]
        assert f"marker/{stray.name}" in marks
        assert not [each for each in marks if name in each]
        home.delete([name])
        assert [each.name for each in (root / "sessions/.index-dirty").iterdir()] == [stray.name]

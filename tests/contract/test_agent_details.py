"""What the laws do not ask of every agent: subagents, compressed events, stale locks, leftovers."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

import holdfast
from holdfast import Home
from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.signs_of_life import start_ticks
from holdfast.model.item import LEFTOVER
from holdfast.stores.sqlite.foreign import add_newer_functions
from tests.contract.agent_homes import NOW, make_codex
from tests.contract.agents import (
    continue_cli,
    droid,
    goose,
    gptme,
    kimi_code,
    openclaw,
    openhands,
    vibe,
)
from tests.contract.agents.home import AgentHome


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
        (openhands.HOME, openhands.add_subagent, openhands.CHILD),
    ],
    ids=("openclaw", "vibe", "openhands"),
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
        assert [each.role for each in home.sessions.messages(child)].count("user")
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


@pytest.mark.parametrize(
    ("process", "began", "locks", "alive"),
    [
        (os.getpid(), start_ticks(os.getpid()), False, True),
        (os.getpid(), "1", False, False),
        (2**22 - 1, "1", False, False),
        (2**22 - 1, "1", True, True),
    ],
    ids=("alive", "its number is used again", "gone", "its lock is held"),
)
def test_the_daemon_of_codex_protects_the_whole_home(
    process: int, began: str, locks: bool, alive: bool, tmp_path: Path
) -> None:
    make_codex(tmp_path / "home")
    folder = tmp_path / "home" / "app-server-daemon"
    identity = {"bootId": "48149b4e-6007-4b5e-970d-0cb0c1f7b9e0", "startTicks": int(began)}
    said = {"pid": process, "processStartTime": "Mon Nov 16", "processIdentity": identity}
    (folder / "daemon.pid").write_text(json.dumps(said))
    with (folder / "daemon.lock").open("w") as lock, opened(tmp_path / "home") as home:
        if locks:
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert bool(home.plan_prune(older_than="0s").apply().removed) is not alive


def test_a_dead_process_that_nobody_collected_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert start_ticks(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays listed
        assert Path(f"/proc/{process.pid}").exists()
        assert start_ticks(process.pid) is None


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (continue_cli.HOME, "node /opt/x/bin/cn --resume"),  # it goes on with any session
        (droid.HOME, "droid exec --output-format acp"),
        (gptme.HOME, "/opt/x/bin/python /opt/x/bin/gptme-server"),
        (kimi_code.HOME, "node /opt/x/bin/kimi web"),
        (openhands.HOME, "/opt/x/bin/python /opt/x/bin/openhands acp"),
        (openhands.HOME, "/opt/x/bin/python /opt/x/bin/openhands-acp"),
    ],
    ids=("continue", "droid", "gptme", "kimi-code", "openhands", "openhands-acp"),
)
def test_a_server_protects_sessions_of_any_folder(
    agent: AgentHome, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has them open for an editor or a browser, and works in a folder of its own."""
    agent.make(tmp_path / "home")
    with opened(tmp_path / "home") as home:
        monkeypatch.setattr(life, "_processes", lambda: iter([(1, words.split(), "/elsewhere")]))
        assert not home.plan_prune(older_than="0s").apply().removed
        monkeypatch.setattr(life, "_processes", lambda: iter(()))
        assert home.plan_prune(older_than="0s").apply().removed


@pytest.mark.parametrize("dashes", [False, True], ids=("as it is", "with dashes"))
def test_a_session_that_a_process_was_started_with_stays(
    dashes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`openhands --resume ID`, in another folder: it reads the session at the first message, and
    until then nothing else tells which one it has."""
    openhands.HOME.make(tmp_path / "home")
    name = openhands.HOME.whole
    words = ["/x/bin/python", "/x/bin/openhands", "--resume", str(UUID(name)) if dashes else name]
    monkeypatch.setattr(life, "_processes", lambda: iter([(1, words, "/elsewhere")]))
    with opened(tmp_path / "home") as home:
        gone = home.plan_prune(older_than="0s").apply().removed
        assert gone
        assert {each.id for each in home.sessions.find()} == {name}


def test_an_editor_protects_sessions_of_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its extension is no process of its own; the editor has its databases open."""
    monkeypatch.setattr(life, "_processes", lambda: iter(()))  # a Continue of this machine
    continue_cli.make(tmp_path / "home")
    index = tmp_path / "home" / "index" / "index.sqlite"
    index.parent.mkdir(exist_ok=True)
    index.touch()
    with opened(tmp_path / "home") as home:
        with index.open() as file:
            editor = subprocess.Popen(["sleep", "60"], stdin=file)
        try:
            assert not home.plan_prune(older_than="0s").apply().removed
        finally:
            editor.kill()
            editor.wait()
        assert home.plan_prune(older_than="0s").apply().removed


def test_traces_of_a_droid_session_go_and_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search keeps an entry by the path of a session, and a list of subagents names who asked."""
    monkeypatch.setattr(life, "_processes", lambda: iter(()))  # a droid of this machine
    root = tmp_path / "home"
    droid.make(root)
    [path] = root.glob(f"sessions/*/{droid.HOME.whole}.jsonl")
    asked = [{"parentSessionId": name, "description": "look"} for name in (path.stem, "another")]
    search, tasks = root / "cache/search/manifest.json", root / "task-invocations.json"
    search.parent.mkdir()
    found = {str(path): {"sessionId": path.stem}, "/another.jsonl": {"sessionId": "another"}}
    search.write_text(json.dumps({"schemaVersion": 3, "sessions": found}, indent=2))
    tasks.write_text(json.dumps({"invocations": asked}, indent=2))
    before = search.read_bytes(), tasks.read_bytes()
    with opened(root) as home:
        report = home.delete([path.stem])
        assert path.stem not in search.read_text() + tasks.read_text()
        assert "another" in search.read_text()
        assert "another" in tasks.read_text()
        report.undo()
    assert (search.read_bytes(), tasks.read_bytes()) == before


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

"""What cannot be checked stays: in a home of which a part is not there today, and what only looks
like something of an agent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from holdfast.errors import SchemaError, StorageError, UsageError
from holdfast.homes.agents import claude_code
from holdfast.homes.agents import signs_of_life as life
from holdfast.model.item import LEFTOVER
from tests.contract.agent_homes import NOW
from tests.contract.agents.home import append
from tests.contract.factory import HOMES

_OLD = NOW - 400 * 86_400
_RUN = {"HOLDFAST_SESSIONS_LEFTOVERS_RETENTION_DAYS": "30"}


@pytest.fixture(autouse=True)
def nobody_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of this machine would keep everything anyway."""
    monkeypatch.setattr(life, "_processes", lambda: iter(()))


def home_of(agent: str, place: Path) -> Path:
    root = place / "home"
    HOMES[agent].make(root)
    return root


def opened(root: Path) -> Home:
    return holdfast.open(root, clock=lambda: NOW, environ=_RUN)


def write_old(path: Path, content: str = "much work") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    make_old(path)
    return path


def make_old(top: Path) -> None:
    for path in (*(top.rglob("*") if top.is_dir() else ()), top):
        os.utime(path, (_OLD, _OLD), follow_symlinks=False)


def prune_for_good(root: Path) -> None:
    with opened(root) as home:
        home.prune(older_than="1d", use_trash=False)


# --- gptme ----------------------------------------------------------------------------------------


def a_workspace(folder: Path) -> Path:
    """What gptme makes with `-w @log`: a folder in which the agent and the user work."""
    (folder / "workspace").unlink()
    write_old(folder / "workspace" / ".git" / "HEAD", "ref: refs/heads/main\n")
    return write_old(folder / "workspace" / "src" / "main.py")


def test_a_workspace_with_files_keeps_its_conversation(tmp_path: Path) -> None:
    root = home_of("gptme", tmp_path)
    work = a_workspace(root / "logs" / "lab-one")
    with opened(root) as home:
        reasons = {each.id: each.reason for each in home.plan_prune(older_than="1d").items}
        assert "its folder workspace holds files" in reasons["lab-one"]
        assert not home.delete(["lab-one"]).removed
    prune_for_good(root)
    assert work.read_text() == "much work"
    assert (root / "logs" / "lab-one" / "conversation.jsonl").exists()
    assert not (root / "logs" / "lab-two").exists(), "a link to a project elsewhere keeps nothing"


def test_a_workspace_with_empty_folders_keeps_nothing(tmp_path: Path) -> None:
    root = home_of("gptme", tmp_path)
    work = a_workspace(root / "logs" / "lab-one")
    shutil.rmtree(work.parents[1])
    (root / "logs" / "lab-one" / "workspace" / "src").mkdir(parents=True)
    prune_for_good(root)
    assert not (root / "logs" / "lab-one").exists()


def test_a_file_that_comes_into_a_workspace_after_the_plan(tmp_path: Path) -> None:
    root = home_of("gptme", tmp_path)
    folder = root / "logs" / "lab-one"
    (folder / "workspace").unlink()
    (folder / "workspace").mkdir()
    with opened(root) as home:
        planned = home.plan_prune(older_than="1d", use_trash=False)
        assert "lab-one" in {each.id for each in planned.removals}
        work = write_old(folder / "workspace" / "notes.md")
        planned.apply()
    assert work.read_text() == "much work"


def test_folders_of_the_user_are_no_empty_conversations(tmp_path: Path) -> None:
    """With GPTME_LOGS_HOME, conversations may be anywhere."""
    root = home_of("gptme", tmp_path)
    logs = root / "logs"
    kept = [
        write_old(logs / "thesis" / "ch1" / "a.tex"),
        write_old(logs / "important" / "notes.md"),
        write_old(logs / "settings" / "config.toml"),
        write_old(logs / "branched" / "branches" / "main.jsonl"),
    ]
    write_old(logs / "branched" / ".lock", "1")
    (logs / "mounted-later").mkdir()
    write_old(logs / "begun" / ".lock", "1")
    write_old(logs / "begun" / "config.toml")
    (logs / "begun" / "branches").mkdir()
    make_old(logs)
    with opened(root) as home:
        left = [each.id for each in home.scan().items if each.kind == LEFTOVER]
        assert left == ["empty-conversation/begun"]
        home.prune(older_than="1d", use_trash=False)
    assert all(path.exists() for path in kept)
    assert (logs / "mounted-later").is_dir()
    assert not (logs / "begun").exists()


# --- Names that an agent gives no session ---------------------------------------------------------


def test_a_file_beside_the_memory_of_a_project_takes_nothing_along(tmp_path: Path) -> None:
    root = home_of("claude-code", tmp_path)
    project = next(root.glob("projects/*"))
    kept = [
        write_old(project / "memory.jsonl", '{"type": "user", "message": {"content": "x"}}\n'),
        write_old(project / "memory" / "MEMORY.md"),
        write_old(project / "agent-notes.jsonl", '{"note": "mine"}\n'),
        write_old(root / "tasks" / "memory" / "1.json"),
    ]
    with opened(root) as home:
        reasons = {each.id: each.reason for each in home.plan_prune(older_than="1d").items}
        assert "Claude Code gives no session such a name" in reasons["memory"]
    prune_for_good(root)
    assert [path for path in kept if not path.exists()] == []
    assert not [*root.glob("projects/*/????????-*.jsonl")], "its own sessions still go"


#: A file or folder of the user, in a place where the agent has sessions.
_OF_THE_USER = {
    "gemini": "tmp/{first}/chats/session-memory.json",
    "qwen": "projects/{first}/chats/memory.jsonl",
    "droid": "sessions/{first}/memory.jsonl",
    "pi": "sessions/{first}/memory.jsonl",
    "continue": "sessions/memory.json",
    "vibe": "logs/session/unified/memory/notes.md",
    "copilot": "session-state/memory/events.jsonl",
}


@pytest.mark.parametrize("agent", _OF_THE_USER)
def test_the_same_for_other_agents(tmp_path: Path, agent: str) -> None:
    root = home_of(agent, tmp_path)
    place = _OF_THE_USER[agent]
    above = root / place.partition("/")[0]
    first = next((each.name for each in sorted(above.iterdir()) if each.is_dir()), "")
    kept = write_old(root / place.format(first=first), "{}\n")
    make_old(kept.parent)
    prune_for_good(root)
    assert kept.read_text() == "{}\n"


# --- Parts of a home that are not there -----------------------------------------------------------


def test_nothing_is_left_over_while_a_project_is_not_mounted(tmp_path: Path) -> None:
    root = home_of("claude-code", tmp_path).rename(tmp_path / ".claude")
    project = next(root.glob("projects/*"))
    owned = next(root.glob("file-history/*"))
    forgotten = write_old(root / "file-history" / "gone" / "a@v1")
    make_old(root / "file-history")
    disk = tmp_path / "disk"
    shutil.move(project, disk)
    project.symlink_to(disk)
    away = tmp_path / "away"
    disk.rename(away)
    for there in (False, True):  # the place where the disk belongs may be there, and empty
        if there:
            disk.mkdir()
        with opened(root) as home:
            planned = home.plan_prune(kinds="leftover", use_trash=False)
            assert not planned.removals
            assert any(each.path == str(project) for each in planned.problems)
        assert owned.exists()
        assert forgotten.exists()
    project.unlink()
    shutil.move(away, project)
    with opened(root) as home:
        home.prune(kinds="leftover", use_trash=False)
    assert owned.exists()
    assert not forgotten.exists()


def _unmount(path: Path) -> None:
    path.unlink()
    path.symlink_to("/mnt/big-disk/agent.db")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _remove(path: Path) -> None:
    path.unlink()
    path.with_name(f"{path.name}-wal").write_bytes(b"")


_DATABASES = {
    "codex": "state_5.sqlite",
    "copilot": "session-store.db",
    "opencode": "opencode.db",
    "kilo": "kilo.db",
    "goose": "sessions/sessions.db",
    "cline": "db/sessions.db",
    "openclaw": "agents/main/agent/openclaw-agent.sqlite",
}


@pytest.mark.parametrize("lose", [_unmount, _empty, _remove])
@pytest.mark.parametrize("agent", _DATABASES)
def test_a_home_without_its_database_is_not_changed(
    tmp_path: Path, agent: str, lose: Callable[[Path], None]
) -> None:
    """Without it, many of these agents have no home at all; the others are only read."""
    root = home_of(agent, tmp_path)
    write_old(root / "sessions" / "imported.jsonl")  # Goose: the database has what was in it
    write_old(root / "agents" / "main" / "sessions" / "cold" / "1.jsonl.zst")  # OpenClaw
    make_old(root)
    database = root / _DATABASES[agent]
    lose(database)
    before = {path for path in root.rglob("*") if ".holdfast" not in path.parts}
    with suppress(SchemaError, StorageError, UsageError), opened(root) as home:
        for kinds in ("session", "leftover"):
            home.prune(older_than="1d", kinds=kinds, use_trash=False)
    assert {path for path in root.rglob("*") if ".holdfast" not in path.parts} == before


# --- A folder that homes share --------------------------------------------------------------------


def test_what_another_home_left_in_tmp_is_not_of_this_one(tmp_path: Path) -> None:
    """All homes of Claude Code write there, by project and session."""
    root = home_of("claude-code", tmp_path)
    project = next(root.glob("projects/*")).name
    shared = claude_code.TEMPORARY / f"claude-{os.getuid()}" / project
    theirs = write_old(shared / "0f0f0f0f-0000-4000-8000-000000000001" / "tasks" / "a.output")
    mine = write_old(shared / "0f0f0f0f-0000-4000-8000-000000000002" / "tasks" / "a.output")
    append(root / "history.jsonl", {"display": "hello", "sessionId": mine.parents[1].name})
    make_old(shared)
    with opened(root) as home:
        home.prune(kinds="leftover", use_trash=False)
    assert theirs.exists()
    assert not mine.exists()

"""Homes of agents inside a project: never captured, never touched by a restore or its undo."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import holdfast
from holdfast import Message
from holdfast.errors import StorageError, UsageError
from holdfast.homes.agents.known import AGENTS
from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.model.checkpoint import A_HOME, MAX_FILE_BYTES, Capturing, TakeOutcome
from holdfast.stores.checkpoints import look, projects, walk, working_tree
from holdfast.stores.checkpoints.agent_homes import home_at
from holdfast.stores.checkpoints.restore import can_follow
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.contract.restore_bench import NOW, ROOT, restore, take
from tests.trees import everything

_SAMPLES = {kind.name: kind for kind in AGENTS if kind.name != "aider"}
_BEFORE = (look, projects, walk, working_tree)


def _unpack(name: str, into: Path) -> None:
    with tarfile.open(ROOT / f"tests/data/homes/{name}.tar.xz") as packed:
        packed.extractall(into, filter="tar")


def _write(place: Path, text: str = "x\n") -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


@pytest.fixture
def store(root: Path) -> ShadowGitStore:
    """With the usual limit on the size of files: databases and their logs are below it."""
    return checkpoint_store(root, Capturing(max_file_size=MAX_FILE_BYTES))


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The version that captured homes."""
    for module in _BEFORE:
        monkeypatch.setattr(module, "home_at", lambda *_, **__: None)
    return monkeypatch


@pytest.mark.parametrize("name", _SAMPLES)
def test_the_home_of_every_agent_is_left_out_as_a_whole(
    store: ShadowGitStore, project: Path, name: str
) -> None:
    """`CODEX_HOME=$PWD/state codex` and the like, with what the real agents wrote there."""
    kind = _SAMPLES[name]
    _unpack(name, project / "state")
    taking = store.take(project, reason="test", now=NOW)
    home = f"state/{kind.default_folder}"
    reasons = {each.path: each.reason for each in taking.not_captured}
    assert reasons.get(home) == f"{A_HOME}{kind.agent}"
    held = store.captured(store.get(taking.id or "").tree).files
    assert not [path for path in held if path.startswith(f"{home}/")]
    assert "src/main.py" in held


@pytest.mark.parametrize("name", ["claude-code", "codex", "goose", "opencode"])
def test_no_restore_touches_a_home_that_an_earlier_version_captured(
    store: ShadowGitStore, project: Path, name: str, earlier: pytest.MonkeyPatch
) -> None:
    home = project / "state" / _SAMPLES[name].default_folder
    _unpack(name, project / "state")
    target = take(store, project)
    inside = store.captured(store.get(target).tree).files
    assert [path for path in inside if path.startswith("state/")]
    earlier.undo()
    for path in sorted(home.rglob("*.jsonl")):
        path.write_text(path.read_text() + '{"said": "since"}\n')
    _write(home / "sessions/new.json", '{"pid": 1}\n')
    (project / "README").write_text("ours\n")
    before = everything(home)
    foreseen = store.preview(target)
    safety = store.secure(target, now=NOW + 1)
    done = store.restore(target, safety, now=NOW + 2)
    assert done.written == foreseen.written == ("README",)
    assert done.deleted == ()
    assert everything(home) == before
    assert [each for each in done.kept if each.is_apart]
    undone = store.restore(safety, target, now=NOW + 3, undoing=True)
    assert undone.written == ("README",)
    assert not list(filter(can_follow, undone.kept))
    assert everything(home) == before


def test_a_living_session_survives_a_restore_and_its_undo(
    store: ShadowGitStore, project: Path, earlier: pytest.MonkeyPatch
) -> None:
    """As in README: `holdfast.open("agent-home", create=True)` inside the project. The agent is
    still at work: its last messages are in the log of the database alone."""
    with holdfast.open(project / "agent-home", create=True) as home:
        _talk(home, "old")
        target = take(store, project)
        earlier.undo()
        _talk(home, "live")
        before = everything(project / "agent-home")
        (project / "README").write_text("ours\n")
        assert restore(store, target).written == ("README",)
        assert everything(project / "agent-home") == before
        found = {each.title for each in home.sessions.find()}
    assert found == {"old", "live"}


def _talk(home: holdfast.Home, title: str) -> None:
    session = home.sessions.create(source="cli", title=title)
    home.sessions.append(session.id, Message(role="user", content="hello"))


def test_a_home_of_hermes_and_its_profiles_is_left_out(
    store: ShadowGitStore, project: Path
) -> None:
    for path in ("state.db", "SOUL.md", "config.yaml", "profiles/work/state.db"):
        _write(project / "hermes" / path)
    taking = store.take(project, reason="test", now=NOW)
    assert [(each.path, each.reason) for each in taking.not_captured] == [
        ("hermes", f"{A_HOME}Hermes")
    ]


def test_a_difference_has_nothing_of_a_home(
    root: Path, store: ShadowGitStore, project: Path, earlier: pytest.MonkeyPatch
) -> None:
    """An earlier version captured the home, so now its files would seem to be deleted."""
    _unpack("codex", project)
    target = take(store, project)
    earlier.undo()
    with holdfast.open(root) as home:
        same = home.checkpoints.diff(target)
        assert (list(same.changes), list(same.patch()), list(same.statistics())) == ([], [], [])
        (project / "README").write_text("ours\n")
        found = home.checkpoints.diff(target)
        assert [each.path for each in found.changes] == ["README"]
        assert [line for line in found.patch() if line.startswith(b"diff --git")] == [
            b"diff --git a/README b/README\n"
        ]
        newer = take(store, project)
        between = home.checkpoints.diff(target, newer)
        assert [each.path for each in between.changes] == ["README"]


def test_our_folder_in_any_home_is_left_out(store: ShadowGitStore, project: Path) -> None:
    _write(project / "tool/.holdfast/operations/000001.jsonl", '{"format":1}\n')
    taking = store.take(project, reason="test", now=NOW)
    assert [(each.path, each.reason) for each in taking.not_captured] == [
        ("tool/.holdfast", f"{A_HOME}Holdfast")
    ]


def test_what_aider_writes_while_it_works_is_left_out(store: ShadowGitStore, project: Path) -> None:
    """Its home is the project."""
    _write(project / ".aider.chat.history.md", "# aider chat started\n")
    _write(project / ".aider.conf.yml", "model: x\n")
    target = take(store, project)
    held = store.captured(store.get(target).tree).files
    assert ".aider.conf.yml" in held
    assert ".aider.chat.history.md" not in held
    _write(project / ".aider.chat.history.md", "# aider chat started\nmore\n")
    restore(store, target)
    assert (project / ".aider.chat.history.md").read_text().endswith("more\n")


_ORDINARY = [
    ".claude/settings.json",
    ".claude/commands/review.md",
    ".claude/agents/tester.md",
    ".claude/skills/deploy/SKILL.md",
    ".claude/hooks/check.sh",
    ".claude/projects/notes.md",
    ".codex/config.toml",
    ".codex/prompts/plan.md",
    ".gemini/settings.json",
    ".gemini/commands/test.toml",
    ".continue/rules/style.md",
    ".factory/droids/reviewer.md",
    ".openhands/microagents/repo.md",
    "src/components/projects/list.tsx",
    "src/components/todos/list.tsx",
    "src/components/sessions/login.tsx",
    "src/components/history.jsonl",
    "app/sessions/2026/11/16/talk.md",
    "app/db/schema.sql",
    "app/db/sessions.db",
    "app/sessions.db",
    "app/operations/deploy.jsonl",
    "app/checkpoints/model.json",
    "app/conversations/first.json",
    "app/logs/today.txt",
    "app/tmp/one/data.json",
    "app/agents/main.py",
    "app/state.db",
    "app/config.yaml",
    "app/opencode.db",
]


def test_folders_with_the_same_names_are_a_normal_part_of_a_project(
    store: ShadowGitStore, project: Path
) -> None:
    for path in _ORDINARY:
        _write(project / path)
    taking = store.take(project, reason="test", now=NOW)
    assert not taking.not_captured
    assert set(_ORDINARY) <= set(store.captured(store.get(taking.id or "").tree).files)


def test_a_folder_that_becomes_a_home_leaves_the_checkpoints(
    store: ShadowGitStore, project: Path
) -> None:
    """The home was there with its configuration before the agent's first session."""
    _write(project / ".claude/settings.json", "{}\n")
    _write(project / ".claude/projects/readme.md")
    take(store, project)
    _write(project / ".claude/projects/-home-me/0b5f.jsonl", '{"type": "user"}\n')
    taking = store.take(project, reason="test", now=NOW + 60)
    assert [each.path for each in taking.not_captured] == [".claude"]
    held = store.captured(store.get(taking.id or "").tree).files
    assert not [path for path in held if path.startswith(".claude")]


def test_a_named_path_in_a_home_is_left_out(store: ShadowGitStore, project: Path) -> None:
    _unpack("codex", project)
    take(store, project)
    _write(project / ".codex/history.jsonl", "{}\n")
    (project / "README").write_text("ours\n")
    named = [".codex/history.jsonl", "README"]
    taking = store.take(project, reason="known", now=NOW + 1, paths=named)
    assert taking.outcome is TakeOutcome.TAKEN
    assert ".codex/history.jsonl" not in store.captured(store.get(taking.id or "").tree).files


@pytest.mark.parametrize("place", ["", "projects", "skills/mine"])
def test_a_project_in_a_home_is_refused(store: ShadowGitStore, tmp_path: Path, place: str) -> None:
    _unpack("claude-code", tmp_path / "user")
    workdir = tmp_path / "user/.claude" / place
    workdir.mkdir(parents=True, exist_ok=True)
    taking = store.take(workdir, reason="test", now=NOW)
    assert taking.outcome is TakeOutcome.SKIPPED
    assert f"{A_HOME}Claude Code" in taking.reason
    with pytest.raises(UsageError, match="a home of Claude Code"):
        store.look(workdir)


def test_a_repository_in_a_home_is_a_project(store: ShadowGitStore, tmp_path: Path) -> None:
    """Codex keeps its worktrees in its home."""
    _unpack("codex", tmp_path / "user")
    workdir = tmp_path / "user/.codex/worktrees/1a2b/shop"
    _write(workdir / ".git", "gitdir: /home/me/shop/.git/worktrees/shop\n")
    _write(workdir / "shop.py")
    assert store.take(workdir, reason="test", now=NOW).outcome is TakeOutcome.TAKEN


def test_a_checkpoint_of_a_home_is_not_restored_and_its_restore_not_undone(
    store: ShadowGitStore, tmp_path: Path, earlier: pytest.MonkeyPatch
) -> None:
    _unpack("codex", tmp_path / "user")
    workdir = tmp_path / "user/.codex"
    target = take(store, workdir)
    (workdir / "history.jsonl").write_text("{}\n")
    safety = store.secure(target, now=NOW + 1)
    earlier.undo()
    before = everything(workdir)
    with pytest.raises(StorageError, match="a home of Codex"):
        store.secure(target, now=NOW + 2)
    with pytest.raises(StorageError, match=r"Nothing can be restored in .*: it is a home of Codex"):
        store.restore(safety, target, now=NOW + 3, undoing=True)
    assert everything(workdir) == before


def test_a_symlink_to_a_home_is_captured_as_a_symlink(
    store: ShadowGitStore, project: Path, tmp_path: Path
) -> None:
    _unpack("codex", tmp_path / "user")
    (project / ".codex").symlink_to(tmp_path / "user/.codex")
    taking = store.take(project, reason="test", now=NOW)
    assert not taking.not_captured
    assert ".codex" in store.captured(store.get(taking.id or "").tree).files


def test_what_cannot_be_read_is_no_home(tmp_path: Path) -> None:
    assert home_at(bytes(tmp_path / "missing")) is None
    _write(tmp_path / "file", json.dumps({}))
    assert home_at(bytes(tmp_path / "file")) is None

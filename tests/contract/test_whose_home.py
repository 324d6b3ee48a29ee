"""Which agent a folder belongs to, when names that several agents use are in it: see decision 0056.

What was taken for another agent's home was removed for good, from projects of users too."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import NotAHomeError, StorageError
from holdfast.homes.registry import kind_of, kinds
from tests.compat import hermes_sessions
from tests.contract.agents.home import AgentHome
from tests.contract.agents.recorded import RECORDED
from tests.contract.factory import files_and_rows

_DATA = Path(__file__).parents[1] / "data" / "homes"
_NOW = 1_900_000_000.0
_ID = "9ef6511f-b4c0-4f86-8f80-e160f2b5b17f"
_HISTORY = ".aider.chat.history.md"

#: Names that several agents use, or that a project may have; a folder ends with a slash.
_COMMON = (
    "projects/",
    "projects/ settings.json",
    "projects/ history.jsonl",
    "projects/alpha/train.jsonl projects/alpha/train/ sessions/",
    "projects/alpha/train.jsonl projects/alpha/train/ settings.json",
    "projects/-srv-data/ file-history/",
    "projects/alpha/chats/",
    "projects/alpha/chats/one.jsonl usage_record.jsonl",
    "config.yaml skills/",
    "gateway.pid skills/",
    "config.yaml gateway.pid SOUL.md memories/",
    "session-state/x/",
    "session-state/x/events.jsonl",
    "archived_sessions/",
    "sessions/ installation_id",
    "sessions/2026/11/",
    "sessions/ config.json",
    "sessions/ config.yaml permissions.yaml",
    "sessions/ host.json droids/",
    "sessions/ auth.json models.json settings.json",
    "sessions/ device_id workspaces.json session_index.jsonl",
    "sessions/sessions.json",
    "tmp/ settings.json",
    "tmp/alpha/chats/ projects.json state.json",
    "conversations/",
    "conversations/one/base_state.json",
    "agents/main/agent/",
    "logs/session/unified/",
    "logs/ config.toml",
    "installs.json",
    "notes/conversation.jsonl",
    _HISTORY,
)


def _add(root: Path, names: str) -> None:
    for name in names.split():
        path = root / name
        if path.exists():
            continue
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}\n" if name.endswith((".json", ".jsonl")) else "")


def _clear(root: Path, before: set[Path]) -> None:
    for path in sorted({*root.rglob("*")} - before, reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


def _make_hermes(root: Path) -> None:
    hermes_sessions.recorded(root.parent / "recorded").rename(root)


def _make_aider(root: Path) -> None:
    with tarfile.open(_DATA / "aider.tar.xz") as tar:
        tar.extractall(root, filter="tar")


_MAKE: dict[str, tuple[str, Callable[[Path], None]]] = {
    **{each.name: (each.folder, each.make) for each in RECORDED},
    "hermes": (".hermes", _make_hermes),
    "aider": ("work/shop", _make_aider),
}


def _name(root: Path) -> str | None:
    kind = kind_of(root)
    return None if kind is None else kind.name


@pytest.mark.parametrize("place", ["usual", "elsewhere"])
@pytest.mark.parametrize("agent", _MAKE)
def test_no_common_name_changes_whose_home_it_is(agent: str, place: str, tmp_path: Path) -> None:
    folder, make = _MAKE[agent]
    root = tmp_path / (folder if place == "usual" else "copy")
    root.parent.mkdir(parents=True, exist_ok=True)
    make(root)
    before = {*root.rglob("*")}
    assert _name(root) == agent
    changed = {}
    for names in _COMMON:
        _add(root, names)
        changed[names] = _name(root)
        _clear(root, before)
    assert {names: each for names, each in changed.items() if each != agent} == {}
    for names in _COMMON:
        _add(root, names)
    assert _name(root) == agent


@pytest.mark.parametrize("agent", [each for each in _MAKE if each != "aider"])
def test_a_chat_with_aider_does_not_change_a_home_in_its_place(agent: str, tmp_path: Path) -> None:
    """Somebody edits the settings of an agent with aider."""
    folder, make = _MAKE[agent]
    root = tmp_path / folder
    root.parent.mkdir(parents=True, exist_ok=True)
    make(root)
    (root / _HISTORY).write_text("# aider chat started at 2026-11-16 04:32:49\n")
    assert _name(root) == agent


@pytest.mark.parametrize("agent", RECORDED, ids=lambda each: each.name)
def test_an_emptied_home_in_its_place_can_be_undone_whatever_was_added(
    agent: AgentHome, tmp_path: Path
) -> None:
    root = tmp_path / agent.folder
    root.parent.mkdir(parents=True, exist_ok=True)
    agent.make(root)
    opened = partial(holdfast.open, root, clock=lambda: _NOW)
    with opened() as home:
        sessions = {each.id for each in home.sessions.find()}
        assert home.delete([agent.whole]).removed
    for names in _COMMON:
        _add(root, names)
    with opened() as home:
        assert home.kind == agent.name
        assert not home.undo_latest().failed
        assert {each.id for each in home.sessions.find()} >= sessions


def test_an_empty_history_of_aider_still_makes_a_project(tmp_path: Path) -> None:
    """aider creates the file before the first chat."""
    for names in _COMMON:
        root = tmp_path / f"project{_COMMON.index(names)}"
        _add(root, f"{_HISTORY} main.py {names}")
        assert _name(root) == "aider", names


def test_names_alone_make_no_home_outside_the_place_of_an_agent(tmp_path: Path) -> None:
    """Not one of our own either, in which we would remove what nobody owns."""
    for names in _COMMON:
        root = tmp_path / f"project{_COMMON.index(names)}"
        _add(root, f"main.py {names}")
        assert _name(root) in ({"aider"} if names == _HISTORY else {None, "holdfast"}), names
    with pytest.raises(NotAHomeError, match="may be a home of Claude Code, but has no session"):
        holdfast.open(tmp_path / "project1", clock=lambda: _NOW)
    with pytest.raises(NotAHomeError, match="may be a home of Claude Code, but has no session"):
        holdfast.open(tmp_path / "project1", create=True, clock=lambda: _NOW)
    assert {path.name for path in (tmp_path / "project1").iterdir()} == {
        "main.py",
        "projects",
        "settings.json",
    }


@pytest.mark.parametrize(
    ("agent", "variable", "names"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", "projects/ history.jsonl"),
        ("codex", "CODEX_HOME", "sessions/ installation_id"),
        ("continue", "CONTINUE_GLOBAL_DIR", "sessions/ config.yaml"),
        ("copilot", "COPILOT_HOME", "session-state/"),
        ("hermes", "HERMES_HOME", "config.yaml skills/"),
        ("openhands", "OPENHANDS_PERSISTENCE_DIR", "conversations/"),
    ],
)
def test_names_are_enough_in_the_folder_that_a_variable_names(
    agent: str, variable: str, names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "state"
    _add(root, names)
    assert _name(root) is None
    monkeypatch.setenv(variable, str(root))
    assert _name(root) == agent
    for more in _COMMON:
        _add(root, more)
    assert _name(root) == agent


def test_a_profile_inside_a_home_needs_no_session(tmp_path: Path) -> None:
    profile = tmp_path / ".hermes" / "profiles" / "work"
    _add(tmp_path / ".hermes", "SOUL.md config.yaml")
    _add(profile, "SOUL.md config.yaml")
    assert _name(profile) == "hermes"


@pytest.mark.parametrize("agent", RECORDED, ids=lambda each: each.name)
def test_an_emptied_copy_with_settings_can_be_undone(agent: AgentHome, tmp_path: Path) -> None:
    """Nothing else has a claim to a copy of what one agent left."""
    root = tmp_path / "copy"
    agent.make(root)
    with holdfast.open(root, clock=lambda: _NOW) as home:
        sessions = {each.id for each in home.sessions.find()}
        assert home.delete([each.id for each in home.sessions.find(roots=True)]).removed
    with holdfast.open(root, clock=lambda: _NOW) as home:
        assert home.kind == agent.name
        assert not home.undo_latest().failed
        assert {each.id for each in home.sessions.find()} == sessions


def test_a_folder_with_sessions_of_two_agents_is_not_changed(tmp_path: Path) -> None:
    """A copy of two homes in one folder: what one agent leaves over, the other may need."""
    root = tmp_path / "copy"
    [codex] = [each for each in RECORDED if each.name == "codex"]
    codex.make(root)
    transcript = root / "projects" / "-home-me-shop" / f"{_ID}.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text(json.dumps({"type": "user", "sessionId": _ID}) + "\n")
    before = files_and_rows(root)
    with pytest.raises(StorageError, match=r"whose home .* files of Claude Code and Codex") as told:
        holdfast.open(root, clock=lambda: _NOW)
    assert told.value.hint is not None
    assert "Nothing was touched" in told.value.hint
    assert files_and_rows(root) == before


def test_every_agent_has_a_proof() -> None:
    """An agent without one would have no home outside its usual place."""
    assert {*_MAKE} == {each.name for each in kinds()} - {"holdfast"}

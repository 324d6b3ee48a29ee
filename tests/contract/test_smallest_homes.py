"""A home is found by what its agent left after one session, and by what Holdfast left of that."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

import holdfast
from holdfast.homes import registry
from holdfast.homes.kind import is_surely_ours
from holdfast.homes.registry import kind_of
from holdfast.model.part import FilePart, FolderPart, LinePart, Part, Role, RowsPart, Unit
from tests.contract.agents.home import AgentHome
from tests.contract.agents.recorded import RECORDED

_NOW = 1_900_000_000.0


def _files(part: Part) -> list[Path]:
    match part:
        case RowsPart():
            return [part.store, *(Path(f"{part.store}{end}") for end in ("-wal", "-shm"))]
        case LinePart(role=Role.TRACE):
            return []
        case FilePart() | FolderPart() | LinePart():
            return [part.path]
        case _:
            return []


def _units(root: Path) -> list[Unit]:
    kind = kind_of(root)
    assert kind is not None
    opened = kind.open(root, lambda: _NOW, holdfast.homes.options.USUAL)
    form = opened._contents.form  # type: ignore[attr-defined] # the units are not part of a home
    return list(form.units(root, lambda _: None))


def _smallest(agent: AgentHome, place: Path) -> Path:
    """A copy of a recorded home with nothing but the longest session."""
    whole, root = place / "whole", place / "home"
    agent.make(whole)
    unit = next(each for each in _units(whole) if each.id == agent.whole)
    root.mkdir()
    for path in (each for part in unit.parts for each in _files(part)):
        if path.exists() and path.is_relative_to(whole):
            new = root / path.relative_to(whole)
            new.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, new, symlinks=True)
            else:
                shutil.copy2(path, new)
    return root


@pytest.fixture(params=RECORDED, ids=lambda each: each.name)
def agent(request: pytest.FixtureRequest) -> AgentHome:
    found: AgentHome = request.param
    return found


def test_one_session_makes_a_home(agent: AgentHome, tmp_path: Path) -> None:
    kind = kind_of(_smallest(agent, tmp_path))
    assert kind is not None
    assert kind.name == agent.name


def test_a_home_without_its_last_session_is_still_one(agent: AgentHome, tmp_path: Path) -> None:
    """Otherwise nobody could undo what emptied it."""
    root = _smallest(agent, tmp_path)
    with holdfast.open(root, clock=lambda: _NOW) as home:
        if agent.whole not in {each.id for each in home.sessions.find()}:
            pytest.skip("its sessions cannot be read from this part of its home alone")
        report = home.delete([agent.whole])
        assert report.removed
    with holdfast.open(root, clock=lambda: _NOW) as home:
        assert home.kind == agent.name
        assert not home.undo_latest().failed
        assert agent.whole in {each.id for each in home.sessions.find()}


@pytest.mark.parametrize("settings", [[], ["settings.json"]], ids=["bare", "settings"])
def test_a_home_of_qwen_is_not_taken_for_one_of_claude_code(
    settings: list[str], tmp_path: Path
) -> None:
    """Its folders are those of Claude Code, and what one agent leaves over the other may need."""
    [qwen] = [each for each in RECORDED if each.name == "qwen"]
    root = _smallest(qwen, tmp_path)
    for name in settings:
        (root / name).write_text("{}")
    kind = kind_of(root)
    assert kind is not None
    assert kind.name == "qwen"


@pytest.mark.parametrize(
    "path",
    [
        "projects/notes/today.jsonl",
        "tmp/work/chats/session-1.jsonl",
        "tmp/work/chats/session-1.json",
        "sessions/sessions.json",
        "sessions/one.json",
        "sessions/-home-me/one.jsonl",
        "sessions/--home-me--/one.jsonl",
    ],
)
def test_folders_of_the_same_names_make_no_home_of_an_agent(path: str, tmp_path: Path) -> None:
    file = tmp_path / "folder" / path
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"type": "note", "text": "hello"}) + "\n")
    kind = kind_of(tmp_path / "folder")
    assert kind is None or kind.name == "holdfast"


def test_projects_alone_make_a_home_of_claude_code_in_its_usual_place(tmp_path: Path) -> None:
    for name in (".claude", "elsewhere"):
        (tmp_path / name / "projects").mkdir(parents=True)
    found = kind_of(tmp_path / ".claude")
    assert found is not None
    assert found.name == "claude-code"
    assert kind_of(tmp_path / "elsewhere") is None


def test_names_of_ours_do_not_make_a_home_ours(agent: AgentHome, tmp_path: Path) -> None:
    """The home of aider is a project of the user, with whatever folders that needs: what was taken
    for our own sessions there was removed."""
    root = _smallest(agent, tmp_path)
    (root / "operations").mkdir(exist_ok=True)
    (root / "operations" / "1.jsonl").write_text('{"note": "not a log of ours"}\n')
    (root / "sessions").mkdir(exist_ok=True)
    (root / "checkpoints" / "store").mkdir(parents=True, exist_ok=True)
    (root / "checkpoints" / "store" / "format").write_text("1\n")
    if not (root / "sessions.db").exists():
        with contextlib.closing(sqlite3.connect(root / "sessions.db")) as db:
            db.execute("CREATE TABLE theirs (x)")
    kind = kind_of(root)
    assert kind is not None
    assert kind.name == agent.name


@pytest.mark.parametrize("made", ["session", "log", "checkpoint"])
def test_what_only_we_make_is_ours_at_once(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "home"
    with holdfast.open(root, create=True, clock=lambda: _NOW) as home:
        if made == "checkpoint":
            project = tmp_path / "project"
            project.mkdir()
            (project / "file").write_text("x")
            assert home.checkpoints.take(project).id
        else:
            session = home.sessions.create(source="cli")
            if made == "log":
                home.sessions.end(session.id)
                assert home.delete([session.id]).removed
                (root / "sessions.db-gate").unlink()
    asked: list[str] = []
    monkeypatch.setattr(registry, "_is_recognised", lambda kind, _: asked.append(kind.name))
    kind = kind_of(root)
    assert kind is not None
    assert kind.name == "holdfast"
    assert asked == []


def test_a_closed_folder_is_no_reason_to_ask_nobody_else(tmp_path: Path) -> None:
    """As in a home of Hermes whose `checkpoints` belongs to somebody else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "listdir", _closed)
        patch.setattr(os, "open", _closed)
        assert not is_surely_ours(tmp_path)


def _closed(*_: object, **__: object) -> None:
    raise PermissionError(errno.EACCES, "Permission denied")

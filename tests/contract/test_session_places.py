"""A restore brings back only what the agent keeps of a session, whatever a record says."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

import holdfast
from holdfast import Message
from holdfast.api.sessions import open_sessions
from holdfast.errors import HoldfastError
from holdfast.homes.agents.aider import Aider
from holdfast.homes.session_places import SessionPlaces
from holdfast.model.part import FilePart, FolderPart, LinePart, Part
from holdfast.model.report import Result
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.ports.formats import Format
from tests.contract.agent_extras import EXTRAS
from tests.contract.agent_homes import NOW, make_claude, make_codex
from tests.contract.agents.home import AgentHome
from tests.contract.agents.recorded import RECORDED
from tests.trees import everything

AIDER = Aider.facts
TRANSCRIPTS = SessionOptions(transcripts={"default": Transcript.JSONL})
#: Relative to the home: what runs programs, or decides what may run.
STRANGE = (
    "settings.json",
    "settings2.json",
    "config.toml",
    "hooks/pre.sh",
    "hooks.json",
    "bin/agent",
    "skills/one/SKILL.md",
    "sessions.json",
    ".holdfast/config.toml",
    ".holdfast",
    "projects/../settings.json",
    "sessions/../config.toml",
)


def _format_of(agent: str) -> Format:
    module = "continue_cli" if agent == "continue" else agent.replace("-", "_")
    found = vars(import_module(f"holdfast.homes.agents.{module}")).values()
    [made] = [each for each in found if _is_format_of(agent, each)]
    form: Format = made()
    return form


def _is_format_of(agent: str, found: object) -> bool:
    return isinstance(found, type) and getattr(found, "facts", AIDER).name == agent


@pytest.mark.parametrize("agent", RECORDED, ids=[each.name for each in RECORDED])
def test_every_part_of_a_real_session_is_in_its_place(agent: AgentHome, tmp_path: Path) -> None:
    root = tmp_path / agent.folder
    root.parent.mkdir(parents=True, exist_ok=True)
    agent.make(root)
    for (name, _), extra in EXTRAS.items():
        if name == agent.name:
            extra(root)
    form = _format_of(agent.name)
    units = list(form.units(root, lambda _: None))
    assert len(units) >= agent.sessions
    places = SessionPlaces(form, root)
    assert [where for each in units if (where := places.misplaced(each))] == []
    # The same home, where the user moved a folder and left a link to it.
    for moved in sorted(
        {
            each.place.relative_to(root).parts[0]
            for u in units
            for each in u.parts
            if each.place.is_relative_to(root)
        }
    ):
        if (root / moved).is_dir():
            (root / moved).rename(tmp_path / f"moved-{moved}")
            (root / moved).symlink_to(tmp_path / f"moved-{moved}")
    assert [where for each in units if (where := places.misplaced(each))] == []


@pytest.mark.parametrize("agent", RECORDED, ids=[each.name for each in RECORDED])
def test_nothing_else_is(agent: AgentHome, tmp_path: Path) -> None:
    root = tmp_path / agent.folder
    root.parent.mkdir(parents=True, exist_ok=True)
    agent.make(root)
    form = _format_of(agent.name)
    unit = next(each for each in form.units(root, lambda _: None) if each.parts)
    for name in STRANGE:
        path = root / name
        parts: tuple[Part, ...] = (
            FilePart(path=path),
            FolderPart(path=path.parent / "skills" / unit.id),
            LinePart(path=path, value="x", at=("hooks",)),
        )
        for part in parts:
            strange = replace(unit, parts=(*unit.parts, part))
            assert SessionPlaces(form, root).misplaced(strange) == str(part.place), part


# --- Bundles that somebody edited -----------------------------------------------------------------


def _members(bundle: Path) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(zstd.decompress(bundle.read_bytes()))) as tar:
        held = [(each.name, tar.extractfile(each)) for each in tar.getmembers()]
        return {name: b"" if data is None else data.read() for name, data in held}


def _write(bundle: Path, members: dict[str, bytes]) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size, about.mode = len(content), 0o600
            tar.addfile(about, io.BytesIO(content))
    bundle.write_bytes(zstd.compress(made.getvalue()))
    # The list of bundles is made again from the bundles.
    (bundle.parent / "catalogue.jsonl").unlink(missing_ok=True)


def _forge(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the record of a session in a bundle, with every checksum adjusted."""
    members = _members(bundle)
    tree = json.loads(members["files/tree.json"])
    number = next(at for at, each in enumerate(tree) if each["path"] == "record.json")
    record = json.loads(members[f"files/{number}"])
    change(record)
    members[f"files/{number}"] = json.dumps(record).encode()
    manifest = json.loads(members["beside.json"])
    for each in manifest["files"]:
        content = members[f"files/{each['name']}"]
        each |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    members["beside.json"] = json.dumps(manifest).encode()
    _write(bundle, members)


def _is_transcript(part: dict[str, Any]) -> bool:
    return part["kind"] == "file" and str(part["path"]).endswith(".jsonl")


def _transcript_at(name: str) -> Callable[[Path, list[dict[str, Any]]], None]:
    def change(root: Path, parts: list[dict[str, Any]]) -> None:
        part = next(filter(_is_transcript, parts))
        part["path"] = str(root / name)

    return change


FORGED = {
    "our settings": _transcript_at(".holdfast/config.toml"),
    "the agent's settings": _transcript_at("settings.local.json"),
    "a program": _transcript_at("bin/run"),
    "a transcript of another": _transcript_at("projects/-home-me/other.jsonl"),
    "around a corner": _transcript_at("projects/x/../../settings.local.json"),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize(
    ("make", "folder"), [(make_claude, ".claude"), (make_codex, ".codex")], ids=("claude", "codex")
)
def test_a_bundle_plants_nothing(
    make: Callable[[Path], None],
    folder: str,
    change: Callable[[Path, list[dict[str, Any]]], None],
    tmp_path: Path,
) -> None:
    root = tmp_path.resolve() / folder
    make(root)
    (root / ".holdfast").mkdir(mode=0o700)
    with holdfast.open(root, clock=lambda: NOW) as home:
        name = min(each.id for each in home.sessions.find(roots=True))
        home.archive_sessions(name)
        [bundle] = (root / ".holdfast" / "archive").glob("*.tar.*")
    _forge(bundle, lambda said: change(root, [e["part"] for e in said["units"][0]["parts"]]))
    before = _agents_files(root)
    with holdfast.open(root, clock=lambda: NOW) as home:
        [outcome] = home.restore_sessions(name).outcomes
        assert outcome.result is Result.FAILED
        assert "is not where this agent keeps files of a session" in outcome.reason
        assert _agents_files(root) == before
        assert not (root / ".holdfast" / "config.toml").exists()
        assert [each.session.id for each in home.archive.find()] == [name]
        assert not list((root / ".holdfast" / "trash").glob("*/*"))


def _agents_files(root: Path) -> dict[str, tuple[int, bytes]]:
    found = everything(root)
    return {path: each for path, each in found.items() if not path.startswith(".holdfast/")}


@pytest.mark.parametrize("maps", [None, "/srv/elsewhere"], ids=["here", "moved"])
def test_nor_does_a_part_beside_the_transcript(maps: str | None, tmp_path: Path) -> None:
    """Restored under other paths, too."""
    root = tmp_path.resolve() / ".claude"
    make_claude(root)
    with holdfast.open(root, clock=lambda: NOW) as home:
        name = min(each.id for each in home.sessions.find(roots=True))
        cwd = str(home.sessions.get(name).cwd)
        todo = root / "todos" / f"{name}-agent-{name}.json"
        todo.parent.mkdir(exist_ok=True)
        todo.write_text('{"hooks": {}}\n')
        os.utime(todo, (NOW - 1e6, NOW - 1e6))
        home.archive_sessions(name)
        [bundle] = (root / ".holdfast" / "archive").glob("*.tar.*")

    def change(said: dict[str, Any]) -> None:
        parts = [each["part"] for each in said["units"][0]["parts"]]
        [part] = [each for each in parts if each.get("path") == str(todo)]
        part["path"] = str(root / "settings.local.json")

    _forge(bundle, change)
    before = _agents_files(root)
    with holdfast.open(root, clock=lambda: NOW) as home:
        given = {} if maps is None else {cwd: maps}
        [outcome] = home.restore_sessions(name, maps=given).outcomes
        assert outcome.result is Result.FAILED
        assert f"{root}/settings.local.json is not where this agent keeps" in outcome.reason
        assert _agents_files(root) == before
        assert not list((root / ".holdfast" / "trash").glob("*/*"))


@pytest.mark.parametrize(
    "name", ["config.toml", "../config.toml", "../../x.jsonl", "/etc/x.jsonl", ".profile", "run.sh"]
)
def test_a_bundle_of_our_own_plants_nothing(name: str, tmp_path: Path) -> None:
    root = tmp_path / ".holdfast"
    with open_sessions(root, clock=lambda: NOW, options=TRANSCRIPTS) as sessions:
        one = sessions.create(source="cli")
        sessions.append(one.id, Message(role="user", content="hello"))
        sessions.end(one.id)
    with holdfast.open(root, clock=lambda: NOW) as home:
        home.archive_sessions(one.id)
        [bundle] = (root / "archive").glob("*.tar.*")
        members = _members(bundle)
        manifest = json.loads(members["beside.json"])
        [file] = manifest["files"]
        members[f"files/{name}"] = members.pop(f"files/{file['name']}")
        file["name"] = name
        _write(bundle, {**members, "beside.json": json.dumps(manifest).encode()})
    before = _agents_files(tmp_path)
    with holdfast.open(root, clock=lambda: NOW) as home:
        with contextlib.suppress(HoldfastError):
            assert home.restore_sessions(one.id).brought_back == 0
        assert {path for path in _agents_files(tmp_path) if name.rpartition("/")[2] in path} == {
            path for path in before if name.rpartition("/")[2] in path
        }

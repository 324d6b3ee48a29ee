"""A session archived on one machine and restored on another, under other paths."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from holdfast.cli import main
from holdfast.errors import UsageError
from holdfast.homes.foreign import moved_paths as moving
from holdfast.homes.foreign.moved_paths import ClaudeCode, Codex
from holdfast.model.path_map import mapped
from holdfast.model.report import Result
from holdfast.policy.rules import DAY
from holdfast.stores.archive.archive import SessionArchive
from tests.contract.agent_homes import NOW, make_claude, make_codex, make_gemini
from tests.object_servers import CREDENTIALS, an_address, rclone
from tests.trees import everything

MAKE = {"claude-code": (make_claude, ".claude"), "codex": (make_codex, ".codex")}


class Two:
    """A home on one machine, and an empty one on another."""

    def __init__(self, place: Path, agent: str) -> None:
        make, folder = MAKE[agent]
        self.one_root, self.two_root = place / "one" / folder, place / "two" / folder
        make(self.one_root)
        make(self.two_root)  # an agent that was used there, and has other sessions
        self.one = holdfast.open(self.one_root, clock=lambda: NOW)
        self.two = holdfast.open(self.two_root, clock=lambda: NOW)
        ids = sorted(each.id for each in self.one.sessions.find(roots=True))
        self.id = ids[0]
        self.two.delete(self.id, use_trash=False)  # it is another machine's

    def archived(self) -> str:
        """The working directory of the session that is in the archive of the other machine now."""
        cwd = self.one.sessions.get(self.id).cwd
        assert cwd is not None
        self.one.archive_sessions(self.id)
        [bundle] = (self.one_root / ".holdfast" / "archive").glob("*.tar.*")
        there = self.two_root / ".holdfast" / "archive"
        there.mkdir(mode=0o700, exist_ok=True)
        shutil.copy2(bundle, there)
        return cwd

    def close(self) -> None:
        self.one.close()
        self.two.close()


@pytest.fixture(params=["claude-code", "codex"])
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path.resolve(), request.param)
    yield made
    made.close()


def _transcript(home: Home, name: str) -> Path:
    [found] = [each for each in home.path.rglob(f"*{name}.jsonl") if ".holdfast" not in each.parts]
    return found


def test_a_session_moves_to_another_machine(two: Two) -> None:
    said = [each.content for each in two.one.sessions.messages(two.id)]
    old = _transcript(two.one, two.id).read_bytes()
    cwd = two.archived()
    before = everything(two.two_root)
    new = "/srv/elsewhere/pröject"
    report = two.two.restore_sessions(two.id, maps={cwd: new})
    assert report.brought_back == 1, report.outcomes
    moved = _transcript(two.two, two.id)
    session = two.two.sessions.get(two.id)
    assert session.cwd == new
    assert [each.content for each in two.two.sessions.messages(two.id)] == said
    # Only working directories changed: byte for byte the same with the old path in their place.
    assert moved.read_bytes() != old
    assert moved.read_bytes().replace(new.encode(), cwd.encode()) == old
    if "projects" in moved.parts:
        assert moved.parent.name == "-srv-elsewhere-pr-ject"
    # It is a copy: the bundle is what it was, and the session can go again.
    assert [each.session.id for each in two.two.archive.find()] == [two.id]
    two.two.delete(two.id, use_trash=False)
    after = everything(two.two_root)
    assert _files(after) == _files(before)


def _files(found: dict[str, tuple[int, bytes]]) -> dict[str, bytes]:
    """The files of the agent, without what is ours and what its databases keep for themselves."""
    return {
        path: data
        for path, (_, data) in found.items()
        if data and not path.startswith(".holdfast") and ".sqlite" not in path
    }


def test_what_nobody_mapped_stays_in_the_archive(two: Two) -> None:
    cwd = two.archived()
    before = everything(two.two_root)
    report = two.two.restore_sessions(two.id, maps={"/somewhere/else": "/srv"})
    [outcome] = report.outcomes
    assert report.failed == 1
    assert f"`maps={{'{cwd}': path}}`" in outcome.reason
    assert _files(everything(two.two_root)) == _files(before)
    assert not list((two.two_root / ".holdfast" / "trash").glob("*/*"))
    assert two.two.restore_sessions(two.id, maps={cwd: "/srv"}).brought_back == 1
    [again] = two.two.restore_sessions(two.id, maps={cwd: "/srv/other"}).outcomes
    assert "already exists here" in again.reason
    with pytest.raises(UsageError, match="not an absolute path"):
        two.two.restore_sessions(two.id, maps={"relative": "/srv"})


def test_an_id_is_there_once_whatever_the_paths(two: Two) -> None:
    """Files beside the transcript have the same place under every path; so has a rollout, and two
    paths of the same length make files of the same size and time."""
    if two.one_root.name == ".claude":
        history = two.one_root / "file-history" / two.id
        history.mkdir(parents=True)
        (history / "a@v1").write_text("before")
    cwd = two.archived()
    assert two.two.restore_sessions(two.id, maps={cwd: "/srv2"}).brought_back == 1
    before = _files(everything(two.two_root))
    for new, result, why in (
        ("/srv2", Result.SKIPPED, "it is already here, unchanged"),
        ("/srv3", Result.FAILED, "a session with this id already exists here"),
        ("/srv/elsewhere", Result.FAILED, "a session with this id already exists here"),
    ):
        [outcome] = two.two.restore_sessions(two.id, maps={cwd: new}).outcomes
        assert outcome.result is result
        assert why in outcome.reason
        assert _files(everything(two.two_root)) == before
    assert not list((two.two_root / ".holdfast" / "trash").glob("*/*"))


def test_a_bundle_of_another_machine_says_how_it_is_restored(
    two: Two, capsys: pytest.CaptureFixture[str]
) -> None:
    cwd = two.archived()
    [outcome] = two.two.restore_sessions(two.id).outcomes
    assert outcome.result is Result.FAILED
    assert f"it comes from another home ({two.one_root}); " in outcome.reason
    assert "`maps={'OLD': path}`" in outcome.reason
    assert not list((two.two_root / ".holdfast" / "trash").glob("*/*"))
    restore = ["--home", str(two.two_root), "sessions", "restore", two.id]
    assert main.run([*restore, "--map", f"{cwd}={two.one_root}", "--dry-run"]) == 0
    assert "does not exist" not in capsys.readouterr().err
    assert main.run([*restore, "--map", f"{cwd}=/srv/nowhere", "--dry-run"]) == 0
    assert "/srv/nowhere does not exist here yet" in capsys.readouterr().err


def test_a_copy_was_not_used_by_being_made(tmp_path: Path) -> None:
    """So that `sessions delete` takes it back: a session that was just used stays."""
    two = Two(tmp_path.resolve(), "claude-code")
    old = _transcript(two.one, two.id)
    beside = old.with_suffix("") / "subagents"
    beside.mkdir(parents=True)
    cwd = two.one.sessions.get(two.id).cwd
    line = {"type": "user", "sessionId": two.id, "cwd": cwd, "isSidechain": True, "agentId": "a1"}
    (beside / "agent-a1.jsonl").write_text(json.dumps(line) + "\n")
    for each in (beside / "agent-a1.jsonl", beside, beside.parent, old):
        os.utime(each, (NOW - 10 * DAY, NOW - 10 * DAY))
    two.archived()
    assert two.two.restore_sessions(two.id, maps={str(cwd): "/srv/site"}).brought_back == 1
    new = _transcript(two.two, two.id)
    moved = new.with_suffix("") / "subagents"
    assert '"/srv/site"' in (moved / "agent-a1.jsonl").read_text()
    for each in (moved / "agent-a1.jsonl", moved, moved.parent, new):
        assert each.stat().st_mtime == NOW - 10 * DAY, each
    two.close()


@pytest.mark.deep
@pytest.mark.parametrize("step", ["_rewrite", "measure", "sync_dir", "drop_in_time"])
def test_killed_in_between_the_next_run_finishes_it(
    two: Two, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    cwd = two.archived()

    class KilledError(BaseException):
        pass

    def die(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        # The last is done when the session is back, and before the log says so.
        patch.setattr(SessionArchive if step == "drop_in_time" else moving, step, die)
        with pytest.raises(KilledError):
            two.two.restore_sessions(two.id, maps={cwd: "/srv/site"})
    two.two.close()
    two.two = holdfast.open(two.two_root, clock=lambda: NOW)
    two.two.maintain(force=True)
    assert two.two.sessions.get(two.id).cwd == "/srv/site"
    [restored] = [each for each in two.two.log.list() if each.brought_back]
    assert restored.brought_back == 1
    assert not list((two.two_root / ".holdfast" / "trash").glob("*/*"))


@pytest.mark.deep
def test_two_machines_share_an_archive(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """No copying: both have the same object store for an archive."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    endpoint = rclone().endpoint
    settings = f'[archive]\nurl = "{an_address(endpoint).url}"\nendpoint = "{endpoint}"\n'
    cwd = two.one.sessions.get(two.id).cwd
    two.close()
    for root in (two.one_root, two.two_root):
        (root / ".holdfast").mkdir(exist_ok=True)
        (root / ".holdfast" / "config.toml").write_text(settings)
    two.one = holdfast.open(two.one_root, clock=lambda: NOW)
    two.two = holdfast.open(two.two_root, clock=lambda: NOW)
    two.one.archive_sessions(two.id)
    assert two.two.restore_sessions(two.id, maps={str(cwd): "/srv/site"}).brought_back == 1
    assert two.two.sessions.get(two.id).cwd == "/srv/site"
    # The bundle is still there for the machine that it came from.
    assert two.one.restore_sessions(two.id).brought_back == 1
    assert two.one.sessions.get(two.id).cwd == cwd


def test_other_agents_say_that_they_do_not_move(tmp_path: Path) -> None:
    make_gemini(tmp_path / ".gemini")
    with holdfast.open(tmp_path / ".gemini", clock=lambda: NOW) as home:
        name = home.sessions.find(roots=True)[0].id
        home.archive_sessions(name)
        [outcome] = home.restore_sessions(name, maps={"/a": "/b"}).outcomes
        assert "only sessions of Claude Code and Codex" in outcome.reason
        assert home.restore_sessions(name).brought_back == 1


def test_what_was_said_stays_as_it_was_said() -> None:
    maps = {"/old": "/new"}
    tool = {"toolUseResult": {"cwd": "/old"}, "message": {"content": 'a "cwd":"/old" b'}}
    for record in (
        {**tool, "cwd": "/old/x", "type": "user"},
        {"cwd": "/old/x", **tool, "type": "user"},
    ):
        line = json.dumps(record, separators=(",", ":")).encode()
        changed = json.loads(ClaudeCode().line(line, maps))
        assert changed == {**record, "cwd": "/new/x"}
    said = b'{"type":"response_item","payload":{"text":"<cwd>/old</cwd>","cwd":"/old"}}\n'
    assert Codex().line(said, maps) == said
    meta = (
        b'{"type":"session_meta","payload":{"cwd":"/old","runtime_workspace_roots":["/old","/x"]}}'
    )
    assert Codex().line(meta, maps) == meta.replace(b"/old", b"/new")
    assert mapped("/older", maps) is None
    assert mapped("/a/b/c", {"/a": "/x", "/a/b": "/y"}) == "/y/c"

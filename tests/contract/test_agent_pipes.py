"""A pipe where an agent has a file: nobody waits for it, and the sessions beside it go on."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.api.place import listed_homes
from holdfast.errors import HoldfastError
from holdfast.homes.agents import aider, claude_code, cline, codex, continue_cli, vibe
from holdfast.homes.agents import json_lines as records
from holdfast.homes.agents.appended_transcript import Lines
from holdfast.homes.agents.copilot import flat_yaml
from holdfast.homes.agents.json_lines import check_of
from holdfast.homes.agents.rewritten_transcript import Rewritten
from holdfast.homes.archive.units import UnitArchiveMover
from holdfast.homes.foreign.transcripts import source_in
from holdfast.homes.hermes.state_db.schema import is_hermes
from holdfast.homes.meters.meter import read_meter
from holdfast.homes.registry import kinds
from holdfast.hooks import client
from holdfast.model.report import Result
from holdfast.model.session import SessionFilter
from holdfast.parts import rows
from holdfast.parts.trees import clone
from holdfast.stores.sqlite import foreign
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.contract.agent_homes import DAY, NOW
from tests.contract.agents.vibe import HOME as VIBE
from tests.contract.factory import files_and_rows

#: More than any of this takes on a busy machine: whoever takes longer waits for a writer.
_PATIENCE = 20


class WaitsForEverError(BaseException):
    """Nobody catches this."""


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise WaitsForEverError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# --- Everything that opens a file of an agent -----------------------------------------------------


def _codex(path: Path) -> object:
    return codex.Codex().doubt(path.rename(path.with_name("config.toml")).parent)


def _continue(path: Path) -> object:
    (path.parent / "sessions").mkdir()
    path.rename(path.parent / "sessions" / "sessions.json")
    return continue_cli._list(path.parent)


def _cline(path: Path) -> object:
    """A worktree whose repository has a pipe instead of the name of the main one."""
    path.rename(path.with_name("commondir"))
    (path.parent / "project").mkdir()
    (path.parent / "project" / ".git").write_text(f"gitdir: {path.parent}\n")
    return cline._repository(str(path.parent / "project"))


def _config(path: Path) -> object:
    path.rename(path.with_name("config.toml"))
    return listed_homes(path.parent, {"HOLDFAST_HOME": str(path.parent)})


def _hook(path: Path) -> object:
    path.rename(path.with_name("config.toml"))
    return client._wants_helper(str(path.parent))


def _journal(read: Callable[[Path], object]) -> Callable[[Path], object]:
    """A pipe beside a database, which SQLite opens before it reads anything."""

    def reading(path: Path) -> object:
        path.with_name("agent.db").touch()
        path.rename(path.with_name("agent.db-journal"))
        return read(path.with_name("agent.db"))

    return reading


def _entered(opened: Callable[[Path], contextlib.AbstractContextManager[object]]) -> object:
    def read(path: Path) -> None:
        with opened(path):
            pass

    return read


_READERS = {
    "a line after the other": lambda path: list(records.records(path)),
    "the first lines": lambda path: list(records.first_records(path)),
    "the last lines": lambda path: list(records.last_records(path)),
    "a whole document": lambda path: list(records.whole_records(path)),
    "what cannot be read": records.unread,
    "what was appended": lambda path: list(Lines(path)),
    "where a reader stopped": lambda path: check_of(path, 10),
    "what was rewritten": lambda path: list(Rewritten(path, lambda *_: None).records()),
    "a YAML file": flat_yaml,
    "a list of Vibe": vibe._list,
    "a list of Continue": _continue,
    "the configuration of Codex": _codex,
    "a worktree of Cline": _cline,
    "chats of aider": lambda path: list(aider._chats(path)),
    "whether it is a database": foreign.is_sqlite,
    "rows of a database": lambda path: foreign.rows(path, "SELECT 1"),
    "a database with a journal": _journal(lambda path: foreign.rows(path, "SELECT 1")),
    "rows as parts": _entered(rows._reading),
    "rows as parts with a journal": _journal(_entered(rows._reading)),  # type: ignore[arg-type]
    "a database of Hermes": _journal(is_hermes),
    "a file to import": lambda path: source_in(path, ()),
    "our configuration": _config,
    "a hook": _hook,
    "a tree that is copied": lambda path: clone(path, path.with_name("copy")),
    **{
        f"the meter of {agent}": lambda path, agent=agent: read_meter(agent, [path], {}, session="")
        for agent in ("claude-code", "codex", "gemini", "opencode")
    },
    **{f"transcripts of {kind.name}": kind.transcripts for kind in kinds()},
}


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("reader", _READERS)
def test_nobody_waits_for_what_is_no_file(reader: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with contextlib.suppress(OSError, HoldfastError):
        _READERS[reader](path)  # type: ignore[operator]


# --- A whole home ---------------------------------------------------------------------------------


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(claude_code, "TEMPORARY", tmp_path / "temporary")
    VIBE.make(tmp_path / "user" / VIBE.folder)
    return tmp_path / "user"


def _with_pipe(root: Path) -> str:
    """The session that has one."""
    folder = min((root / "logs/session/unified").glob("[0-9a-f]*-*"))
    os.mkfifo(folder / "odd")
    return folder.name


def test_a_session_with_a_pipe_stays_and_the_others_are_archived(user: Path) -> None:
    root = user / VIBE.folder
    before = files_and_rows(root)
    odd = _with_pipe(root)
    wanted = SessionFilter(active_before=NOW - DAY)
    with holdfast.open(root, clock=lambda: NOW) as home:
        for others in (VIBE.sessions - 1, 0):  # the second run says it again
            report = home.plan_archive(wanted=wanted).apply()
            ended = {each.id: each for each in report.outcomes}
            assert ended.pop(odd).result is Result.FAILED
            assert next(each for each in report.outcomes if each.id == odd).reason == (
                "odd is no regular file; it cannot be archived"
            )
            assert [each.result for each in ended.values()] == [Result.REMOVED] * others
        assert [each.id for each in home.sessions.find()] == [odd]
        home.undo("1")
    next(root.rglob("odd")).unlink()
    assert files_and_rows(root) == before


def test_a_killed_archive_is_named_by_the_next_one(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It settles what was left, after its plan was made: what came back is not in that."""
    inside = Inside(Machine(root=user.parent))
    monkeypatch.setattr("time.time", lambda: NOW)
    command = ("--home", "vibe", "sessions", "archive", "--older-than", "1d", "--yes")

    def killed(*_: object) -> None:
        raise WaitsForEverError

    with monkeypatch.context() as patched:
        patched.setattr(UnitArchiveMover, "_pack", killed)
        with pytest.raises(WaitsForEverError):
            inside.run(*command)
    said = inside.run(*command)
    assert "operation 1 was interrupted" in said.err
    assert "Run the command again" in said.err
    said = inside.run(*command)
    assert "1 archived" in said.out
    assert "interrupted" not in said.err

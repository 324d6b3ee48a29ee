"""`~` is the home directory in every public call that takes a path, of whatever type."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast import Recorder, SessionFilter, TakeOutcome
from holdfast.api.capture import open_recorder
from holdfast.api.sessions import open_sessions
from holdfast.homes.registry import open_home
from holdfast.model.arguments import StrPath
from holdfast.model.maintenance import MaintenanceResult
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.services.sessions import Sessions


class _Own:
    """What another library may hand over."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __fspath__(self) -> str:
        return self._text


def _background(home: StrPath) -> None:
    async def one_run() -> None:
        done: asyncio.Queue[MaintenanceResult] = asyncio.Queue()
        task = asyncio.create_task(holdfast.maintain_in_background(home, on_result=done.put_nowait))
        result = await done.get()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert result.errors == ()

    asyncio.run(one_run())


def _opened(home: StrPath) -> None:
    open_home(home, clock=time.time).close()


def _maintained(home: StrPath) -> None:
    assert holdfast.maintain(home, force=True).errors == ()


_HOMES: dict[str, Callable[[StrPath], object]] = {
    "open_sessions": lambda home: open_sessions(home).close(),
    "open_recorder": lambda home: open_recorder(home, user_home="~"),
    "open": lambda home: holdfast.open(home).close(),
    "open_home": _opened,
    "maintain": _maintained,
    "maintain_in_background": _background,
}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory, and another folder to be in."""
    (tmp_path / "elsewhere").mkdir()
    user = tmp_path / "user"
    (user / "home" / "sessions").mkdir(parents=True)
    (user / "project").mkdir()
    (user / "project" / "file").write_text("one\n")
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.chdir(tmp_path / "elsewhere")
    return user


@pytest.mark.parametrize("kind", [str, Path, _Own])
@pytest.mark.parametrize("call", _HOMES)
def test_a_home(user: Path, call: str, kind: Callable[[str], StrPath]) -> None:
    _HOMES[call](kind("~/home"))
    assert list(Path.cwd().iterdir()) == []


def test_no_public_function_is_forgotten() -> None:
    takes_paths = {
        name
        for name in holdfast.__all__
        if inspect.isfunction(call := getattr(holdfast, name))
        and any(each in {"home", "path"} for each in inspect.signature(call).parameters)
        and "Path" in str(inspect.signature(call))
    }
    assert takes_paths <= set(_HOMES)


@pytest.mark.parametrize("kind", [str, Path, _Own])
def test_a_project(user: Path, kind: Callable[[str], StrPath]) -> None:
    recorder = open_recorder(
        kind("~/home"), enabled=True, workdirs=[kind("~/project")], user_home=kind("~")
    )
    before = recorder.before_change(kind("~/project/file"))
    assert before.outcome is TakeOutcome.TAKEN
    store: CheckpointStore = recorder.store
    assert [each.workdir for each in store.list(kind("~/project"))] == [str(user / "project")]
    assert store.look(kind("~/project")).tree
    again = store.take(kind("~/project"), reason="by hand", now=time.time())
    assert again.outcome is TakeOutcome.UNCHANGED
    refused = store.take(kind("~"), reason="by hand", now=time.time())
    assert refused.outcome is TakeOutcome.SKIPPED
    assert list(Path.cwd().iterdir()) == []


def test_a_file_whose_name_only_begins_so(user: Path, tmp_path: Path) -> None:
    """As office programs leave them: no user is called `$report.txt`."""
    recorder: Recorder = open_recorder(tmp_path / "home", enabled=True)
    Path("~$report.txt").write_text("x")
    taken = recorder.before_change("~$report.txt")
    assert taken.outcome is TakeOutcome.TAKEN
    assert recorder.store.list()[0].workdir == str(tmp_path / "elsewhere")


@pytest.mark.parametrize("kind", [str, Path, _Own])
def test_the_folder_of_a_session(user: Path, kind: Callable[[str], StrPath]) -> None:
    sessions: Sessions
    with open_sessions("~/home") as sessions:
        made = sessions.create(source="cli", cwd=kind("~/project"))
        assert made.cwd == str(user / "project")
        assert [each.id for each in sessions.find(SessionFilter(cwd="~"))] == [made.id]

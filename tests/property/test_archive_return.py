"""What comes back from the archive comes back whole, or stays there whole: nothing is dropped."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.report import Result
from holdfast.model.session import SessionFilter
from holdfast.policy.rules import Policy
from holdfast.ports.home import Home
from holdfast.services.plans import plan_archive
from holdfast.services.restore import chosen, restore
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo_latest
from tests.archiving import NOW, STAMPED, a_stored_session, opened, store_of
from tests.compat.hermes_sessions import NOW as HERMES_NOW
from tests.compat.hermes_sessions import OLD, recorded
from tests.compat.hermes_sessions import opened as opened_hermes

#: What has the name of a file when it is to come back.
OCCUPANTS = ("nothing", "same", "longer", "changed", "folder", "link")
FEW = settings(max_examples=max(10, settings().max_examples // 5), deadline=None)


def occupy(path: Path, occupant: str, content: bytes) -> None:
    match occupant:
        case "same":
            path.write_bytes(content)
        case "longer":
            path.write_bytes(content + b"more\n")
        case "changed":
            path.write_bytes(content[::-1])
            os.utime(path, (1, 1))
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to("elsewhere")
        case _:
            pass


def names(session_id: str) -> list[str]:
    return [f"{session_id}.jsonl", f"request_dump_{session_id}_20260325_112518_000001.json"]


def put_away(home: Home, session_id: str, now: float) -> dict[str, bytes]:
    """Archive a session with its files; what they hold."""
    folder = home.root / "sessions"
    folder.mkdir(exist_ok=True)
    contents = {
        name: f'{{"id": "{session_id}", "n": "{name}"}}\n'.encode() for name in names(session_id)
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    made, _ = plan_archive(
        home, home.archive, ids=(session_id,), policy=Policy(), now=now, command="archive"
    )
    assert not apply(made, home, clock=lambda: now).failed
    assert not any((folder / name).exists() for name in contents)
    return contents


def check(home: Home, session_id: str, occupants: tuple[str, ...], way: str, now: float) -> None:
    contents = put_away(home, session_id, now)
    folder = home.root / "sessions"
    for (name, content), occupant in zip(contents.items(), occupants, strict=True):
        occupy(folder / name, occupant, content)
    before = {path.name: path.lstat().st_mtime_ns for path in folder.iterdir()}
    if way == "undo":
        _, report = undo_latest(home, clock=lambda: now)
    else:
        wanted = chosen(home.archive, (session_id,))
        report = restore(home, wanted, command="restore", clock=lambda: now)
    [outcome] = report.outcomes
    store = home.session_store()
    assert store is not None
    is_back = bool(store.find(SessionFilter(ids=(session_id,))))
    in_archive = any(each.session.id == session_id for each in home.archive.find(SessionFilter()))
    if set(occupants) <= {"nothing", "same"}:
        assert outcome.result is Result.BROUGHT_BACK
        assert (is_back, in_archive) == (True, False)
        assert {name: (folder / name).read_bytes() for name in contents} == contents
        return
    assert outcome.result is Result.FAILED
    assert (is_back, in_archive) == (False, True), "it is neither here nor there"
    after = {path.name: path.lstat().st_mtime_ns for path in folder.iterdir()}
    assert after == before, "something was half restored, or replaced"
    for name, occupant in zip(contents, occupants, strict=True):
        assert (f"sessions/{name}" in outcome.reason) == (occupant not in ("nothing", "same"))


@contextmanager
def own_home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory() as made:
        home = opened(Path(made))
        a_stored_session(home)
        yield home
        store_of(home).close()


@FEW
@given(st.tuples(*[st.sampled_from(OCCUPANTS)] * 2), st.sampled_from(["undo", "restore"]))
def test_a_file_in_the_way_costs_nothing(occupants: tuple[str, ...], way: str) -> None:
    with own_home() as home:
        check(home, STAMPED, occupants, way, NOW)


@pytest.mark.parametrize("way", ["undo", "restore"])
@pytest.mark.parametrize("occupant", ["same", "longer"])
def test_a_file_in_the_way_costs_nothing_in_a_home_of_hermes(
    tmp_path: Path, occupant: str, way: str
) -> None:
    home = opened_hermes(recorded(tmp_path))
    session_id = min(OLD)
    for path in (home.root / "sessions").glob(f"*{session_id}*"):
        path.unlink()
    check(home, session_id, (occupant, "nothing"), way, HERMES_NOW)

"""A home whose session store is gone: its disk is not mounted, or something emptied the file. Then
nobody can tell which session is open or pinned, so nothing that may belong to one leaves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.homes.hermes.kind import DATABASE as STATE
from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.kind import DATABASE
from holdfast.model.item import TRANSCRIPT
from holdfast.spine.apply import apply
from tests.compat.hermes_sessions import NOW as HERMES_NOW
from tests.compat.hermes_sessions import recorded

DAY = 86_400.0
NOW = 1_800_000_000.0


def _unmount(path: Path) -> None:
    """Its owner moved it to another disk long ago, and that disk is not there today."""
    path.unlink()
    path.symlink_to("/mnt/big-disk/agent/sessions.db")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


#: What happens to the database, and what the reason says of it.
LOST: dict[str, tuple[Callable[[Path], None], str]] = {
    "unmounted": (_unmount, "is a link to /mnt/big-disk/agent/sessions.db, which is not there"),
    "removed": (Path.unlink, "is missing"),
    "emptied": (_empty, "is empty (0 bytes)"),
}


def transcripts(root: Path) -> set[str]:
    return {path.name for path in (root / "sessions").iterdir()}


def an_own_home(root: Path) -> Path:
    """An open session, a pinned one and an ended one, each with a transcript."""
    with holdfast.open(root, create=True, clock=lambda: NOW - 200 * DAY) as home:
        for name in ("20260101_000000_aaaaaa", "20260101_000001_bbbbbb", "20260101_000002_cccccc"):
            home.sessions.create(source="cli", id=name)
            home.sessions.append(name, holdfast.Message(role="user", content="precious"))
            path = root / "sessions" / f"{name}.jsonl"
            path.parent.mkdir(exist_ok=True)
            path.write_text('{"role": "user", "content": "precious"}\n')
            os.utime(path, (NOW - 200 * DAY, NOW - 200 * DAY))
        home.sessions.pin("20260101_000001_bbbbbb")
        home.sessions.end("20260101_000001_bbbbbb")
        home.sessions.end("20260101_000002_cccccc")
    return root


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize("now", [True, False], ids=("for good", "to the trash"))
def test_transcripts_stay_while_the_store_is_gone(tmp_path: Path, how: str, now: bool) -> None:
    root = an_own_home(tmp_path / "home")
    lose, said = LOST[how]
    shutil.copy(root / DATABASE, tmp_path / "kept.db")
    lose(root / DATABASE)
    before = transcripts(root)
    [problem] = HoldfastHome(root, clock=lambda: NOW).lost_store()
    assert said in problem.reason
    with holdfast.open(root, clock=lambda: NOW) as home:
        planned = home.plan_prune(older_than="1d", use_trash=not now)
        assert not planned.apply().removed
        reasons = {each.reason for each in planned.plan.items if each.kind == TRANSCRIPT}
        assert all(f"{DATABASE} {said}" in each for each in reasons)
        assert any(
            each.path.endswith(DATABASE) and said in each.reason for each in planned.problems
        )
        store = next(each for each in home.doctor().findings if each.check == "session store")
        assert (store.severity, store.message.startswith(f"{DATABASE} {said}")) == ("warning", True)
    assert transcripts(root) == before
    (root / DATABASE).unlink(missing_ok=True)
    shutil.copy(tmp_path / "kept.db", root / DATABASE)
    with holdfast.open(root, clock=lambda: NOW) as home:
        home.prune(older_than="1d")
    assert transcripts(root) == before - {"20260101_000002_cccccc.jsonl"}


@pytest.mark.parametrize("how", LOST)
def test_the_same_in_a_home_of_hermes(tmp_path: Path, how: str) -> None:
    """Its database leaves nothing behind that names it; but every release has one."""
    root = recorded(tmp_path).rename(tmp_path / ".hermes")
    (root / "config.yaml").write_text("model: lab\n")
    lose, said = LOST[how]
    lose(root / STATE)
    before = transcripts(root)
    with holdfast.open(root, clock=lambda: HERMES_NOW) as home:
        assert home.kind == "hermes"
        planned = home.plan_prune(older_than="1d", use_trash=False)
        assert not planned.apply().removed
        assert any(each.path.endswith(STATE) and said in each.reason for each in planned.problems)
        assert any(f"{STATE} {said}" in each.reason for each in planned.plan.items)
    assert transcripts(root) == before


def test_a_store_that_went_after_the_plan_was_made_protects_too(tmp_path: Path) -> None:
    root = an_own_home(tmp_path / "home")
    (root / "sessions" / "20250101_000000_dddddd.jsonl").write_text("{}\n")
    os.utime(root / "sessions" / "20250101_000000_dddddd.jsonl", (NOW - 200 * DAY,) * 2)
    with holdfast.open(root, clock=lambda: NOW) as home:
        planned = home.plan_prune(older_than="1d", kinds="transcript", use_trash=False)
        assert [each.id for each in planned.plan.items if each.action == "remove"]
    before = transcripts(root)
    _empty(root / DATABASE)
    home_then = HoldfastHome(root, clock=lambda: NOW)
    report = apply(planned.plan, home_then, clock=lambda: NOW)
    home_then.close()
    assert not report.removed
    assert any("is empty (0 bytes)" in each.reason for each in report.outcomes)
    assert transcripts(root) == before


def test_a_home_that_never_had_a_store_can_be_cleaned(tmp_path: Path) -> None:
    root = tmp_path / "home"
    (root / "sessions").mkdir(parents=True)
    path = root / "sessions" / "20260101_000000_aaaaaa.jsonl"
    path.write_text("{}\n")
    os.utime(path, (NOW - 200 * DAY, NOW - 200 * DAY))
    for _ in range(2):  # what the first run logs is no trace of a store
        with holdfast.open(root, clock=lambda: NOW) as home:
            report = home.prune(older_than="1d")
            assert report.removed == 1
            assert not report.undo().failed
            home.status()
    assert path.exists()

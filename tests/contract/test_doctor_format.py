"""The check-up of a home that has a format: what is ours is checked and mended, what is the agent's
is read and never touched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.homes.agents import STATE
from holdfast.homes.format_home import FormatHome
from holdfast.model.checkup import Finding, Severity
from holdfast.model.report import Result
from holdfast.model.session import SessionFilter
from holdfast.policy.by_name import plan_all
from holdfast.services.doctor import examine, mend
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from tests.contract.factory import files_and_rows as snapshot
from tests.contract.sample_format import MarmotFormat, make_home

NOW = 1_800_000_000.0


def clock() -> float:
    return NOW


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_home(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def home(root: Path) -> Iterator[FormatHome]:
    opened = FormatHome(root, MarmotFormat(), clock=clock)
    opened.session_store()
    yield opened
    opened.close()


def found(home: FormatHome) -> dict[str, Finding]:
    return {each.check: each for each in examine(home, progress=Silent()).findings}


def repair(home: FormatHome) -> tuple[str, ...]:
    return mend(home, examine(home, progress=Silent()), clock=clock, progress=Silent()).steps


def test_a_home_that_is_well(home: FormatHome, root: Path) -> None:
    before = snapshot(root)
    findings = found(home)
    assert {each.severity for each in findings.values()} == {Severity.OK}
    assert {"format", "index", "archive", "operation log", "trash"} <= findings.keys()
    assert "never checked or repaired" in findings["format"].message
    assert snapshot(root) == before


def test_a_version_that_nobody_knows_is_said(home: FormatHome, root: Path) -> None:
    (root / "VERSION").write_text("99\n")
    assert found(home)["format"].severity is Severity.WARNING


def test_a_damaged_index_is_removed_and_made_again(home: FormatHome, root: Path) -> None:
    before, there = snapshot(root), home.session_store().count(SessionFilter())
    home.close()
    index = root / STATE / "index" / "sessions.db"
    index.write_bytes(b"SQLite format 3\0" + b"\xff" * 8_000)
    assert found(home)["index"].severity is Severity.WARNING
    assert any("index" in step for step in repair(home))
    assert home.session_store().count(SessionFilter()) == there
    assert found(home)["index"].severity is Severity.OK
    assert snapshot(root) == before


def test_a_lost_undo_copy_is_damage(home: FormatHome) -> None:
    [first, *_] = (each.id for each in home.session_store().find(SessionFilter()))
    items = [item for item in home.scan(NOW).items if item.id == first]
    plan = plan_all(items, str(home.root), NOW, command="test", reason="asked for", undoable=True)
    report = apply(plan, home, clock=clock)
    assert [each.result for each in report.outcomes] == [Result.REMOVED]
    assert found(home)["trash"].severity is Severity.OK
    shutil.rmtree(home.state / "trash")
    lost = found(home)["trash"]
    assert lost.severity is Severity.DAMAGE
    assert first in lost.message


def test_our_folder_is_private(home: FormatHome, root: Path) -> None:
    (root / STATE).chmod(0o755)
    assert found(home)["permissions"].repairable
    repair(home)
    assert (root / STATE).stat().st_mode & 0o777 == 0o700

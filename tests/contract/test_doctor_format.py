"""The check-up of a home that has a format: what is ours is checked and mended, what is the agent's
is read and never touched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.formats import FORMATS, Sample, clock, removing, snapshot

from holdfast.homes.format_home import STATE, FormatHome
from holdfast.model.checkup import Finding, Severity
from holdfast.model.report import Result
from holdfast.model.session import SessionFilter
from holdfast.services.doctor import examine, mend
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent


@pytest.fixture(params=FORMATS)
def sample(request: pytest.FixtureRequest) -> Sample:
    return FORMATS[request.param]


@pytest.fixture
def root(sample: Sample, tmp_path: Path) -> Path:
    sample.make(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def home(sample: Sample, root: Path) -> Iterator[FormatHome]:
    opened = sample.opened(root)
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


def test_a_version_that_nobody_knows_is_said(home: FormatHome, root: Path, sample: Sample) -> None:
    sample.age(root)
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
    report = apply(removing(home, first), home, clock=clock)
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

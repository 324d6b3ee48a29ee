"""The check-up of a home that has a format: what is ours is checked and mended, what is the agent's
is read and never touched."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.homes.agents.known import STATE
from holdfast.homes.foreign.home import FormatHome
from holdfast.model.checkup import Finding, Severity
from holdfast.model.plan import Action
from holdfast.model.report import Result
from holdfast.model.session import SessionFilter
from holdfast.policy.plan_by_name import plan_all, plan_named
from holdfast.services.doctor import examine, mend
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo
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


def remove(home: FormatHome, name: str, action: Action = Action.REMOVE) -> None:
    made = plan_named(
        [name], home.scan(NOW), NOW, command="test", reason="asked", undoable=True, action=action
    )
    assert apply(made, home, clock=clock).removed


def test_an_undo_copy_that_is_missing_or_changed_is_damage(home: FormatHome) -> None:
    remove(home, "aa01")
    [folder] = (home.state / "trash" / "1").iterdir()
    files = [each for each in folder.iterdir() if each.is_file() and each.suffix != ".json"]
    [copy] = [each for each in files if each.suffix != ".db"]
    kept = copy.read_bytes()
    copy.write_bytes(kept + b"x")
    assert "aa01" in found(home)["trash"].message
    copy.unlink()
    assert found(home)["trash"].severity is Severity.DAMAGE


@pytest.mark.parametrize("in_trash", [False, True])
@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_a_bundle_that_is_not_what_was_written_is_damage(
    home: FormatHome, in_trash: bool, how: str
) -> None:
    remove(home, "aa01", Action.ARCHIVE)
    if in_trash:
        bundles = home.archive.items()
        made = plan_all(bundles, str(home.root), NOW, command="t", reason="r", undoable=True)
        apply(made, home, clock=clock)
    assert found(home)["archive"].severity is Severity.OK
    [bundle] = (home.state / "archive").rglob("*.tar.*")
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)
    if how == "gone":
        bundle.unlink()
    damage = found(home)["archive"]
    assert damage.severity is Severity.DAMAGE
    assert str(bundle) in damage.message


def test_trash_without_its_record_is_found(home: FormatHome) -> None:
    for name in ("aa01", "bb02"):
        remove(home, name)
    log = home.state / "operations"
    (log / "2.jsonl").rename(log / "kept")
    lost = found(home)["trash"]
    assert lost.severity is Severity.DAMAGE
    assert str(home.state / "trash" / "2") in lost.message
    assert "record.json" in lost.advice
    (log / "kept").rename(log / "2.jsonl")
    assert found(home)["trash"].severity is Severity.OK
    (log / "1.jsonl").unlink()
    assert found(home)["trash"].severity is Severity.DAMAGE


def test_a_record_that_is_gone_leaves_a_gap(home: FormatHome) -> None:
    for name in ("aa01", "bb02"):
        remove(home, name)
        undo(home, home.log.read().operations[-1].id, clock=clock)
    assert found(home)["operation log"].severity is Severity.OK
    (home.state / "operations" / "3.jsonl").unlink()
    (home.state / "operations" / "4.jsonl").unlink()
    assert found(home)["operation log"].severity is Severity.OK  # the last ones leave no gap
    remove(home, "aa01")
    (home.state / "operations" / "2.jsonl").unlink()
    assert "operation 2 is missing" in found(home)["operation log"].message


def test_what_a_cut_record_no_longer_names_is_found(home: FormatHome) -> None:
    """Cut after its first batch, it looks like one that was killed there."""
    remove(home, "aa01")
    journal = home.state / "operations" / "1.jsonl"
    whole = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(whole[0] + whole[-1])
    lost = found(home)["trash"]
    assert lost.severity is Severity.WARNING
    assert str(home.state / "trash" / "1" / "units-0") in lost.message


def test_our_folder_is_private(home: FormatHome, root: Path) -> None:
    (root / STATE).chmod(0o755)
    assert found(home)["permissions"].repairable
    repair(home)
    assert (root / STATE).stat().st_mode & 0o777 == 0o700

"""Every law over every format: a new home brings a sample, and inherits all of this."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import SchemaError, UsageError
from holdfast.homes.format_home import STATE, FormatHome
from holdfast.model.item import LEFTOVER, SESSION
from holdfast.model.part import FilePart, Signs, Unit
from holdfast.model.plan import Action, Plan
from holdfast.model.report import Result
from holdfast.model.session import Search, SessionFilter
from holdfast.policy.by_name import plan_all
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.services.plans import plan_archive
from holdfast.services.restore import chosen, restore
from holdfast.spine.apply import apply
from holdfast.spine.trash import plan_empty
from holdfast.spine.undo import undo
from tests.contract.formats import (
    FORMATS,
    NOW,
    Sample,
    clock,
    prune_plan,
    removing,
    sessions_of,
    snapshot,
)


@pytest.fixture(params=FORMATS)
def sample(request: pytest.FixtureRequest) -> Sample:
    return FORMATS[request.param]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def ids(sample: Sample, root: Path) -> tuple[str, ...]:
    return sample.make(root)


@pytest.fixture
def home(sample: Sample, root: Path, ids: tuple[str, ...]) -> Iterator[FormatHome]:
    opened = sample.opened(root)
    yield opened
    opened.close()


def results(report: object) -> dict[str, Result]:
    return {each.id: each.result for each in report.outcomes}  # type: ignore[attr-defined]


# --- Looking --------------------------------------------------------------------------------------


def test_every_session_is_found_and_nothing_is_touched(
    home: FormatHome, ids: tuple[str, ...], root: Path
) -> None:
    before = snapshot(root)
    assert {item.id for item in sessions_of(home)} == set(ids)
    assert {each.id for each in home.session_store().find(SessionFilter())} == set(ids)
    assert snapshot(root) == before
    assert {path.name for path in (root / STATE).iterdir()} == {"index"}


def test_the_index_answers_and_can_be_deleted(
    home: FormatHome, ids: tuple[str, ...], root: Path
) -> None:
    store = home.session_store()
    assert len(list(store.messages(ids[0]))) == 2
    assert {hit.session.id for hit in store.search(Search(text="zebra"))} == set(ids)
    home.close()
    shutil.rmtree(root / STATE / "index")
    assert home.session_store().count(SessionFilter()) == len(ids)


def test_a_damaged_index_is_made_anew(home: FormatHome, ids: tuple[str, ...], root: Path) -> None:
    home.session_store()
    home.close()
    (root / STATE / "index" / "sessions.db").write_bytes(b"no database" * 1000)
    (root / STATE / "index" / "units.json").write_bytes(b"no json")
    assert home.session_store().count(SessionFilter()) == len(ids)


def test_only_what_changed_is_read_again(
    home: FormatHome, ids: tuple[str, ...], root: Path, sample: Sample
) -> None:
    home.session_store()
    sample.touch(root, ids[0])
    read: list[str] = []
    real = sample.form.messages

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(sample.form, name)

        def messages(self, root: Path, unit: Unit) -> object:
            read.append(unit.id)
            return real(root, unit)

    again = FormatHome(root, Counting(), clock=clock)  # type: ignore[arg-type]
    store = again.session_store()
    assert read == [ids[0]]
    assert len(list(store.messages(ids[0]))) == 3
    again.close()


def test_a_session_that_left_leaves_the_index(home: FormatHome, ids: tuple[str, ...]) -> None:
    apply(removing(home, ids[0]), home, clock=clock)
    assert home.session_store().count(SessionFilter(ids=(ids[0],))) == 0


def test_the_sessions_are_the_agents(home: FormatHome, ids: tuple[str, ...]) -> None:
    store = home.session_store()
    with pytest.raises(UsageError, match="writes them itself"):
        store.rename(ids[0], "mine")
    with pytest.raises(UsageError, match="no pins"):
        store.pin(ids[0], True)


def test_a_session_that_cannot_be_read_costs_itself(
    root: Path, ids: tuple[str, ...], sample: Sample
) -> None:
    class Failing:
        def __getattr__(self, name: str) -> object:
            return getattr(sample.form, name)

        def messages(self, root: Path, unit: Unit) -> object:
            if unit.id == ids[0]:
                raise ValueError("torn")
            return sample.form.messages(root, unit)

    home = FormatHome(root, Failing(), clock=clock)  # type: ignore[arg-type]
    inventory = home.scan(NOW)
    assert [problem.reason for problem in inventory.problems] == ["cannot be read: torn"]
    assert {item.id for item in inventory.items if item.kind == SESSION} == set(ids) - {ids[0]}
    home.close()


# --- Undo is identity -----------------------------------------------------------------------------


def test_undo_is_identity(home: FormatHome, ids: tuple[str, ...], root: Path) -> None:
    before = snapshot(root)
    report = apply(prune_plan(home), home, clock=clock)
    assert results(report) == dict.fromkeys(ids, Result.REMOVED)
    assert sessions_of(home) == []
    _, back = undo(home, str(report.operation), clock=clock)
    assert results(back) == dict.fromkeys(ids, Result.BROUGHT_BACK)
    assert snapshot(root) == before
    assert not (root / STATE / "trash" / str(report.operation)).exists()


def test_one_session_leaves_alone_and_returns(
    home: FormatHome, ids: tuple[str, ...], root: Path
) -> None:
    before = snapshot(root)
    for name in ids:
        report = apply(removing(home, name), home, clock=clock)
        assert results(report) == {name: Result.REMOVED}
        assert {item.id for item in sessions_of(home)} == set(ids) - {name}
        undo(home, str(report.operation), clock=clock)
        assert snapshot(root) == before


def test_sessions_return_in_any_order(home: FormatHome, ids: tuple[str, ...], root: Path) -> None:
    before = snapshot(root)
    operations = [apply(removing(home, name), home, clock=clock).operation for name in ids]
    for operation in operations:
        undo(home, str(operation), clock=clock)
    after = snapshot(root)
    assert after.keys() == before.keys()
    assert {item.id for item in sessions_of(home)} == set(ids)


def test_what_goes_for_good_leaves_no_copy(
    home: FormatHome, ids: tuple[str, ...], root: Path
) -> None:
    report = apply(prune_plan(home, use_trash=False), home, clock=clock)
    assert results(report) == dict.fromkeys(ids, Result.REMOVED)
    assert report.bytes_freed > 0
    assert not list((root / STATE / "trash").glob("*"))


def test_the_trash_can_be_emptied(home: FormatHome, ids: tuple[str, ...], root: Path) -> None:
    for name in ids:
        apply(removing(home, name), home, clock=clock)
    report = apply(plan_empty(home, now=NOW, command="trash empty"), home, clock=clock)
    assert {each.result for each in report.outcomes} == {Result.REMOVED}
    assert report.bytes_freed > 0
    assert not list((root / STATE / "trash").glob("*"))


def test_nothing_returns_over_something(
    home: FormatHome, ids: tuple[str, ...], root: Path, sample: Sample, tmp_path: Path
) -> None:
    sample.make(tmp_path / "other")
    report = apply(removing(home, ids[0]), home, clock=clock)
    [path] = [
        part.path
        for unit in sample.form.units(tmp_path / "other", lambda _: None)
        if unit.id == ids[0]
        for part in unit.parts
        if isinstance(part, FilePart)
    ]
    place = root / path.relative_to(tmp_path / "other")
    place.write_text("something else\n")
    _, back = undo(home, str(report.operation), clock=clock)
    assert results(back) == {ids[0]: Result.FAILED}
    assert place.read_text() == "something else\n"
    place.unlink()
    _, again = undo(home, str(report.operation), clock=clock)
    assert results(again) == {ids[0]: Result.BROUGHT_BACK}


# --- The living stay ------------------------------------------------------------------------------


def test_the_living_stay(
    home: FormatHome, ids: tuple[str, ...], root: Path, sample: Sample
) -> None:
    made = prune_plan(home)
    sample.revive(root, ids[0])
    before = snapshot(root)
    [alive] = [item for item in sessions_of(home) if item.id == ids[0]]
    assert alive.alive
    report = apply(made, home, clock=clock)
    assert results(report) == {
        name: Result.SKIPPED if name == ids[0] else Result.REMOVED for name in ids
    }
    undo(home, str(report.operation), clock=clock)
    assert snapshot(root) == before


def test_a_session_that_comes_alive_half_way_goes_back(
    root: Path, ids: tuple[str, ...], sample: Sample
) -> None:
    """Life is asked again before each container: what had left by then returns."""
    asked = 0

    class Waking:
        def __getattr__(self, name: str) -> object:
            return getattr(sample.form, name)

        def signs(self, root: Path, now: float) -> Signs:
            nonlocal asked
            asked += 1
            return Signs(units={ids[0]: "it woke up"} if asked > 4 else {})

    home = FormatHome(root, Waking(), clock=clock)  # type: ignore[arg-type]
    made = removing(home, *ids)
    before = snapshot(root)
    asked = 1
    report = apply(made, home, clock=clock)
    assert results(report) == {
        name: Result.SKIPPED if name == ids[0] else Result.REMOVED for name in ids
    }
    undo(home, str(report.operation), clock=clock)
    assert snapshot(root) == before
    home.close()


def test_signs_that_cannot_be_read_protect(
    root: Path, ids: tuple[str, ...], sample: Sample
) -> None:
    class Broken:
        def __getattr__(self, name: str) -> object:
            return getattr(sample.form, name)

        def signs(self, root: Path, now: float) -> Signs:
            raise OSError(13, "Permission denied")

    home = FormatHome(root, Broken(), clock=clock)  # type: ignore[arg-type]
    assert all(item.alive for item in sessions_of(home))
    home.close()


def test_a_session_used_lately_stays(root: Path, ids: tuple[str, ...], sample: Sample) -> None:
    lately = FormatHome(root, sample.form, clock=lambda: 1e9 + 3600)
    assert all("used 1 h ago" in str(item.alive) for item in lately.scan(1e9 + 3600).items)
    lately.close()


def test_what_changed_since_the_plan_stays(
    home: FormatHome, ids: tuple[str, ...], root: Path, sample: Sample
) -> None:
    made = prune_plan(home)
    sample.touch(root, ids[1])
    before = snapshot(root)
    report = apply(made, home, clock=clock)
    assert {each.id: each.reason for each in report.outcomes if each.reason} == {
        ids[1]: "changed since the plan was made"
    }
    undo(home, str(report.operation), clock=clock)
    assert snapshot(root) == before


# --- What it may not touch ------------------------------------------------------------------------


def test_an_unknown_version_is_read_and_never_changed(
    home: FormatHome, ids: tuple[str, ...], root: Path, sample: Sample
) -> None:
    made = prune_plan(home)
    sample.age(root)
    before = snapshot(root)
    assert home.session_store().count(SessionFilter()) == len(ids)
    assert any("never changed" in problem.reason for problem in home.scan(NOW).problems)
    with pytest.raises(SchemaError):
        apply(made, home, clock=clock)
    assert snapshot(root) == before


def test_parts_outside_the_home_are_refused(
    root: Path, ids: tuple[str, ...], sample: Sample, tmp_path: Path
) -> None:
    """A row may hold an absolute path of another home, after a copy or a move."""
    other = tmp_path / "other.jsonl"
    other.write_text("precious")

    class Astray:
        def __getattr__(self, name: str) -> object:
            return getattr(sample.form, name)

        def units(self, root: Path, known: object) -> Iterator[Unit]:
            for unit in sample.form.units(root, lambda _: None):
                yield replace(unit, parts=(*unit.parts, FilePart(path=other)))

    home = FormatHome(root, Astray(), clock=clock)  # type: ignore[arg-type]
    inventory = home.scan(NOW)
    assert not [item for item in inventory.items if item.kind == SESSION]
    assert all("outside the home" in problem.reason for problem in inventory.problems)
    assert other.read_text() == "precious"
    home.close()


def test_a_saved_plan_reaches_nothing_else(home: FormatHome, ids: tuple[str, ...]) -> None:
    """A plan names ids and versions, never paths: what it does not find, it does not touch."""
    made = removing(home, ids[0])
    forged = Plan(
        home=made.home,
        command=made.command,
        made_at=NOW,
        items=(replace(made.items[0], id="../../etc"),),
    )
    assert results(apply(forged, home, clock=clock)) == {"../../etc": Result.SKIPPED}


def test_leftovers_stay_unless_somebody_asks(home: FormatHome, root: Path) -> None:
    found = [item for item in home.scan(NOW).items if item.kind == LEFTOVER]
    if not found:
        pytest.skip("this format has no leftovers")
    before = snapshot(root)
    decided = {item.id: item.action for item in prune_plan(home).items}
    assert {decided[item.id] for item in found} == {Action.KEEP}
    made = plan_all(found, str(root), NOW, command="test", reason="asked for", undoable=True)
    report = apply(made, home, clock=clock)
    assert set(results(report).values()) == {Result.REMOVED}
    undo(home, str(report.operation), clock=clock)
    assert snapshot(root) == before


# --- Archive --------------------------------------------------------------------------------------


def archived(home: FormatHome, *ids: str) -> str:
    policy = Policy(everywhere=Limits(rules=Rules(max_age=DAY)))
    made, _ = plan_archive(home, home.archive, ids=ids, policy=policy, now=NOW, command="archive")
    report = apply(made, home, clock=clock)
    assert results(report) == dict.fromkeys(ids, Result.REMOVED), report
    return str(report.operation)


def test_archive_and_restore_is_identity(
    home: FormatHome, ids: tuple[str, ...], root: Path
) -> None:
    before = snapshot(root)
    archived(home, *ids)
    assert sessions_of(home) == []
    assert {each.session.id for each in home.archive.find(SessionFilter())} == set(ids)
    assert len(list(home.archive.messages(ids[0]))) == 2
    assert home.archive.search(Search(text="zebra")).hits
    assert not list((root / STATE / "trash").glob("*"))
    report = restore(home, chosen(home.archive, []), command="restore", clock=clock)
    assert set(results(report).values()) == {Result.BROUGHT_BACK}, report
    assert snapshot(root) == before
    assert home.archive.count(SessionFilter()) == 0
    assert not list((root / STATE / "trash").glob("*"))


def test_undo_of_an_archive_is_identity(home: FormatHome, ids: tuple[str, ...], root: Path) -> None:
    before = snapshot(root)
    operation = archived(home, *ids)
    _, report = undo(home, operation, clock=clock)
    assert set(results(report).values()) == {Result.BROUGHT_BACK}, report
    assert snapshot(root) == before
    assert home.archive.count(SessionFilter()) == 0


def test_a_damaged_bundle_is_told_and_stays(
    home: FormatHome, ids: tuple[str, ...], root: Path
) -> None:
    archived(home, ids[0])
    [entry] = home.archive.find(SessionFilter())
    path = root / STATE / "archive" / entry.file
    path.write_bytes(path.read_bytes()[:-40])
    before = snapshot(root)
    report = restore(home, [entry], command="restore", clock=clock)
    assert set(results(report).values()) == {Result.DAMAGED}
    assert path.exists()
    assert snapshot(root) == before

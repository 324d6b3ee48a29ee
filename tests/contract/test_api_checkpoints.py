"""`home.checkpoints`: take, see, compare, restore and bound, in one object."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Home, TakeOutcome
from holdfast.errors import UnknownCheckpointError, UsageError
from holdfast.model.checkpoint import ProjectState
from holdfast.services.turn_checkpoints import OFF
from tests.compat import hermes_sessions as hermes

NOW = hermes.NOW


class Clock:
    """A clock that goes on with every look: each checkpoint has a time of its own."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def _own(place: Path) -> Home:
    return holdfast.open(place / "home", create=True, clock=Clock())


def _hermes(place: Path) -> Home:
    return holdfast.open(hermes.recorded(place), clock=Clock())


HOMES: dict[str, Callable[[Path], Home]] = {"holdfast": _own, "hermes": _hermes}


@pytest.fixture(params=list(HOMES.values()), ids=list(HOMES))
def home(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Home]:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    with request.param(tmp_path) as home:
        yield home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "person" / "project"
    (made / ".git").mkdir(parents=True)
    (made / "src").mkdir()
    (made / "src/one").write_text("one")
    (made / "src/two").write_text("two")
    return made.resolve()


def _look(project: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (project / "src").iterdir()}


def test_take_change_restore_undo(home: Home, project: Path) -> None:
    before = _look(project)
    taken = home.checkpoints.take(str(project), reason="first", session="s", turn="1")
    assert taken.outcome is TakeOutcome.TAKEN
    [listed] = home.checkpoints.list(project)
    assert (listed.id, listed.reason, listed.session) == (taken.id, "first", "s")
    (project / "src/one").write_text("changed")
    (project / "src/new").write_text("new")
    (project / "src/two").unlink()
    changed = _look(project)
    foreseen = home.checkpoints.preview(listed)
    assert (set(foreseen.written), set(foreseen.deleted)) == ({"src/one", "src/two"}, {"src/new"})
    assert _look(project) == changed
    report = home.checkpoints.restore(listed.id[:8])
    assert (set(report.written), report.deleted) == ({"src/one", "src/two"}, ("src/new",))
    assert _look(project) == before
    assert home.log.get(report.operation or "").command == "checkpoints.restore"
    assert report.undo().brought_back == 1
    assert _look(project) == changed


def test_what_an_undo_or_a_redo_of_a_restore_would_do_is_known_before(
    home: Home, project: Path
) -> None:
    first = home.checkpoints.take(project).id or ""
    (project / "src/one").write_text("changed")
    (project / "src/new").write_text("new")
    (project / "src/two").unlink()
    operation = home.checkpoints.restore(first).operation or ""
    [back] = home.plan_undo(operation).foreseen.values()
    assert back.workdir == str(project)
    assert back.preview is not None
    assert set(back.preview.written) == {"src/one", "src/new"}
    assert back.preview.deleted == ("src/two",)
    home.undo(operation)
    [again] = home.plan_redo(operation).foreseen.values()
    assert again.preview is not None
    assert set(again.preview.written) == {"src/one", "src/two"}
    assert again.preview.deleted == ("src/new",)


def test_only_some_paths(home: Home, project: Path) -> None:
    taken = home.checkpoints.take(project)
    for name in ("one", "two"):
        (project / "src" / name).write_text("changed")
    home.checkpoints.restore(taken.id or "", ["src/one"])
    assert _look(project) == {"one": "one", "two": "changed"}
    home.checkpoints.restore(taken.id or "", [project / "src/two"])
    assert _look(project) == {"one": "one", "two": "two"}
    with pytest.raises(UsageError, match="is not in"):
        home.checkpoints.restore(taken.id or "", ["../elsewhere"])
    done = home.checkpoints.restore(taken.id or "", "src")
    assert (done.written, done.operation) == ((), None)
    assert str(done.undo()) == "Nothing was done."


def test_what_differs(home: Home, project: Path) -> None:
    first = home.checkpoints.take(project).id or ""
    (project / "src/one").write_text("changed")
    second = home.checkpoints.take(project).id or ""
    (project / "src/two").write_text("changed")
    until_now = home.checkpoints.diff(first)
    assert [each.path for each in until_now.changes] == ["src/one", "src/two"]
    between = home.checkpoints.diff(first, second)
    assert [each.path for each in between.changes] == ["src/one"]
    assert b"".join(between.patch()).startswith(b"diff --git a/src/one b/src/one")
    assert home.checkpoints.diff(first, second, ["src/two"]).changes == []
    found, captured = home.checkpoints.show(first)
    assert set(captured.files) == {"src/one", "src/two"}
    assert home.checkpoints.newest(project / "src").id == second
    assert found.id == first


def test_which_project_a_path_belongs_to(
    home: Home, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home.checkpoints.project_of(project / "src/one") is None
    assert home.checkpoints.project_root(project / "src/none/yet") == project
    home.checkpoints.take("~/project")
    found = home.checkpoints.project_of("~/project/src/one")
    assert found is not None
    assert found.workdir == str(project)
    assert home.checkpoints.project_of(project.parent) is None
    assert [each.workdir for each in home.checkpoints.projects()] == [str(project)]


def test_a_tilde_is_never_the_current_directory(
    home: Home, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert home.checkpoints.take("~/project", paths=["~/project/src"]).outcome is TakeOutcome.TAKEN
    assert home.checkpoints.take("~").outcome is TakeOutcome.SKIPPED, "too broad"
    recorder = home.checkpoints.recorder(workdirs=["~/project"])
    assert recorder.before_change("~/project/src/one").outcome is TakeOutcome.UNCHANGED
    assert list(Path.cwd().iterdir()) == []


def test_a_recorder_that_was_asked_for_is_on(home: Home, project: Path) -> None:
    recorder = home.checkpoints.recorder(session="mine")
    taken = recorder.before_change(project / "src/one")
    assert taken.outcome is TakeOutcome.TAKEN
    assert [each.session for each in home.checkpoints.list()] == ["mine"]


@pytest.mark.parametrize("by", ["config", "caller"])
def test_one_that_is_off_says_so(
    tmp_path: Path, project: Path, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    with _own(tmp_path) as home:
        if by == "config":
            home.config_file.write_text("[checkpoints]\nenabled = false\n")
    with _own(tmp_path) as home:
        recorder = home.checkpoints.recorder(enabled=None if by == "config" else False)
        with caplog.at_level(logging.WARNING, logger="holdfast"):
            skipped = [recorder.before_change(project) for _ in range(3)]
        assert {(each.outcome, each.reason) for each in skipped} == {(TakeOutcome.SKIPPED, OFF)}
        assert [record.getMessage() for record in caplog.records] == [
            f"No checkpoint before a change of {project}: {OFF}"
        ]


def _several(home: Home, project: Path, count: int = 4) -> list[str]:
    """The ids of some checkpoints, the newest first."""
    for number in range(count):
        (project / "src/one").write_text(str(number))
        home.checkpoints.take(project)
    return [each.id for each in home.checkpoints.list(project)]


def test_they_are_bounded_and_come_back(home: Home, project: Path) -> None:
    ids = _several(home, project)
    planned = home.checkpoints.plan_prune(max_snapshots=1)
    assert len(planned.removals) == 3
    assert set(planned.names.values()) == {str(project)}
    assert [each.id for each in home.checkpoints.list(project)] == ids
    report = home.checkpoints.prune(max_snapshots=1)
    assert [each.id for each in home.checkpoints.list(project)] == ids[:1]
    assert report.undo().failed == 0
    assert [each.id for each in home.checkpoints.list(project)] == ids


def test_some_are_deleted_all_are_cleared(home: Home, project: Path) -> None:
    ids = _several(home, project)
    report = home.checkpoints.delete([ids[1][:10], ids[2]])
    assert report.removed == 2
    assert [each.id for each in home.checkpoints.list(project)] == [ids[0], ids[3]]
    report.undo()
    home.checkpoints.pin(ids[0])
    home.checkpoints.rename(ids[1], "works")
    assert home.checkpoints.get(ids[1]).name == "works"
    assert home.checkpoints.clear().removed == 4
    assert home.checkpoints.list() == []
    assert home.checkpoints.clear_legacy().operation is None


def test_what_they_cost_and_whether_they_are_whole(home: Home, project: Path) -> None:
    _several(home, project)
    [counted] = home.checkpoints.status().projects
    assert (counted.workdir, counted.checkpoints) == (str(project), 4)
    assert home.checkpoints.verify().ok
    assert home.checkpoints.excluded(project) is not None


def test_an_id_that_nobody_has_gets_its_neighbour(home: Home, project: Path) -> None:
    taken = home.checkpoints.take(project).id or ""
    wrong = taken[:6] + ("0" if taken[6] != "0" else "1") + taken[7:9]
    with pytest.raises(UnknownCheckpointError) as refused:
        home.checkpoints.get(wrong)
    assert f"Did you mean {taken[:9]}?" in (refused.value.hint or "")
    assert "home.checkpoints.list()" in (refused.value.hint or "")


def test_checkpoints_of_another_agent_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _own(tmp_path) as home:
        monkeypatch.setenv("HERMES_HOME", str(tmp_path / "none"))
        with pytest.raises(UsageError, match="no home of another agent"):
            home.import_checkpoints("hermes")
    with _hermes(tmp_path) as other, pytest.raises(UsageError, match="Holdfast's own"):
        other.import_checkpoints(other.path)


@pytest.mark.parametrize("wrong", [None, 5, b"x", "", object()])
def test_what_is_no_directory_is_refused(tmp_path: Path, wrong: Any) -> None:
    with _own(tmp_path) as home, pytest.raises(UsageError):
        home.checkpoints.take(wrong)


def test_the_status_says_which_projects_are_stale(tmp_path: Path, project: Path) -> None:
    clock = Clock()
    with holdfast.open(tmp_path / "home", create=True, clock=clock) as home:
        home.checkpoints.take(project)
        states = [each.state for each in home.checkpoints.status().projects]
        clock.now += 1_000 * 86_400
        later = [each.state for each in home.checkpoints.status().projects]
    assert (states, later) == ([ProjectState.LIVE], [ProjectState.STALE])


def test_a_path_in_a_project_lists_its_checkpoints(home: Home, project: Path) -> None:
    taken = home.checkpoints.take(project)
    for inside in (project, project / "src", project / "src/one", project / "none/yet"):
        assert [each.id for each in home.checkpoints.list(inside)] == [taken.id]
        assert home.checkpoints.newest(inside).id == taken.id
        found = home.checkpoints.project_of(inside)
        assert found is not None
        assert found.workdir == str(project)
    own = home.checkpoints.take(project / "src")
    assert [each.id for each in home.checkpoints.list(project / "src/one")] == [own.id]
    assert [each.id for each in home.checkpoints.list(project)] == [taken.id]
    assert home.checkpoints.list(project.parent) == []

"""What an agent embeds: one checkpoint for each directory and turn, and never an exception."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.api.capture import open_recorder
from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.model.checkpoint import Capturing, TakeOutcome
from holdfast.services.turn_checkpoints import OFF, Recorder
from holdfast.stores.checkpoints.store import ShadowGitStore

NOW = 1_800_000_000.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = (tmp_path / "project").resolve()
    (made / ".git").mkdir(parents=True)
    (made / "src/deep").mkdir(parents=True)
    (made / "src/deep/file").write_text("one")
    return made


@pytest.fixture
def store(tmp_path: Path) -> ShadowGitStore:
    return checkpoint_store(tmp_path / "home", Capturing(user_home=tmp_path / "person"))


@pytest.fixture
def recorder(store: ShadowGitStore) -> Recorder:
    return Recorder(store, clock=lambda: NOW, session="20260325_112518_6995d1")


def test_one_checkpoint_before_the_first_change_of_a_turn(
    recorder: Recorder, store: ShadowGitStore, project: Path
) -> None:
    recorder.new_turn("7")
    first = recorder.before_change(project / "src/deep/file", reason="write file")
    (project / "src/deep/file").write_text("two")
    second = recorder.before_change(project / "src/other")
    assert (first.outcome, second.outcome) == (TakeOutcome.TAKEN, TakeOutcome.UNCHANGED)
    assert first.id == second.id
    recorder.new_turn()
    third = recorder.before_change(project)
    assert third.outcome is TakeOutcome.TAKEN
    newest, oldest = store.list(project)
    assert (oldest.reason, oldest.turn, oldest.session) == (
        "write file",
        "7",
        "20260325_112518_6995d1",
    )
    assert (newest.id, newest.turn) == (third.id, "2")


def test_the_project_is_found_from_a_file_in_it(
    recorder: Recorder, store: ShadowGitStore, project: Path, tmp_path: Path
) -> None:
    assert recorder.before_change(project / "not/there/yet.py").outcome is TakeOutcome.TAKEN
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "notes").write_text("mine")
    assert recorder.before_change(alone / "notes").outcome is TakeOutcome.TAKEN
    assert {each.workdir for each in store.list()} == {str(project), str(alone.resolve())}


def test_a_given_directory_outranks_signs_of_a_project(
    store: ShadowGitStore, project: Path
) -> None:
    recorder = Recorder(store, clock=lambda: NOW, workdirs=[project / "src"])
    recorder.before_change(project / "src/deep/file")
    assert [each.workdir for each in store.list()] == [str(project / "src")]


def test_a_place_that_is_too_broad_falls_back_to_the_directory_itself(
    store: ShadowGitStore, tmp_path: Path
) -> None:
    person = tmp_path / "person"
    (person / ".git").mkdir(parents=True)
    (person / "notes").mkdir()
    (person / "notes/today").write_text("mine")
    recorder = Recorder(store, clock=lambda: NOW)
    assert recorder.before_change(person / "notes/today").outcome is TakeOutcome.TAKEN
    assert [each.workdir for each in store.list()] == [str((person / "notes").resolve())]


def test_known_paths_are_taken_as_they_come(
    recorder: Recorder, store: ShadowGitStore, project: Path
) -> None:
    (project / "a").write_text("one")
    (project / "b").write_text("one")
    recorder.before_change(project)
    recorder.new_turn()
    (project / "a").write_text("by hand")
    (project / "b").write_text("by hand")
    first = recorder.before_change(project, ["a"])
    (project / "a").write_text("by the agent")
    second = recorder.before_change(project, ["a", "b"])
    again = recorder.before_change(project, ["b"])
    assert [each.outcome for each in (first, second, again)] == [
        TakeOutcome.TAKEN,
        TakeOutcome.TAKEN,
        TakeOutcome.UNCHANGED,
    ]
    captured = store.captured(store.get(second.id or "").tree)
    assert store.blob(captured.files["a"].oid) == b"by hand"
    assert store.blob(captured.files["b"].oid) == b"by hand"


def test_threads_wait_until_the_checkpoint_is_there(
    recorder: Recorder, store: ShadowGitStore, project: Path
) -> None:
    ids: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: ids.append(recorder.before_change(project).id))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.list(project)) == 1
    assert ids == [store.list(project)[0].id] * 8


def test_what_goes_wrong_is_told_and_never_raised(
    project: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "home").write_text("a file where the store should be")
    recorder = Recorder(checkpoint_store(tmp_path / "home"), clock=lambda: NOW)
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        taking = recorder.before_change(project)
    assert taking.outcome is TakeOutcome.SKIPPED
    assert taking.id is None
    assert str(tmp_path / "home") in taking.reason
    assert len(caplog.records) == 1
    assert recorder.before_change(project) == taking
    assert recorder.before_change("\0").outcome is TakeOutcome.SKIPPED


def test_an_agent_opens_a_home_and_its_configuration_holds(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    off = open_recorder(home, clock=lambda: NOW, enabled=False)
    assert off.before_change(project).reason == OFF
    (home / "config.toml").write_text(
        "[checkpoints]\nenabled = true\nmax_file_size_mb = 1\nexclude = ['secret']\n"
    )
    (project / "secret").write_text("x")
    (project / "large").write_bytes(b"x" * 1_000_001)
    recorder = open_recorder(home, clock=lambda: NOW)
    taking = recorder.before_change(project)
    assert [left.path for left in taking.not_captured] == ["large"]
    checkpoint = recorder.store.get(taking.id or "")
    assert set(recorder.store.captured(checkpoint.tree).files) == {"src/deep/file"}
    (project / "src/deep/file").write_text("two")
    with holdfast.open(home, clock=lambda: NOW) as opened:
        opened.checkpoints.restore(checkpoint.id)
        assert (project / "src/deep/file").read_text() == "one"
        opened.undo_latest()
    assert (project / "src/deep/file").read_text() == "two"

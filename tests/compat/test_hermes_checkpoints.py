"""The checkpoints of Hermes, on a store that its newest release made: seen, compared, restored."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import UnknownCheckpointError, UsageError
from holdfast.model.checkpoint import ProjectState
from holdfast.services.checkpoint_status import checkpoint_status
from holdfast.services.rollback import rollback
from tests.compat.hermes_store import (
    DAY,
    HOUR,
    START,
    Home,
    project,
    recorded,
    rewritten_by_hermes,
    tree,
    write,
)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Home, Path, Path]:
    return recorded(tmp_path)


def restore(home: Home, checkpoint: str, *paths: str) -> None:
    ready = home.store.ready(home.store.get(checkpoint))
    rollback(
        home.home,
        home.store,
        ready.id,
        paths or None,
        command="checkpoints restore",
        clock=lambda: home.now,
    )


def test_everything_that_hermes_lists_is_listed_with_its_time_and_reason(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, _ = made
    found = home.store.list(site)
    assert [each.id for each in found] == home.chain(site)
    assert [each.reason for each in found] == [f"before turn {number}" for number in range(6)][::-1]
    assert [each.time for each in found] == [START + number * HOUR for number in range(6)][::-1]
    assert (found[0].files_changed, found[0].insertions, found[0].deletions) == (1, 1, 1)
    assert len(home.store.list()) == 9


def test_reading_creates_nothing(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    before = sorted(home.root.rglob("*"))
    home.store.list()
    home.store.captured(home.store.get(home.chain(site)[1][:6]).tree)
    home.store.projects()
    home.home.checkpoint_upkeep.scan(home.now)
    assert home.home.checkpoint_upkeep.verify().ok
    assert sorted(home.root.rglob("*")) == before


def test_the_status_shows_both_projects_and_what_they_weigh(made: tuple[Home, Path, Path]) -> None:
    home, site, tool = made
    status = checkpoint_status(home.home.checkpoint_upkeep, now=home.now, stale_after=7 * DAY)
    assert {each.workdir: each.checkpoints for each in status.projects} == {
        str(site): 6,
        str(tool): 3,
    }
    assert all(each.state is ProjectState.LIVE and each.bytes for each in status.projects)
    assert status.total_bytes >= sum(each.bytes or 0 for each in status.projects)


def test_an_id_is_found_by_its_beginning_and_a_wrong_one_is_refused(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, _ = made
    oldest = home.chain(site)[-1]
    assert home.store.get(oldest[:8]).id == oldest
    for text in ("0000", "--all", "../x", "zzzz"):
        with pytest.raises(UnknownCheckpointError):
            home.store.get(text)


def test_what_a_checkpoint_holds_is_what_hermes_captured(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    captured = home.store.captured(home.store.get(home.chain(site)[-1]).tree)
    assert sorted(captured.files) == [
        ".gitattributes",
        ".gitignore",
        "a.txt",
        "bin/run",
        "link",
        "win.bat",
    ]
    assert captured.files["link"].is_link
    assert stat.S_IMODE(captured.files["bin/run"].mode) == 0o755
    assert home.store.blob(captured.files["a.txt"].oid) == b"0\n"


def test_two_of_hermes_are_compared_without_what_only_differs_in_how_git_stores_it(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, _ = made
    store, ids = home.store, home.chain(site)
    old, new = store.ready(store.get(ids[4])), store.ready(store.get(ids[0]))
    changes = {each.path: each.kind.value for each in store.changes(old.tree, new.tree)}
    assert changes == {
        "a.txt": "modified",
        "b.txt": "deleted",
        "c/d.txt": "added",
        "win.bat": "modified",
    }
    patch = b"".join(store.patch(old.tree, new.tree, ["a.txt"]))
    assert b"-1\n+5\n" in patch


def test_the_present_state_equals_the_newest_checkpoint(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    store = home.store
    newest = store.ready(store.get(home.chain(site)[0]))
    # Hermes does not capture what is in the nested repository: that is the only difference.
    changed = store.changes(newest.tree, store.look(site).tree)
    assert [each.path for each in changed] == ["nested/inner.txt"]


def test_a_restore_is_exact_and_its_undo_brings_everything_back(
    made: tuple[Home, Path, Path],
) -> None:
    home, site, _ = made
    write(site, [("new.txt", "mine\n"), ("ignored", "mine too\n"), ("nested/later.txt", "x\n")])
    (site / "a.txt").chmod(0o600)
    (site / "link").unlink()
    (site / "empty").mkdir()
    before = tree(site)
    chain = home.chain(site)
    restore(home, chain[5])
    after = tree(site)
    assert after["a.txt"] == ("file", 0o600, b"0\n")  # a mode that Hermes never knew stays
    assert after["link"] == ("link", 0, b"a.txt")
    assert after["bin/run"][1] & 0o111
    assert after["win.bat"][2] == b"echo one\r\n"  # as a checkout gives it, not as it is stored
    for gone in ("new.txt", "c/d.txt"):
        assert gone not in after
    for left in ("ignored", "nested/inner.txt", "nested/later.txt", "empty"):
        assert after[left] == before[left]
    assert home.chain(site) == chain  # Hermes's own chain is as it was
    home.undo()
    assert tree(site) == before
    home.fsck()


def test_what_hermes_did_not_capture_is_said(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    found = home.store.get(home.chain(site)[2])
    assert [(each.path, "does not capture" in each.reason) for each in found.not_captured] == [
        ("nested", True)
    ]
    ready = home.store.ready(found)
    foreseen = home.store.preview(ready.id)
    assert {each.path for each in foreseen.kept} == {"nested/inner.txt"}


def test_given_paths_are_restored_and_nothing_else(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    restore(home, home.chain(site)[4], "b.txt")
    assert (site / "b.txt").read_text() == "gone soon\n"
    assert (site / "a.txt").read_text() == "5\n"


def test_what_is_too_large_for_hermes_is_not_taken_for_new(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    (home.root / "config.yaml").write_text("checkpoints:\n  max_file_size_mb: 1\n")
    (site / "data").write_bytes(os.urandom(1_200_000))
    restore(home, home.chain(site)[3])
    assert (site / "data").exists()
    assert (site / "a.txt").read_text() == "2\n"


def test_a_directory_that_is_gone_comes_back(made: tuple[Home, Path, Path]) -> None:
    home, _, tool = made
    (tool / "main.py").unlink()
    tool.rmdir()
    restore(home, home.chain(tool)[1])
    assert (tool / "main.py").read_text() == "print(1)\n"


def test_the_safety_checkpoint_is_listed_beside_those_of_hermes(
    made: tuple[Home, Path, Path],
) -> None:
    home, _, tool = made
    (tool / "main.py").write_text("changed\n")
    target = home.chain(tool)[2]
    restore(home, target)
    reasons = [each.reason for each in home.store.list(tool)]
    assert f"before restoring {target[:8]}" in reasons
    assert len(reasons) == 4  # what was brought in to be restored is not listed twice
    projects = home.home.checkpoint_upkeep.scan(home.now).projects.values()
    assert sorted(each.checkpoints for each in projects if each.workdir == str(tool)) == [1, 3]


def test_pins_and_names_are_ours_and_stay_when_hermes_gives_new_ids(
    made: tuple[Home, Path, Path],
) -> None:
    home, _, tool = made
    before = _files(home.folder)
    oldest = home.store.get(home.chain(tool)[2])
    assert home.store.pin(oldest, True).pinned
    home.store.rename(home.store.get(oldest.id), "the good one")
    assert _files(home.folder) == before
    anew = rewritten_by_hermes(home, tool)
    assert oldest.id not in anew
    found = home.store.get(anew[2])
    assert (found.pinned, found.name) == (True, "the good one")


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_verify_names_a_damaged_object_and_what_it_costs(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    home.git("repack", "-ad", "-q")
    blob = home.git("rev-parse", f"{home.chain(site)[4]}:b.txt").strip()
    pack = next((home.git_dir / "objects" / "pack").glob("*.pack"))
    moved = pack.rename(home.root / "pack")
    pack.with_suffix(".idx").unlink()
    for each in pack.parent.glob("*.bitmap"):
        each.unlink()
    unpack = ["git", "--git-dir", str(home.git_dir), "unpack-objects", "-q"]
    subprocess.run(unpack, input=moved.read_bytes(), check=True)
    (home.git_dir / "objects" / blob[:2] / blob[2:]).unlink()
    found = home.home.checkpoint_upkeep.verify()
    assert not found.ok
    costly = {one for problem in found.problems for one in problem.checkpoints}
    assert costly == {home.chain(site)[4]}


def test_a_place_that_is_too_broad_is_refused(made: tuple[Home, Path, Path]) -> None:
    home, _, tool = made
    record = home.git_dir / "projects" / f"{project(tool)}.json"
    record.write_text('{"workdir": "/", "created_at": 0, "last_touch": 0}')
    with pytest.raises(UsageError):
        home.store.ready(home.store.get(home.chain(tool)[0]))

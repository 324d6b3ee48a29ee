"""Space of Hermes's checkpoint store is given back beside a Hermes that may be writing."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import BusyError
from holdfast.homes.hermes.repository.locks import gc_lock
from holdfast.homes.hermes.repository.quarantine import Quarantine, pack_files
from holdfast.homes.hermes.repository.reclaim import GRACE, reclaim
from holdfast.stores.git.object_files import object_files
from tests.compat.hermes_store import Home, git, project, recorded


@pytest.fixture
def made(tmp_path: Path) -> tuple[Home, Path, Path]:
    return recorded(tmp_path)


def blob(home: Home, text: str, *, age: float) -> Path:
    """An object that nothing refers to, written so long ago."""
    store = ["git", "--git-dir", str(home.git_dir), "hash-object", "-w", "--stdin"]
    said = subprocess.run(store, input=text.encode(), check=True, capture_output=True)
    name = said.stdout.decode().strip()
    path = home.git_dir / "objects" / name[:2] / name[2:]
    os.utime(path, (home.now - age, home.now - age))
    return path


def give_back(home: Home) -> str:
    return reclaim(home.layout, now=home.now, holder="test", thorough=True).note


def test_what_was_written_lately_stays_and_what_is_old_goes(made: tuple[Home, Path, Path]) -> None:
    home, *_ = made
    old, young = blob(home, "old", age=GRACE + 1), blob(home, "young", age=GRACE - 1)
    give_back(home)
    assert not old.exists()
    assert young.exists()
    assert old.parent.is_dir()  # git's writers stumble over folders that go
    home.fsck()


def test_what_a_young_commit_leads_to_stays_however_old(made: tuple[Home, Path, Path]) -> None:
    home, *_ = made
    content = blob(home, "counted upon", age=10 * GRACE)
    listing = f"100644 blob {content.parent.name}{content.name}\tfile\n"
    make = ["git", "--git-dir", str(home.git_dir), "mktree"]
    made_tree = subprocess.run(make, input=listing, check=True, capture_output=True, text=True)
    tree = made_tree.stdout.strip()
    path = home.git_dir / "objects" / tree[:2] / tree[2:]
    os.utime(path, (home.now - 1, home.now - 1))
    give_back(home)
    assert content.exists()


def test_what_an_index_names_stays(made: tuple[Home, Path, Path]) -> None:
    home, _, tool = made
    (tool / "staged.txt").write_text("staged, and in no checkpoint yet\n")
    place = {"GIT_DIR": str(home.git_dir), "GIT_WORK_TREE": str(tool)}
    place["GIT_INDEX_FILE"] = str(home.git_dir / "indexes" / project(tool))
    git("add", "-A", **place)
    home.age()
    give_back(home)
    git("write-tree", **place)  # Hermes goes on where it was


def test_the_index_of_a_project_without_checkpoints_goes_before_its_objects(
    made: tuple[Home, Path, Path],
) -> None:
    home, _, tool = made
    index = home.git_dir / "indexes" / project(tool)
    home.git("update-ref", "-d", f"refs/hermes/{project(tool)}")
    os.utime(index, (home.now, home.now))
    give_back(home)
    assert index.exists()  # a first checkpoint may be under way
    home.age()
    give_back(home)
    assert not index.exists()
    home.fsck()


def test_what_is_touched_while_it_goes_comes_back(made: tuple[Home, Path, Path]) -> None:
    home, *_ = made
    wanted, other = blob(home, "wanted", age=10 * GRACE), blob(home, "other", age=10 * GRACE)
    seen = object_files(home.git_dir / "objects").loose
    os.utime(wanted, (home.now, home.now))  # git found it, and counts upon it
    leaving = Quarantine.empty(home.git_dir)
    for file in seen.values():
        leaving.move_loose(file)
    assert leaving.bring_back_touched() == 1
    leaving.remove()
    assert wanted.exists()
    assert not other.exists()


def test_what_a_killed_run_had_moved_aside_comes_back(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    leaving = Quarantine.empty(home.git_dir)
    for pack in pack_files(object_files(home.git_dir / "objects").packs):
        leaving.move_pack(pack)  # killed here, and with more than it would ever move
    with pytest.raises(subprocess.CalledProcessError):
        home.chain(site)
    give_back(home)
    assert len(home.chain(site)) == 6
    home.fsck()


def test_a_pack_that_was_used_lately_gives_nothing_back_yet(made: tuple[Home, Path, Path]) -> None:
    home, site, _ = made
    chain = home.chain(site)
    home.git("update-ref", f"refs/hermes/{project(site)}", chain[3])
    home.git("repack", "-ad", "-q")  # unreachable ones are gone from here on
    home.git("update-ref", f"refs/hermes/{project(site)}", chain[3])
    home.age()
    for pack in (home.git_dir / "objects" / "pack").glob("*.pack"):
        os.utime(pack, (home.now, home.now))
    home.git("update-ref", f"refs/hermes/{project(site)}", chain[4])
    note = give_back(home)
    assert "ten minutes" in note
    assert home.git("cat-file", "-t", chain[3]).strip() == "commit"
    home.age()
    assert give_back(home) == ""
    with pytest.raises(subprocess.CalledProcessError):
        home.git("cat-file", "-e", chain[3])
    home.fsck()


def test_half_written_files_of_killed_processes_go(made: tuple[Home, Path, Path]) -> None:
    home, *_ = made
    folder = home.git_dir / "objects" / "pack"
    old, young = folder / "tmp_pack_OLD", folder / "tmp_pack_NEW"
    for path, age in ((old, GRACE + 1), (young, 0.0)):
        path.write_bytes(b"x" * 1000)
        os.utime(path, (home.now - age, home.now - age))
    give_back(home)
    assert not old.exists()
    assert young.exists()


def test_while_we_change_the_store_no_gc_of_hermes_runs(made: tuple[Home, Path, Path]) -> None:
    home, *_ = made
    with gc_lock(home.git_dir, wait=0), pytest.raises(subprocess.CalledProcessError) as refused:
        home.git("gc", "--prune=now", "--quiet")
    assert "gc is already running" in str(refused.value.stderr)
    home.git("gc", "--prune=now", "--quiet")


def test_a_gc_that_runs_keeps_us_out_and_one_that_died_does_not(
    made: tuple[Home, Path, Path],
) -> None:
    home, *_ = made
    lock = home.git_dir / "gc.pid"
    with subprocess.Popen(["sleep", "600"]) as other:
        lock.write_text(f"{other.pid} {socket.gethostname()}")
        with pytest.raises(BusyError, match=f"process {other.pid}"), gc_lock(home.git_dir, wait=0):
            pass
        other.kill()
        other.wait()
    with gc_lock(home.git_dir, wait=0):
        assert lock.read_text().startswith(f"{os.getpid()} ")
    assert not lock.exists()

"""The store is made whole or not at all: killed, without room, by many at once, or half-made."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import TakeOutcome
from holdfast.model.checkup import Severity
from holdfast.services import doctor
from holdfast.spine.carry_out import Silent
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests import tally
from tests.checkpointing import fsck
from tests.small_disk import with_a_disk

ROOT = Path(__file__).parents[2]
NOW = 1_800_000_000.0
CHECK = "checkpoint store"
#: What an earlier version could leave: git had come so far when it was killed.
LEFT = {
    "nothing in it": [],
    "a lock": ["config.lock"],
    "an empty configuration": ["config", "HEAD"],
    "no objects": ["config", "config.lock", "HEAD", "refs/heads/", "refs/tags/"],
    "everything but the format": ["config", "HEAD", "refs/heads/", "objects/pack/", "info/"],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = (tmp_path / "home").resolve()
    (made / "operations").mkdir(parents=True)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = (tmp_path / "project").resolve()
    made.mkdir()
    (made / "file").write_text("one\n")
    return made


def leave(store: Path, names: list[str]) -> None:
    store.mkdir(parents=True)
    for name in names:
        path = store / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.touch()
    tally.injected()


def works(store: ShadowGitStore, project: Path) -> None:
    taking = store.take(project, reason="test", now=NOW)
    assert taking.outcome is TakeOutcome.TAKEN
    assert not fsck(store.layout.store)
    assert not (store.layout.folder / "store.new").exists()
    tally.verified()


@pytest.mark.parametrize("left", LEFT)
def test_a_half_made_store_is_made_anew_by_the_next_take(
    root: Path, project: Path, left: str
) -> None:
    store = checkpoint_store(root)
    leave(store.layout.store, LEFT[left])
    leave(store.layout.folder / "store.new", LEFT[left])
    works(store, project)


@pytest.mark.parametrize("place", ["store", "store.new"])
@pytest.mark.parametrize("left", LEFT)
def test_doctor_sees_a_half_made_store_and_mends_it(
    root: Path, project: Path, left: str, place: str
) -> None:
    home, store = HoldfastHome(root, clock=lambda: NOW), checkpoint_store(root)
    leave(store.layout.folder / place, LEFT[left])
    found = doctor.examine(home, progress=Silent())
    (seen,) = [each for each in found.findings if each.check == CHECK]
    assert seen.severity is Severity.WARNING
    assert seen.repairable
    done = doctor.mend(home, found, clock=lambda: NOW, progress=Silent())
    assert any("checkpoint store" in step for step in done.steps)
    again = doctor.examine(home, progress=Silent())
    assert [each.severity for each in again.findings if each.check == CHECK] == [Severity.OK]
    works(store, project)


def test_a_store_that_lost_its_format_keeps_its_checkpoints(root: Path, project: Path) -> None:
    home, store = HoldfastHome(root, clock=lambda: NOW), checkpoint_store(root)
    first = store.take(project, reason="test", now=NOW).id
    (store.layout.store / "format").unlink()
    doctor.mend(home, doctor.examine(home, progress=Silent()), clock=lambda: NOW, progress=Silent())
    assert [each.id for each in checkpoint_store(root).list(project)] == [first]


@pytest.mark.parametrize("mended_by", ["doctor", "take"])
@pytest.mark.parametrize("harm", ["no HEAD", "empty HEAD", "torn HEAD", "no refs"])
def test_a_store_that_git_refuses_is_seen_and_mended(
    root: Path, project: Path, harm: str, mended_by: str
) -> None:
    home, store = HoldfastHome(root, clock=lambda: NOW), checkpoint_store(root)
    first = store.take(project, reason="test", now=NOW).id
    store.layout.git().run("pack-refs", "--all")
    head = store.layout.store / "HEAD"
    if harm == "no refs":
        shutil.rmtree(store.layout.store / "refs")
    elif harm == "no HEAD":
        head.unlink()
    else:
        head.write_bytes(b"" if harm == "empty HEAD" else b"ref: r")
    tally.injected()
    found = doctor.examine(home, progress=Silent())
    assert [each.repairable for each in found.findings if each.check == CHECK] == [True]
    if mended_by == "doctor":
        doctor.mend(home, found, clock=lambda: NOW, progress=Silent())
    (project / "file").write_text("two\n")
    works(checkpoint_store(root), project)
    assert first in [each.id for each in checkpoint_store(root).list(project)]


SLOW_GIT = """#!/bin/sh
# A git that is killed, with whoever started it, while it makes a repository.
case "$1" in
init) rm -rf {whole}; {git} init --quiet --bare --template= {whole}
      cd {whole} && for name in $(find . -type f | head -n {files}); do
          mkdir -p "$GIT_DIR/$(dirname $name)"; cp $name "$GIT_DIR/$name"; done
      kill -9 $PPID; exit 9;;
esac
exec {git} "$@"
"""


@pytest.mark.parametrize("files", [0, 1, 2])
def test_killed_while_git_makes_the_repository(root: Path, project: Path, files: int) -> None:
    git, bin_folder = shutil.which("git"), root.parent / "bin"
    bin_folder.mkdir()
    text = SLOW_GIT.format(git=git, whole=root.parent / "whole", files=files)
    (bin_folder / "git").write_text(text)
    (bin_folder / "git").chmod(0o755)
    code = (
        "import sys; from pathlib import Path\n"
        "from holdfast.homes.checkpoints.open_store import checkpoint_store\n"
        "checkpoint_store(Path(sys.argv[1])).take(Path(sys.argv[2]), reason='x', now=1.0)"
    )
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    killed = subprocess.run(
        [sys.executable, "-c", code, str(root), str(project)],
        check=False,
        env=environment,
        cwd=ROOT,
    )
    assert killed.returncode == -9
    tally.injected()
    store = checkpoint_store(root)
    assert not store.layout.store.exists()
    works(store, project)


NO_ROOM = """
import errno, os, sys
from pathlib import Path
from holdfast.errors import StorageError
from holdfast.errors import StorageError
from holdfast.homes.checkpoints.open_store import checkpoint_store
disk = Path(sys.argv[1])
project = disk / "project"
project.mkdir()
(project / "file").write_text("one")
(disk / "home" / "operations").mkdir(parents=True)
failed = 0
for spare in range(0, 120_000, 4_096):
    with open(disk / "filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4_096))
        except OSError as error:
            assert error.errno == errno.ENOSPC
        filler.truncate(max(0, filler.tell() - spare))
    store = checkpoint_store(disk / "home")
    try:
        taking = store.take(project, reason="x", now=1.0)
    except StorageError:
        failed += 1
        assert store.layout.exists() or not store.layout.store.exists()
    else:
        break
os.unlink(disk / "filler")
taking = checkpoint_store(disk / "home").take(project, reason="x", now=2.0)
assert taking.id, taking
print(failed)
"""


def test_without_room_there_is_no_store_and_with_room_there_is_one(tmp_path: Path) -> None:
    assert int(with_a_disk(tmp_path, NO_ROOM, megabytes=1)) > 0


TAKE = """
import sys; from pathlib import Path
from holdfast.errors import StorageError
from holdfast.homes.checkpoints.open_store import checkpoint_store
sys.stdin.readline()
taking = checkpoint_store(Path(sys.argv[1])).take(Path(sys.argv[2]), reason="x", now=1.0)
print(taking.outcome)
"""


def test_many_that_make_it_at_once_all_work(root: Path, project: Path) -> None:
    (root / "checkpoints").mkdir()
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", TAKE, str(root), str(project)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    random.Random(7).shuffle(begun)
    said = [process.communicate("go\n")[0].strip() for process in begun]
    assert sorted(said) == ["taken", "unchanged", "unchanged", "unchanged"]
    assert len(checkpoint_store(root).list(project)) == 1


@pytest.mark.parametrize("part", ["objects", "objects/pack", "refs", "worktrees"])
def test_a_link_inside_the_store_leads_nobody_astray(root: Path, project: Path, part: str) -> None:
    """What a tidying of the store removes must be the store's."""
    home, store = HoldfastHome(root, clock=lambda: NOW), checkpoint_store(root)
    store.take(project, reason="test", now=NOW)
    place, elsewhere = store.layout.store / part, root.parent / "elsewhere"
    shutil.move(place, elsewhere)
    (elsewhere / "keep").write_text("precious")
    place.symlink_to(elsewhere)
    tally.injected()
    before = sorted(elsewhere.rglob("*"))
    found = doctor.examine(home, progress=Silent())
    assert [each.severity for each in found.findings if each.check == CHECK] == [Severity.DAMAGE]
    (project / "file").write_text("two\n")
    with pytest.raises(StorageError, match="is a link"):
        checkpoint_store(root).take(project, reason="test", now=NOW + 1)
    with pytest.raises(StorageError, match="is a link"):
        reclaim(store.layout, holder="test")
    assert sorted(elsewhere.rglob("*")) == before
    tally.verified()


def test_a_link_to_the_folder_of_somebody_else_is_no_store(root: Path, project: Path) -> None:
    store, other = checkpoint_store(root), root.parent / "other"
    other.mkdir()
    (other / "file").write_text("x")
    store.layout.folder.mkdir(parents=True)
    store.layout.store.symlink_to(other)
    with pytest.raises(StorageError, match="holds other files"):
        store.take(project, reason="test", now=NOW)
    assert [each.name for each in other.iterdir()] == ["file"]

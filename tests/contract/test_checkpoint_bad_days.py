"""Taking checkpoints on bad days: damage, locks of the dead, a full disk, a clock set back."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BusyError, StorageError
from holdfast.model.checkpoint import TakeOutcome
from holdfast.stores.checkpoints.repository import alone, used
from holdfast.stores.checkpoints.take import Taker
from tests.checkpointing import loosen
from tests.contract.checkpoint_bench import Bench
from tests.small_disk import with_a_disk

pytestmark = pytest.mark.usefixtures("bad_day")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --- Damage, and what the dead left ---------------------------------------------------------------


def test_a_damaged_or_missing_index_is_rebuilt_by_itself(bench: Bench) -> None:
    for number in range(5):
        bench.write(f"f{number}")
    bench.taken()
    for harm in (b"", b"not an index", None):
        index = bench.private / "index"
        if harm is None:
            index.unlink()
        else:
            index.write_bytes(harm)
        bench.write("f1", f"after {harm!r}")
        bench.taken()
        assert bench.content("f1") == f"after {harm!r}".encode()
    assert len(bench.captured().files) == 5


def test_a_lock_that_a_killed_git_left_is_no_obstacle(bench: Bench) -> None:
    bench.write("a")
    bench.taken()
    (bench.private / "index.lock").touch()
    for number in range(200):
        bench.write(f"many/{number}")
    bench.taken()
    assert not (bench.private / "index.lock").exists()
    assert bench.take().outcome is TakeOutcome.UNCHANGED


@pytest.mark.parametrize("damage", ["a", "a/b"])
def test_a_damaged_last_checkpoint_does_not_stop_the_next(bench: Bench, damage: str) -> None:
    bench.write("a/b", "one")
    first = bench.taken()
    bench.write("a/b", "two")
    bench.taken()
    loosen(bench.store.layout.store)
    tree = bench.git("rev-parse", f"{bench.store.list()[0].id}:files/{damage}").strip()
    damaged = bench.store.layout.store / "objects" / tree[:2] / tree[2:]
    damaged.chmod(0o600)
    damaged.write_bytes(b"broken")
    bench.write("a/b", "three")
    bench.write("a/c", "three")
    bench.taken()
    assert bench.content("a/b") == b"three"
    assert bench.store.captured(bench.store.get(first).tree).files["a/b"].oid


def test_what_a_killed_restore_was_writing_is_in_no_checkpoint(bench: Bench) -> None:
    bench.write(".gitignore", "!*\n!.*\n")
    bench.write("a")
    for name in (".holdfast-restore-0123456789abcdef", "b/.holdfast-restore-0123456789abcdef"):
        bench.write(name, "torn")
    taking = bench.take()
    assert bench.captured().files.keys() == {".gitignore", "a"}
    assert taking.not_captured == ()
    assert bench.take(name).outcome is TakeOutcome.UNCHANGED


# --- While it is looked at ------------------------------------------------------------------------


def meddling_git(place: Path, verb: str, command: str) -> Path:
    """A git that does something to the project when it is first asked for `verb`."""
    done, folder = place / "meddled", place / "meddling"
    folder.mkdir()
    script = folder / "git"
    path = shlex.quote(os.environ["PATH"])
    script.write_text(
        f"#!/bin/sh\nPATH={path}\n"
        f'case " $* " in *" {verb} "*) [ -e {done} ] || {{ : > {done}; {command}; }};; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    script.chmod(0o755)
    return folder


def test_a_store_that_goes_while_it_is_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever watches hears of it, and goes on."""

    def look(*_: object) -> None:
        (bench.project / "nowhere").stat()

    monkeypatch.setattr(Taker, "_look", look)
    with pytest.raises(StorageError, match=r"Cannot take a checkpoint of .*: No such file"):
        bench.take()


@pytest.mark.parametrize("verb", ["check-ignore", "diff-files"])
@pytest.mark.parametrize("how", ["removed", "replaced", "moved"])
def test_a_directory_that_goes_while_it_is_looked_at(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, verb: str
) -> None:
    for name in ("a/one", "a/two", "b"):
        bench.write(name, name)
    bench.taken()
    bench.write("a/three", "three")
    here, there = (shlex.quote(str(each)) for each in (bench.project, tmp_path / "elsewhere"))
    command = {
        "removed": f"rm -r {here}",
        "replaced": f"mv {here} {there}; mkdir {here}; echo other > {here}/b",
        "moved": f"mv {here} {there}",
    }[how]
    monkeypatch.setenv("PATH", str(meddling_git(tmp_path, verb, command)), prepend=os.pathsep)
    taking = bench.take()
    if taking.outcome is TakeOutcome.SKIPPED:
        assert taking.reason == f"{bench.project}: it disappeared while the checkpoint was taken"
    assert (tmp_path / "meddled").exists()
    shutil.rmtree(bench.project, ignore_errors=True)
    bench.write("b", "after")
    assert bench.take().id is not None
    assert bench.captured().files.keys() == {"b"}
    assert bench.content("b") == b"after"
    assert bench.take().outcome is TakeOutcome.UNCHANGED


def test_paths_that_are_too_long_to_be_named_at_once_are_named_and_cost_nothing_else(
    bench: Bench,
) -> None:
    bench.write("a")
    here = os.open(bench.project, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("x" * 200, dir_fd=here)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    taking = bench.take()
    (left,) = taking.not_captured
    assert "too long" in left.reason
    assert len(left.path) > 3_500
    assert "a" in bench.captured().files
    bench.write("a", "changed")
    assert bench.take().not_captured == (left,)
    assert bench.take().outcome is TakeOutcome.UNCHANGED
    safety = bench.store.secure(taking.id or "", now=bench.now)
    assert bench.store.restore(taking.id or "", safety, now=bench.now).written == ("a",)


# --- References, clocks, locks --------------------------------------------------------------------


def test_dropping_the_newest_makes_the_one_before_the_measure(bench: Bench) -> None:
    bench.write("a", "one")
    first = bench.taken()
    bench.write("a", "two")
    bench.write("b", "two")
    bench.taken()
    (newest, _) = bench.git("for-each-ref", "--sort=-refname", "--format=%(refname)").split()
    bench.git("update-ref", "-d", newest)
    bench.write("a", "one")
    (bench.project / "b").unlink()
    taking = bench.take()
    assert (taking.outcome, taking.id) == (TakeOutcome.UNCHANGED, first)


def test_all_dropped_is_a_fresh_start(bench: Bench) -> None:
    bench.write("a", "one")
    bench.taken()
    bench.git("update-ref", "-d", bench.git("for-each-ref", "--format=%(refname)").strip())
    bench.taken()
    assert set(bench.captured().files) == {"a"}


def test_a_clock_that_was_set_back_changes_no_order(bench: Bench) -> None:
    bench.write("a", "one")
    bench.taken()
    bench.write("a", "two")
    bench.now = 10.0
    second = bench.taken()
    newest = bench.store.list()[0]
    assert (newest.id, newest.time) == (second, 11.0)
    bench.write("a", "one")
    bench.taken()


def test_a_clock_before_1970_makes_no_damage(bench: Bench) -> None:
    bench.write("a", "one")
    bench.now = -86_400.0
    taken = bench.taken()
    assert (bench.store.list()[0].id, bench.store.list()[0].time) == (taken, bench.now)
    assert bench.git("fsck", "--full", "--strict") == ""


def test_a_store_that_is_being_reclaimed_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("a")
    bench.taken()
    monkeypatch.setattr("holdfast.stores.checkpoints.repository._WAIT", 0.1)
    layout = bench.store.layout
    # In another thread: whoever has a lock does not wait for himself.
    with (
        ThreadPoolExecutor() as other,
        alone(layout, holder="prune"),
        pytest.raises(BusyError, match="reclaiming"),
    ):
        other.submit(bench.take).result()
    with used(layout), pytest.raises(BusyError), alone(layout, holder="prune", wait=0.1):
        pass


FULL = """
import json, sys, os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from holdfast.errors import StorageError
from holdfast.stores.checkpoints.store import ShadowGitStore
small, project = Path(sys.argv[1]), Path(sys.argv[2])
store = ShadowGitStore(small / "checkpoints")
many = int(sys.argv[3])
refused = []
for number in range(200):
    for file in range(many):
        (project / f"f{file}").write_bytes(os.urandom(20_000))
    try:
        store.take(project, reason=str(number), now=float(number))
    except StorageError as error:
        refused.append(error.message)
        break
kept = len(store.list())
(small / "ballast").unlink()
after = store.take(project, reason="after", now=1000.0)
whole = all(
    store.blob(entry.oid)
    for checkpoint in store.list()
    for entry in store.captured(checkpoint.tree).files.values()
)
fsck = store.layout.git().run("fsck", "--full", "--strict", ok=range(256)).status
print(json.dumps([refused, kept, after.outcome, len(store.list()), whole, fsck]))
"""


@pytest.mark.parametrize("many", [2, 120], ids=["few", "many"])
def test_a_full_disk_leaves_every_checkpoint_whole(tmp_path: Path, many: int) -> None:
    project = tmp_path / "project"
    project.mkdir()
    said = with_a_disk(tmp_path, FULL, str(project), str(many), megabytes=12, ballast=6)
    refused, kept, outcome, after, whole, fsck = json.loads(said)
    assert len(refused) == 1
    assert "space" in refused[0]
    assert (outcome, after, whole, fsck) == ("taken", kept + 1, True, 0)


def test_a_folder_of_references_that_git_just_removed_is_made_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git removes a folder that it finds empty, also one that somebody is about to write into."""
    removed: list[Path] = []
    real = os.open

    def late(path: Any, *arguments: Any, **named: Any) -> int:
        if not removed and str(path).endswith(".lock") and "/refs/holdfast/" in str(path):
            removed.append(Path(path).parent)
            removed[0].rmdir()
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "open", late)
    bench.write("a", "one")
    taking = bench.take()
    assert removed
    assert bench.store.get(taking.id or "").id == taking.id

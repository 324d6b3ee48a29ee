"""Places, stores, programs and ids that are refused, each with its reason."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import (
    SchemaError,
    StorageError,
    UnknownCheckpointError,
)
from holdfast.model.checkpoint import Checkpoint, TakeOutcome
from holdfast.stores.checkpoints import finder
from holdfast.stores.checkpoints.checkpoint_commit import Ref
from holdfast.stores.checkpoints.repository import REFS, Layout
from holdfast.stores.git import program
from tests.contract.checkpoint_bench import Bench, needs_root


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --- Refused --------------------------------------------------------------------------------------


def test_places_that_are_too_broad_are_skipped_with_a_reason(bench: Bench, tmp_path: Path) -> None:
    bench.write("a")
    bench.taken()
    before = sorted(bench.folder.rglob("*"))
    for place, why in (
        (Path("/"), "the root of the file system"),
        (tmp_path, "your home directory"),
        (tmp_path.parent, "it contains your home directory"),
        (Path("/etc"), "a system folder"),
        (Path("/proc/self"), "a system folder"),
        (bench.folder, "part of the checkpoint store"),
        (bench.folder / "store/refs", "part of the checkpoint store"),
        (bench.folder.parent, "it contains the checkpoint store"),
        (tmp_path / "nowhere", "there is no such directory"),
        (bench.project / "a", "not a directory"),
    ):
        taking = bench.store.take(place, reason="r", now=1.0)
        assert taking.outcome is TakeOutcome.SKIPPED
        assert taking.id is None
        assert why in taking.reason
    assert sorted(bench.folder.rglob("*")) == before


def test_git_missing_or_too_old_is_said(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(StorageError, match="need git"):
        bench.take()
    old = tmp_path / "old/git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.31.9\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(StorageError, match=r"2\.32 or later.*2\.31\.9"):
        bench.take()
    assert program.OLDEST == (2, 32)


@needs_root
def test_a_store_of_another_user_is_refused(bench: Bench) -> None:
    bench.write("a")
    bench.taken()
    os.chown(bench.store.layout.store, 65534, 65534)
    with pytest.raises(StorageError, match="belongs to user 65534"):
        bench.take()


def test_a_store_of_a_newer_version_is_refused_untouched(bench: Bench) -> None:
    bench.write("a")
    bench.taken()
    (bench.store.layout.store / "format").write_text("2\n")
    bench.write("a", "changed")
    before = sorted(bench.folder.rglob("*"))
    with pytest.raises(SchemaError, match="format '2'"):
        bench.take()
    assert sorted(bench.folder.rglob("*")) == before


def test_reading_creates_nothing(bench: Bench) -> None:
    assert bench.store.list() == ()
    assert bench.store.projects() == []
    with pytest.raises(UnknownCheckpointError):
        bench.store.get("abcd")
    assert not bench.folder.exists()


def test_everything_in_the_store_is_private(bench: Bench) -> None:
    bench.write("a", mode=0o666)
    bench.taken()
    open_to_others = [
        place for place in (bench.folder, *bench.folder.rglob("*")) if place.stat().st_mode & 0o077
    ]
    inner = {bench.store.layout.store}
    assert not [place for place in open_to_others if not inner & {place, *place.parents}]
    assert bench.store.layout.store.stat().st_mode & 0o777 == 0o700


# --- Finding and comparing ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    ["", "abc", "--all", "HEAD", "../x", "refs/x", "ABCD", "abcd ", "a" * 41, "abcd\n", "zzzz"],
)
def test_what_is_no_id_never_meets_git(bench: Bench, bad: str) -> None:
    bench.write("a")
    bench.taken()
    with pytest.raises(UnknownCheckpointError, match="is not a checkpoint id"):
        bench.store.get(bad)


def test_one_that_is_dropped_while_it_is_looked_for_is_unknown_and_not_damaged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write("a")
    known = bench.taken()

    def late(_: Layout, ref: Ref) -> Iterator[Checkpoint]:
        bench.git("update-ref", "-d", ref.path)
        return iter(())  # its objects went with it

    monkeypatch.setattr(finder, "_read_one", late)
    with pytest.raises(UnknownCheckpointError):
        bench.store.get(known)


def test_an_ambiguous_beginning_lists_what_it_could_be(bench: Bench) -> None:
    bench.write("a")
    known = bench.taken()
    tree = bench.git("rev-parse", f"{known}^{{tree}}").strip()
    project = bench.store.list()[0].project
    # Commits that differ in their message alone, until one begins like the known one's neighbour.
    seen: dict[str, str] = {}
    for number in range(2_000):
        made = bench.store.layout.git().run(
            *("-c", "user.name=x", "-c", "user.email=x", "commit-tree", tree, "-m", str(number))
        )
        commit = made.output.decode().strip()
        if commit[:4] in seen:
            break
        seen[commit[:4]] = commit
    else:
        pytest.skip("no two ids begin alike")
    pair = {commit, seen[commit[:4]]}
    for number, one in enumerate(pair):
        bench.git("update-ref", f"{REFS}{project}/00000000000000{number}-{one[:8]}", one)
    with pytest.raises(UnknownCheckpointError, match="could be any of 2 checkpoints") as caught:
        bench.store.get(commit[:4])
    assert all(one[:12] in caught.value.message for one in pair)
    assert bench.store.get(known).id == known

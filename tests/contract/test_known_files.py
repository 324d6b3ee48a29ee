"""A file that git names only because the index is behind is not read again. Every change counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.model.checkpoint import Capturing, TakeOutcome
from holdfast.stores.checkpoints import look, look_state, read_file, take
from holdfast.stores.checkpoints.private_index import PrivateIndex
from holdfast.stores.checkpoints.read_file import signature_at
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.git.trees import FILE
from holdfast.value import replace
from tests.contract.checkpoint_bench import Bench

#: In nanoseconds: with the first, the times of every file count at once, with the second of none.
LONG_AGO, TOO_NEW = -(10**15), 10**15


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read."""
    found: list[str] = []
    really = read_file.read

    def noted(path: bytes, limit: int | None, *, moment: int | None = None) -> object:
        found.append(os.fsdecode(path).rpartition("/")[2])
        return really(path, limit, moment=moment)

    monkeypatch.setattr(look, "read", noted)
    monkeypatch.setattr(look, "TICK", LONG_AGO)
    return found


@pytest.fixture
def bench(tmp_path: Path, read: list[str]) -> Bench:
    """A project whose file `a` is ahead of the index, and known."""
    bench = Bench(tmp_path)
    for name in ("a", "b", "in/c"):
        bench.write(name)
    bench.taken()
    bench.write("a", "two\n")
    bench.taken()
    read.clear()
    return bench


def test_a_known_file_is_not_read_again(bench: Bench, read: list[str]) -> None:
    assert bench.take().outcome is TakeOutcome.UNCHANGED
    bench.write("b", "two\n")
    bench.taken()
    assert read == ["b"]
    assert bench.content("a") == b"two\n"


def test_a_file_that_has_just_changed_is_read_again(
    bench: Bench, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this tick of the clock it may change once more, and keep its times."""
    monkeypatch.setattr(look, "TICK", TOO_NEW)
    bench.write("a", "six\n")
    bench.taken()
    read.clear()
    bench.take()
    assert read == ["a"]


def _rewrite(path: Path) -> None:
    times = path.stat()
    path.write_bytes(b"six\n")  # as long as before
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _replace(path: Path) -> None:
    path.with_name("other").write_bytes(b"six\n")
    path.with_name("other").replace(path)


def _move_away(path: Path) -> None:
    path.unlink()


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("six\n")


@pytest.mark.parametrize(
    ("change", "content"),
    [(_rewrite, b"six\n"), (_replace, b"six\n"), (_move_away, None), (_link, b"six\n")],
)
def test_every_change_counts(bench: Bench, change: object, content: bytes | None) -> None:
    assert callable(change)
    change(bench.project / "a")
    bench.taken()
    assert ("a" in bench.captured().files) is (content is not None)
    if content is not None:
        assert bench.content("a") == content


def test_permissions_count(bench: Bench) -> None:
    (bench.project / "a").chmod(0o600)
    bench.taken()
    assert bench.captured().files["a"].permissions == 0o600


def test_a_known_file_that_is_ignored_now_is_gone(bench: Bench) -> None:
    bench.write(".gitignore", "a\n")
    bench.taken()
    assert sorted(bench.captured().files) == [".gitignore", "b", "in/c"]


def test_a_known_file_above_a_new_limit_is_left_out(bench: Bench) -> None:
    how = replace(bench.store.how, max_file_size=3)
    taking = ShadowGitStore(bench.folder, how).take(bench.project, reason="less", now=3_000.0)
    assert "a" in [left.path for left in taking.not_captured]


def test_every_file_is_read_if_that_is_asked_for(bench: Bench, read: list[str]) -> None:
    how: Capturing = replace(bench.store.how, hash_all=True)
    ShadowGitStore(bench.folder, how).take(bench.project, reason="all", now=3_000.0)
    assert sorted(read) == ["a", "b", "c"]


def test_what_is_known_of_another_tree_does_not_count(bench: Bench) -> None:
    """As after a take that was killed before it wrote down what it saw."""
    state = look_state.read_state(bench.private)
    oid = state.known[b"a"][2]
    path = bench.write("a", "new\n")
    signature = signature_at(os.fsencode(path))
    assert signature is not None
    other = replace(state, tree="0" * 40, known={b"a": (signature, FILE, oid)})
    look_state.write_state(bench.private, other)
    bench.taken()
    assert bench.content("a") == b"new\n"


def test_an_index_catches_up_with_files_that_were_not_read(
    bench: Bench, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take, "_BEHIND_FILES", 1)
    monkeypatch.setattr(PrivateIndex, "update", None)  # git would have to read them
    bench.write("b", "two\n")
    bench.taken()
    assert read == ["b"]
    state = look_state.read_state(bench.private)
    assert (state.ahead, state.known) == (frozenset(), {})
    rows = bench.git("--git-dir", str(bench.private), "ls-files", "-s").splitlines()
    files = {path: entry.oid for path, entry in bench.captured().files.items()}
    assert {row.partition("\t")[2]: row.split()[1] for row in rows} == files


def test_a_state_of_an_earlier_version_is_understood(bench: Bench, read: list[str]) -> None:
    state = look_state.read_state(bench.private)
    assert state.known
    look_state.write_state(bench.private, replace(state, known={}))
    assert bench.take().outcome is TakeOutcome.UNCHANGED
    assert read == ["a"]

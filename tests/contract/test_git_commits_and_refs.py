"""Commits and references of real repositories: what git says, and what git accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import DamageError, GitFailedError
from holdfast.stores.git.object import Kind
from holdfast.stores.git.object_files import LooseObjects
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.program import Git
from holdfast.stores.git.refs import RefUpdate, each_ref, update_refs
from holdfast.stores.git.trees import EMPTY, Trees, parse_commit, read_commit, with_parent

OTHER = "0123456789" * 4


@pytest.fixture
def git(tmp_path: Path) -> Git:
    made = Git(store=tmp_path / "repository")
    made.store.mkdir()
    made.run("init", "--quiet", "--bare", "--template=")
    return made


@pytest.fixture
def trees(git: Git) -> Trees:
    made = Trees(Objects(git.store / "objects"), LooseObjects(git.store / "objects"))
    made.write({})
    return made


def commit(
    trees: Trees, message: str = "a reason", *parents: str, when: int = 1_700_000_000
) -> str:
    lines = [
        f"tree {EMPTY.hex()}",
        *(f"parent {parent}" for parent in parents),
        f"author A B <a@b> {when} +0100",
        f"committer C <c@d> {when + 60} -0230",
        "",
        message,
    ]
    return trees.put(Kind.COMMIT, "\n".join(lines).encode()).hex()


def names(git: Git) -> dict[str, str]:
    return dict(each_ref(git, "refs/"))


@pytest.mark.parametrize("parents", [0, 1, 2])
@pytest.mark.parametrize("message", ["", "one line\n", "two\n\nparts, and ünïcode\n"])
def test_a_commit_says_what_git_says(git: Git, trees: Trees, parents: int, message: str) -> None:
    above = [commit(trees, f"parent {number}") for number in range(parents)]
    oid = commit(trees, message, *above)
    found = read_commit(trees, oid)
    format_ = "--format=%T%x00%P%x00%at%x00%ct%x00%B"
    tree, said, authored, committed, _ = (
        git.run("log", "-1", format_, oid).output.decode().split("\0")
    )
    assert (found.id, found.tree, " ".join(found.parents)) == (oid, tree, said)
    assert (found.authored, found.committed) == (float(authored), float(committed))
    assert found.message == message


def test_another_parent_changes_nothing_else(git: Git, trees: Trees) -> None:
    first, second = commit(trees, "first"), commit(trees, "second")
    raw = trees.raw(bytes.fromhex(commit(trees, "third", first)), Kind.COMMIT)
    moved = trees.put(Kind.COMMIT, with_parent("third", raw, second)).hex()
    assert read_commit(trees, moved).parents == (second,)
    git.run("fsck", "--strict", moved)
    alone = with_parent("third", raw, "")
    assert parse_commit("third", alone).parents == ()
    assert with_parent("third", alone, first) == raw, "the same parent gives the same commit"


@pytest.mark.parametrize(
    ("raw", "authored"),
    [
        (b"tree %b\n\nno author", None),
        (b"tree %b\nauthor A <a> yesterday +0000\n\nno time", None),
        (b"tree %b\nauthor A <a> -5 +0000\n\nbefore 1970", -5.0),
    ],
)
def test_a_time_that_is_missing_is_none(raw: bytes, authored: float | None) -> None:
    found = parse_commit(OTHER, raw % EMPTY.hex().encode())
    assert (found.tree, found.authored, found.committed) == (EMPTY.hex(), authored, None)


@pytest.mark.parametrize("raw", [b"", b"tree 12\n", b"\xff" * 99, b"parent %b\n" % OTHER.encode()])
def test_a_commit_without_a_tree_is_damage(raw: bytes) -> None:
    with pytest.raises(DamageError, match=OTHER):
        parse_commit(OTHER, raw)
    with pytest.raises(DamageError, match=OTHER):
        with_parent(OTHER, raw, "")


def test_references_are_made_moved_and_removed_together(git: Git, trees: Trees) -> None:
    one, two = commit(trees, "one"), commit(trees, "two")
    first, second = RefUpdate(name="refs/x/a", new=one), RefUpdate(name="refs/x/b", new=one)
    update_refs(git, [first, second])
    assert names(git) == {"refs/x/a": one, "refs/x/b": one}
    moved = RefUpdate(name="refs/x/a", old=one, new=two)
    update_refs(git, [moved, RefUpdate(name="refs/x/b", old=one)])
    assert names(git) == {"refs/x/a": two}
    assert each_ref(git, "refs/other/") == []
    update_refs(git, [])


@pytest.mark.parametrize(
    "wrong",
    [
        RefUpdate(name="refs/x/a", new=OTHER),  # it is there already
        RefUpdate(name="refs/x/a", old=OTHER),  # it was moved
        RefUpdate(name="refs/x/gone", old=OTHER, new=OTHER),  # it was removed
    ],
)
def test_all_references_change_or_none(git: Git, trees: Trees, wrong: RefUpdate) -> None:
    one = commit(trees)
    update_refs(git, [RefUpdate(name="refs/x/a", new=one)])
    with pytest.raises(GitFailedError):
        update_refs(git, [RefUpdate(name="refs/x/b", new=one), wrong])
    assert names(git) == {"refs/x/a": one}

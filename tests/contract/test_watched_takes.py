"""Checkpoints by a process that stays: a look at what changed, and at everything when in doubt."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from inotify_simple import INotify, flags  # type: ignore[import-untyped]

from holdfast.api.loop import Loop
from holdfast.api.place import Place
from holdfast.model.checkpoint import Taking
from holdfast.model.loop import LoopEvent, Moment, Touches
from holdfast.stores.checkpoints import standing_watch, take, walk
from holdfast.stores.checkpoints.look import Looked, Seeing, find_all
from holdfast.stores.checkpoints.watched_takes import WatchedTakes
from holdfast.value import replace
from tests.contract.checkpoint_bench import Bench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify")


class Watched:
    """A project that is watched and in step, and how often it was looked at as a whole."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.looks = bench, 0
        self.takes = WatchedTakes(bench.store, bench.project)

    def look(self, seeing: Seeing) -> Looked:
        self.looks += 1
        return find_all(seeing)

    def follow(self) -> None:
        assert self.takes.is_to_be_followed()
        watch = self.takes.watch()
        assert watch is not None
        self.takes.follow(watch)

    def take(self) -> Taking:
        self.bench.now += 1
        taking = self.takes.take(reason="a tool", now=self.bench.now, session=None, turn=None)
        assert taking.id is not None
        tree = self.bench.store.get(taking.id).tree
        before = self.looks
        assert self.bench.store.look(self.bench.project).tree == tree
        self.looks = before
        return taking


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    bench = Bench(tmp_path)
    for name in ("a.txt", "b.txt", "src/one.py", "src/deep/two.py"):
        bench.write(name)
    found = Watched(bench)
    monkeypatch.setattr(take, "find_all", found.look)
    with contextlib.closing(found.takes):
        found.take()
        found.follow()
        found.take()
        assert found.looks == 2
        yield found


def test_what_changed_is_captured_without_a_look_at_the_rest(watched: Watched) -> None:
    bench = watched.bench
    for number in range(4):
        bench.write("src/one.py", f"changed {number}\n")
        bench.write(f"new/{number}.txt")
        (bench.project / f"empty {number}").mkdir()
        assert watched.take().reason == "a tool"
    assert watched.take().reason != "a tool"  # nothing changed
    outside = bench.project.parent / "linked"
    outside.hardlink_to(bench.project / "a.txt")
    outside.write_text("through another name\n")
    watched.take()
    assert bench.content("a.txt") == b"through another name\n"
    assert watched.looks == 2


def elsewhere(bench: Bench) -> None:
    """Another process takes one of its own."""
    bench.write("by hand.txt")
    bench.taken()


def forgotten(bench: Bench) -> None:
    """The last one is removed: what changed before it is in no checkpoint any more."""
    for ref in (bench.store.layout.store / "refs/holdfast").glob("*/*"):
        ref.unlink()


def replaced(bench: Bench) -> None:
    above = bench.project.parent / "above"
    bench.project.rename(above)
    bench.project.mkdir()
    bench.write("other.txt")


DOUBTS: dict[str, Callable[[Bench], object]] = {
    "other rules": lambda bench: bench.write(".gitignore", "*.py\n"),
    "a worktree": lambda bench: bench.write("src/.git", "gitdir: /x/.git/worktrees/y\n"),
    "many files": lambda bench: [bench.write(f"src/{n}") for n in range(600)],
    "another checkpoint": elsewhere,
    "none": forgotten,
    "another directory": replaced,
    "a pipe": lambda bench: os.mkfifo(bench.project / "src/pipe"),
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_in_doubt_everything_is_looked_at(watched: Watched, doubt: str) -> None:
    before = watched.looks
    DOUBTS[doubt](watched.bench)
    watched.take()
    if doubt == "a pipe":  # it cannot be captured: from now on each look is for it
        watched.take()
    assert watched.looks > before


@pytest.mark.parametrize("what", ["overflow", "mount"])
def test_what_the_system_did_not_tell_is_found(
    watched: Watched, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = watched.bench
    if what == "mount":
        monkeypatch.setattr(walk, "_MOUNTS", "/proc/self/mounts")
    else:
        told = [(-1, int(flags.Q_OVERFLOW), 0, "")]
        monkeypatch.setattr(INotify, "read", lambda *_, **__: told)
    bench.write("src/one.py", "unheard\n")
    watched.take()
    assert bench.content("src/one.py") == b"unheard\n"
    assert watched.looks == 3
    assert watched.takes.is_to_be_followed()  # and again from the next answer on


@pytest.mark.parametrize("what", ["network", "full", "hash"])
def test_where_not_every_change_is_told_nothing_is_watched(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    bench.write("a.txt")
    bench.taken()
    takes = WatchedTakes(bench.store, bench.project)
    if what == "network":
        monkeypatch.setattr(walk, "_LOCAL", (b"other",))
    elif what == "full":
        monkeypatch.setattr(standing_watch, "_SHARE", 10**9)
    else:
        bench.store.how = replace(bench.store.how, hash_all=True)
        assert not takes.is_to_be_followed()
        return
    assert takes.watch() is None
    assert not takes.is_to_be_followed()  # not again at every hook
    bench.write("a.txt", "changed\n")
    assert takes.take(reason="a tool", now=2_000.0, session=None, turn=None).reason == "a tool"


def test_a_helper_watches_the_few_projects_it_works_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def look(seeing: Seeing) -> Looked:
        looks.append(seeing.root)
        return find_all(seeing)

    monkeypatch.setattr(take, "find_all", look)
    loop = Loop(Place(tmp_path / "home", clock=lambda: 1_000.0 + len(looks)), resident=True)
    with contextlib.closing(loop):
        for name in "abcdef":
            project = tmp_path / name / "project"
            project.mkdir(parents=True)
            (project / "package.json").write_text("{}")
            for number in range(3):
                (project / "file").write_text(f"{number}")
                event = LoopEvent(
                    agent="claude-code",
                    event="PreToolUse",
                    moment=Moment.BEFORE_TOOL,
                    session="s",
                    cwd=str(project),
                    call=f"{name}{number}",
                    tool="Bash",
                    arguments={"command": f"{name} {number}"},
                    touches=Touches.ANYTHING,
                )
                assert loop.decide(event).passes
                loop.follow()
        assert len(looks) == 12  # two in each project; the third looked at one file
        calls = loop.book.calls("s")
        assert len({call.checkpoint for call in calls}) == len(calls) == 18

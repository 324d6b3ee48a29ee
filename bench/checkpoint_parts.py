"""What is measured of checkpoints in time: a turn, the first one, many in a row, a restore.

Everybody looks at the same tree and sees the same change, and who goes first changes with every
round.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from checkpoint_results import (
    BORG,
    GIT,
    HERMES,
    KNOWN,
    LAST_YOUNG,
    OURS,
    PROCESS,
    RESTIC,
    SYNCED,
    Size,
)
from contenders import Backup, BareGit, Hermes, Holdfast, is_installed
from prune import holdfast
from trees import Tree
from weighing import Weighing

PROGRAMS = (RESTIC, BORG)
#: Whoever takes longer than this many seconds has fewer rounds.
_SLOW = 0.5
_SLOW_ROUNDS = 3
#: These rounds make the stores and warm the caches.
_WARMING = 2
HERMES_LAST = 21
RESTORED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often something is measured, and how far."""

    rounds: int = 11
    first_rounds: int = 3
    #: So many series, each up to this checkpoint.
    series: int = 2
    last: int = 100
    restores: int = 3
    #: Whether Hermes takes part, and the backup programs in a turn.
    hermes: bool = True
    programs: bool = True
    #: Only those whose figures are wanted: each store begins with a whole first checkpoint.
    few: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One size: the tree that everybody looks at, and a folder for what they make of it."""

    scratch: Path
    tree: Tree
    ours: Holdfast
    effort: Effort
    size: Size


Take = Callable[[str, bool], float | None]


def in_turn(everyone: Iterable[str], number: int) -> Sequence[str]:
    """All of them, and another one first in every round."""
    names = list(everyone)
    start = number % len(names)
    return [*names[start:], *names[:start]]


def turn(bench: Bench) -> None:
    """One file changed, or none, at the beginning of a turn."""
    scratch, root, ours = bench.scratch, bench.tree.root, bench.ours
    git = BareGit(scratch / "git", root)
    ways: dict[str, Take] = {
        OURS: lambda _, changed: ours.take(scratch / "full", root, changed=changed),
        KNOWN: lambda path, changed: ours.take(scratch / "known", root, [path], changed=changed),
        PROCESS: lambda _, __: holdfast(scratch / "process", "checkpoints", "take", root).seconds,
        GIT: lambda _, __: git.add(),
    }
    if bench.effort.few:
        ways = {name: ways[name] for name in (OURS, GIT)}
    with ExitStack() as cleanup:
        if bench.effort.hermes:
            hermes = cleanup.enter_context(Hermes(scratch / "hermes"))
            ways[HERMES] = lambda _, changed: hermes.take(root, changed=changed)
        for program in filter(is_installed, PROGRAMS if bench.effort.programs else ()):
            backup = Backup(program, scratch / program, root)
            ways[program] = lambda _, __, backup=backup: backup.take()  # type: ignore[misc]
        _measure_turns(bench, ways)


def _measure_turns(bench: Bench, ways: dict[str, Take]) -> None:
    rounds = dict.fromkeys(ways, bench.effort.rounds)
    for number in range(-_WARMING, bench.effort.rounds):
        path = bench.tree.edit()
        for changed, figures in ((True, bench.size.changed), (False, bench.size.unchanged)):
            for name in in_turn(ways, number):
                if number >= rounds[name]:
                    continue
                os.sync()  # or a durable write would wait for what the one before left
                seconds = ways[name](path, changed)
                if seconds is None:
                    rounds[name] = -_WARMING  # it refuses this tree
                elif number >= 0:
                    figures.setdefault(name, []).append(seconds)
                elif number == -1 and changed and seconds > _SLOW:
                    rounds[name] = min(_SLOW_ROUNDS, bench.effort.rounds)


def first(bench: Bench) -> None:
    """Each round in new stores; what they wrote reaches the disk before the next one's turn."""
    everyone = [OURS, GIT, *filter(is_installed, PROGRAMS), HERMES]
    if bench.effort.few:
        everyone = [OURS, *filter(is_installed, (RESTIC,))]
    for number in range(bench.effort.first_rounds):
        for name in in_turn(everyone, number):
            if name == HERMES and (number or not bench.effort.hermes):
                continue
            folder = bench.scratch / "first"
            os.sync()
            seconds = _take_first(bench, name, folder)
            if seconds is not None:
                bench.size.first.setdefault(name, []).append(seconds)
            shutil.rmtree(folder)


def _take_first(bench: Bench, name: str, folder: Path) -> float | None:
    root = bench.tree.root
    if name == OURS:
        folder.mkdir()
        # Another name every time: the library may remember a home.
        home = Path(tempfile.mkdtemp(dir=folder))
        with Weighing(bench.ours.pid) as weighing:
            seconds = bench.ours.take(home, root)
        bench.size.memory = max(bench.size.memory, weighing.megabytes)
        return seconds
    if name == GIT:
        return BareGit(folder, root).add()
    if name == HERMES:
        with Hermes(folder) as hermes:
            return hermes.take(root)
    return Backup(name, folder, root).take()


def series(bench: Bench) -> None:
    """One changed file each. Hermes joins the first series until it has pruned once."""
    size = bench.size
    with ExitStack() as cleanup:
        hermes = None
        if bench.effort.hermes:
            hermes = cleanup.enter_context(Hermes(bench.scratch / "hermes-series"))
        for number in range(bench.effort.series):
            home = bench.scratch / f"series-{number}"
            for position in range(1, bench.effort.last + 1):
                bench.tree.edit()
                # Who comes second finds what the first one read: they take turns.
                young = position > LAST_YOUNG
                if young and position % 2:
                    _take_young(bench, number, position)
                seconds = bench.ours.take(home, bench.tree.root)
                size.series.setdefault(position, []).append(seconds)
                if young and not position % 2:
                    _take_young(bench, number, position)
                if hermes is None or number or position > HERMES_LAST or hermes.refused:
                    continue
                theirs = hermes.take(bench.tree.root)
                if theirs is not None:
                    size.hermes_series[position] = theirs


def _take_young(bench: Bench, number: int, position: int) -> None:
    """One of a store that has no more than 20, beside a later one of the series."""
    age = (position - 1) % LAST_YOUNG
    seconds = bench.ours.take(bench.scratch / f"young-{number}-{position - age}", bench.tree.root)
    if age:
        bench.size.young.append(seconds)


def restore(bench: Bench) -> None:
    """The safety checkpoint and the receipt are part of it; git only writes the files.

    Each has a tree of its own, and first all restores of a few files: what one of them writes would
    make the index of the other look at every file again. So would a restore of everything.
    """
    trees = {
        OURS: bench.tree.copy(bench.scratch / "ours", 1),
        GIT: bench.tree.copy(bench.scratch / "git", 1),
    }
    home, root = bench.scratch / "home", trees[OURS].root
    git = BareGit(bench.scratch / "store", trees[GIT].root)
    target = bench.ours.ask("take", home, root)["id"]
    git.add()
    written = git.said("write-tree")
    count = itertools.count()

    def empty(tree: Tree) -> None:
        tree.empty(bench.scratch / f"aside-{next(count)}")

    for what, spoil, files in (
        ("some", lambda tree: tree.edit_some(RESTORED), min(RESTORED, bench.size.files)),
        ("all", empty, bench.size.files),
    ):
        # The first round of the few files only warms up.
        for number in range(-1 if what == "some" else 0, bench.effort.restores):
            for name in in_turn((OURS, GIT), number):
                spoil(trees[name])
                os.sync()
                if name == GIT:
                    seconds = git.timed("read-tree", "--reset", "-u", written)
                    synced = seconds + _sync()
                else:
                    done = bench.ours.ask("restore", home, root, target)
                    if done["written"] != files:
                        raise SystemExit(f"Not all of {files:,} files came back: {done}")
                    seconds = done["seconds"]
                if number >= 0:
                    bench.size.restore.setdefault(f"{name} {what}", []).append(seconds)
                    if name == GIT:
                        bench.size.restore.setdefault(f"{SYNCED} {what}", []).append(synced)


def _sync() -> float:
    """The seconds until what git wrote is as durable as what Holdfast wrote."""
    began = time.perf_counter()
    os.sync()
    return time.perf_counter() - began

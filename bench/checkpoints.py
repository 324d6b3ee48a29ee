"""Checkpoints beside Hermes's own `CheckpointManager`, plain git, restic and borg, in one run.

All of them look at the same tree and see the same change, one after the other, and who goes first
changes with every round; medians are compared. The libraries are timed inside processes that live
as long as an agent, so neither their start nor their imports count. git, restic and borg are
programs, and are timed as such. Holdfast makes everything durable before it returns; git, as people
have it, leaves single objects to the operating system.

    .venv/bin/python bench/checkpoints.py                     15 minutes, 3 GB
    .venv/bin/python bench/checkpoints.py --large             also 50,000 and 200,000 files: an hour
    .venv/bin/python bench/checkpoints.py --files 300 --projects 20          whether it works
    .venv/bin/python bench/checkpoints.py --files 10000 --only turn first    parts of it
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from baselines import HERMES
from contenders import PROGRAMS, BareGit, Hermes, Holdfast, first_backup, is_installed
from prune import Figures, holdfast, on_disk
from trees import Tree

_SIZES = (1_000, 10_000)
_LARGE_SIZES = (50_000, 200_000)
_ROUNDS = 11
#: Whoever takes longer than this many seconds has fewer rounds.
_SLOW = 1.0
_SLOW_ROUNDS = 3
_FIRST_ROUNDS = 3
_MOST_FOR_ROUNDS = 50_000
_SERIES = 3
_POSITIONS = (1, 2, 20, 21, 50)
_LARGE_POSITIONS = (*_POSITIONS, 200)
_HERMES_LAST = 21
_WORKTREES = 10
_PER_WORKTREE = 20
_EDITS = 3
_MOST_FOR_DISK = 10_000
_RESTORED = 20
_STATUS_ROUNDS = 5
_PER_PROJECT = 2
_FLOOR_ROUNDS = 21
_MB = 1e6

_FULL = "Holdfast"
_KNOWN = "Holdfast, path known"
_GIT = "`git add -A`"
_HERMES = f"Hermes {HERMES}"
_REFUSED = (
    f"{_HERMES} took no checkpoint here: it refuses more than 50,000 files and folders, and"
    " gives up when git takes 30 seconds."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One size: the tree that everybody looks at, and a folder for what they make of it."""

    scratch: Path
    tree: Tree
    ours: Holdfast
    large: bool

    @property
    def files(self) -> int:
        return len(self.tree.paths)


def in_turn(everyone: Iterable[str], number: int) -> Sequence[str]:
    """All of them, and another one first in every round."""
    names = list(everyone)
    start = number % len(names)
    return [*names[start:], *names[:start]]


def span(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def durable_write(scratch: Path) -> float:
    """The least that a durable checkpoint could cost on this disk: one small file and its name."""
    seconds = []
    for number in range(_FLOOR_ROUNDS):
        began = time.perf_counter()
        with (scratch / f"floor-{number}").open("wb") as file:
            file.write(b"x" * 100)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(scratch, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def head(title: str) -> None:
    print()
    print(f"| {title} | Holdfast | beside it | takes | ratio | wanted |")
    print("|---|---:|---|---:|---:|---:|")


def row(what: str, ours: float, beside: str = "", theirs: float = 0, wanted: str = "") -> None:
    """A line of a table. The ratio is how many times quicker, or how many times as long, whichever
    is wanted."""
    if not theirs:
        print(f"| {what} | {span(ours)} |  |  |  | {wanted} |")
        return
    ratio = theirs / ours if wanted.startswith("≥") else ours / theirs
    shown = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}"
    print(f"| {what} | {span(ours)} | {beside} | {span(theirs)} | {shown} x | {wanted} |")


# --- A turn: one file changed, or none ------------------------------------------------------------


def turn(bench: Bench) -> None:
    scratch, root, ours = bench.scratch, bench.tree.root, bench.ours
    git = BareGit(scratch / "git", root)
    with Hermes(scratch / "hermes") as hermes:
        figures = measure_turns(
            bench,
            {
                _FULL: lambda _, changed: ours.take(scratch / "full", root, changed=changed),
                _KNOWN: lambda path, changed: ours.take(
                    scratch / "known", root, [path], changed=changed
                ),
                _GIT: lambda _, __: git.add(),
                _HERMES: lambda _, changed: hermes.take(root, changed=changed),
            },
        )
    show_turns(figures)
    if hermes.refused:
        print()
        print(_REFUSED)


Take = Callable[[str, bool], float | None]


def measure_turns(bench: Bench, ways: dict[str, Take]) -> Figures:
    """Everybody sees every change. The first two rounds make the stores and warm the caches."""
    figures = Figures()
    rounds = dict.fromkeys(ways, _ROUNDS)
    for number in range(-2, _ROUNDS):
        path = bench.tree.edit()
        for changed in (True, False):
            for name in in_turn(ways, number):
                if number >= rounds[name]:
                    continue
                seconds = ways[name](path, changed)
                if seconds is None:
                    rounds[name] = -2
                elif number >= 0:
                    figures.add(f"{name} {changed}", seconds)
                elif number == -1 and changed and seconds > _SLOW:
                    rounds[name] = _SLOW_ROUNDS
    return figures


def show_turns(figures: Figures) -> None:
    def value(name: str, changed: bool) -> float:
        key = f"{name} {changed}"
        return figures[key] if key in figures.values else 0

    head("checkpoint at the beginning of a turn")
    for what, name, changed, hermes, git in (
        ("1 file changed", _FULL, True, "≥ 15 x", "≤ 1.5 x"),
        ("the same, its path known", _KNOWN, True, "≥ 100 x", ""),
        ("nothing changed", _FULL, False, "≥ 1 x", ""),
        ("the same, a path known", _KNOWN, False, "≥ 1 x", ""),
    ):
        mine = value(name, changed)
        row(what, mine, _GIT, value(_GIT, changed), git)
        if value(_HERMES, changed):
            row("", mine, _HERMES, value(_HERMES, changed), hermes)
    asked = len(figures.values.get(f"{_HERMES} True", ()))
    print()
    print(f"Medians of {_ROUNDS} rounds, and of {asked} for Hermes.")


# --- The first checkpoint -------------------------------------------------------------------------


def first(bench: Bench) -> None:
    """Each round in new stores; what they wrote reaches the disk before the next one's turn."""
    figures = Figures()
    installed = [name for name in PROGRAMS if is_installed(name)]
    rounds = _FIRST_ROUNDS if bench.files <= _MOST_FOR_ROUNDS else 1
    for number in range(rounds):
        for name in in_turn((_FULL, _GIT, *installed, _HERMES), number):
            if name == _HERMES and number:
                continue
            folder = bench.scratch / "first"
            os.sync()
            seconds = take_first(bench, name, folder)
            if seconds is not None:
                figures.add(name, seconds)
            shutil.rmtree(folder)
    head("first checkpoint")
    mine = figures[_FULL]
    for name, wanted in (
        (_GIT, "≤ 0.6 x"),
        ("restic", "≤ 1.2 x"),
        ("borg", ""),
        (_HERMES, "≥ 1 x"),
    ):
        if name in figures.values:
            row(f"all {bench.files:,} files", mine, name, figures[name], wanted)
    print()
    print(f"Medians of {rounds} rounds; Hermes: 1 round.")
    for name in PROGRAMS:
        if name not in installed:
            print(f"{name} is not installed here, so it is missing.")


def take_first(bench: Bench, name: str, folder: Path) -> float | None:
    root = bench.tree.root
    if name == _FULL:
        # Another name every time: the library may remember a home.
        return bench.ours.take(Path(tempfile.mkdtemp(dir=made(folder))), root)
    if name == _GIT:
        return BareGit(folder, root).add()
    if name == _HERMES:
        with Hermes(folder) as hermes:
            return hermes.take(root)
    return first_backup(name, folder, root)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


# --- Many in a row --------------------------------------------------------------------------------


def series(bench: Bench) -> None:
    """One changed file each. Hermes joins the first series until it has pruned once."""
    positions = _LARGE_POSITIONS if bench.large else _POSITIONS
    mine: dict[int, list[float]] = {}
    theirs: dict[int, float] = {}
    with Hermes(bench.scratch / "hermes-series") as hermes:
        for number in range(_SERIES):
            home = bench.scratch / f"series-{number}"
            for position in range(1, positions[-1] + 1):
                bench.tree.edit()
                seconds = bench.ours.take(home, bench.tree.root)
                mine.setdefault(position, []).append(seconds)
                if number == 0 and position <= _HERMES_LAST and not hermes.refused:
                    theirs[position] = hermes.take(bench.tree.root) or 0
    show_series(mine, theirs, positions)


def show_series(
    mine: dict[int, list[float]], theirs: dict[int, float], positions: Sequence[int]
) -> None:
    second = statistics.median(mine[2])
    hermes_second = theirs.get(2, 0)
    print()
    print(f"| checkpoint in a row | Holdfast | to its 2nd | {_HERMES} | to its 2nd |")
    print("|---|---:|---:|---:|---:|")
    for position in positions:
        seconds, beside = statistics.median(mine[position]), theirs.get(position, 0)
        known = beside and hermes_second
        shown = f"{span(beside)} | {beside / hermes_second:.2f} x" if known else " | "
        print(f"| {position}. | {span(seconds)} | {seconds / second:.2f} x | {shown} |")
    usual = statistics.median(value for n in range(2, 21) for value in mine[n])
    later = [value for n in range(21, positions[-1] + 1) for value in mine[n]]
    print()
    print(f"Medians of {_SERIES} series, Hermes: 1. All together: 2nd to 20th {span(usual)};")
    print(
        f"21st and later {span(statistics.median(later))}, {statistics.median(later) / usual:.2f} x"
        f" of that (wanted: no slower), the slowest {span(max(later))}."
    )


# --- Restore --------------------------------------------------------------------------------------


def restore(bench: Bench) -> None:
    """The safety checkpoint and the receipt are part of it; git only writes the files."""
    tree, root, home = bench.tree, bench.tree.root, bench.scratch / "restore"
    git = BareGit(bench.scratch / "git-restore", root)
    target = bench.ours.ask("take", home, root)["id"]
    git.add()
    written = git.said("write-tree")
    figures = Figures()
    for number in range(_FIRST_ROUNDS):
        for what, spoil, count in (
            ("some", lambda: tree.edit_some(_RESTORED), min(_RESTORED, bench.files)),
            ("all", tree.empty, bench.files),
        ):
            for name in in_turn((_FULL, _GIT), number):
                spoil()
                os.sync()
                if name == _GIT:
                    figures.add(f"git {what}", git.timed("read-tree", "--reset", "-u", written))
                    continue
                done = bench.ours.ask("restore", home, root, target)
                if done["written"] != count:
                    raise SystemExit(f"Not all of {count:,} files came back: {done}")
                figures.add(what, done["seconds"])
    head("restore, with its safety checkpoint")
    for what, shown in (
        ("some", f"{_RESTORED} changed files"),
        ("all", f"all {bench.files:,} files into an empty directory"),
    ):
        row(shown, figures[what], "`git read-tree --reset -u`", figures[f"git {what}"])


# --- Disk -----------------------------------------------------------------------------------------


def disk(bench: Bench) -> None:
    """Worktrees of one project that drift apart, beside a git repository with a branch for each."""
    if bench.files > _MOST_FOR_DISK:
        return
    home, store = bench.scratch / "disk", bench.scratch / "git-disk"
    indexes = []
    for number in range(_WORKTREES):
        worktree = bench.tree.copy(bench.scratch / f"worktree-{number}", seed=1 + number)
        git = BareGit(store, worktree.root, index=f"index-{number}")
        for _ in range(_PER_WORKTREE):
            worktree.edit_some(_EDITS)
            bench.ours.take(home, worktree.root)
            git.commit(f"worktree-{number}")
        indexes.append(git.index)
    taken = on_disk(home / "checkpoints")
    packing = bench.ours.ask("pack", home)
    if packing["checkpoints"] != _WORKTREES * _PER_WORKTREE:
        raise SystemExit(f"Some checkpoints are missing: {packing}")
    BareGit(store, bench.tree.root).pack()
    theirs = on_disk(store), sum(map(on_disk, indexes))
    ours = home / "checkpoints"
    show_disk(
        (on_disk(ours), on_disk(ours / "store" / "worktrees")), theirs, taken, packing["seconds"]
    )
    for folder in (home, store, *bench.scratch.glob("worktree-*")):
        shutil.rmtree(folder)


def show_disk(ours: tuple[int, int], theirs: tuple[int, int], taken: int, packing: float) -> None:
    print()
    print(f"| disk, {_WORKTREES} worktrees x {_PER_WORKTREE} | Holdfast | git | ratio | wanted |")
    print("|---|---:|---:|---:|---:|")
    for what, mine, other, wanted in (
        ("all", ours[0], theirs[0], "≤ 1.2 x"),
        ("of it: an index for each worktree", ours[1], theirs[1], ""),
        ("of it: everything else", ours[0] - ours[1], theirs[0] - theirs[1], ""),
    ):
        sizes = f"{mine / _MB:.2f} MB | {other / _MB:.2f} MB | {mine / other:.2f} x"
        print(f"| {what} | {sizes} | {wanted} |")
    print()
    print(
        f"Holdfast before maintenance: {taken / _MB:.2f} MB; packing took {span(packing)}. To git's"
        f" without any index: {ours[0] / (theirs[0] - theirs[1]):.2f} x."
    )


# --- Status ---------------------------------------------------------------------------------------


def status(scratch: Path, ours: Holdfast, projects: int) -> None:
    """Whole processes, the start of the interpreter included."""
    home, trees = scratch / "status", scratch / "projects"
    for number in range(projects):
        tree = Tree(trees / f"project-{number}", 5, seed=number)
        tree.build()
        for _ in range(_PER_PROJECT):
            tree.edit()
            ours.take(home, tree.root)
    print()
    print(f"## {projects:,} projects of {_PER_PROJECT} checkpoints")
    print()
    print("| whole process | takes | memory | wanted |")
    print("|---|---:|---:|---:|")
    for words in (("checkpoints", "status"), ("status",)):
        done = [holdfast(home, *words) for _ in range(_STATUS_ROUNDS)]
        seconds = statistics.median(each.seconds for each in done)
        memory = max(each.megabytes for each in done)
        print(
            f"| `holdfast {' '.join(words)}` | {span(seconds)} | {memory:.0f} MB "
            "| ≤ 1 s, ≤ 200 MB |"
        )


PARTS: dict[str, Callable[[Bench], None]] = {
    "turn": turn,
    "first": first,
    "series": series,
    "restore": restore,
    "disk": disk,
}


def measure(scratch: Path, ours: Holdfast, files: int, parts: Sequence[str], large: bool) -> None:
    folder = made(scratch / f"{files}-files")
    tree = Tree(folder / "tree", files)
    tree.build()
    os.sync()
    size = sum((tree.root / path).stat().st_size for path in tree.paths)
    print()
    print(f"## {files:,} files, {size / _MB:,.1f} MB")
    for part in parts:
        if part in PARTS:
            place = made(folder / part)
            PARTS[part](Bench(scratch=place, tree=tree, ours=ours, large=large))
            shutil.rmtree(place)
    shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, nargs="+", help="in the tree [1000 10000]")
    parser.add_argument("--large", action="store_true", help="also 50,000 and 200,000 files")
    parser.add_argument("--projects", type=int, default=1_000, help="for status [1000]")
    parser.add_argument("--only", nargs="+", choices=(*PARTS, "status"), help="these parts")
    arguments = parser.parse_args()
    sizes = arguments.files or [*_SIZES, *(_LARGE_SIZES if arguments.large else ())]
    parts = arguments.only or [*PARTS, "status"]
    git = subprocess.run(["git", "--version"], check=True, capture_output=True, text=True).stdout
    print(f"{platform.python_implementation()} {platform.python_version()}, {git.strip()}")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        scratch = Path(name)
        print(f"A small file, written and made durable: {span(durable_write(scratch))}")
        with Holdfast(scratch) as ours:
            for files in sizes:
                measure(scratch, ours, files, parts, arguments.large)
            if "status" in parts:
                status(scratch, ours, arguments.projects)


if __name__ == "__main__":
    main()

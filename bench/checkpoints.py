"""Checkpoints beside Hermes's own `CheckpointManager`, plain git, restic and borg, in one run.

All of them look at the same tree and see the same change, one after the other, and who goes first
changes with every round; medians are compared.

    .venv/bin/python bench/checkpoints.py                   1,000 to 200,000 files: minutes, 8 GB
    .venv/bin/python bench/checkpoints.py --quick           whether it works
    .venv/bin/python bench/checkpoints.py --files 10000 --only turn first    parts of it

`--json` keeps what is to be drawn, `--raw` everything that was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from baselines import HERMES
from checkpoint_parts import PROGRAMS, Bench, Effort, first, restore, series, turn
from checkpoint_results import (
    Results,
    Size,
    disks,
    firsts,
    in_a_row,
    plots,
    reached,
    restores,
    span,
    statuses,
    turns,
)
from checkpoint_space import EDITS, MESSAGES_OF_A_SESSION, PER_PROJECT, PER_WORKTREE, disk, status
from contenders import Holdfast, is_installed
from plotting import common_options, save
from trees import Tree

_SIZES = (1_000, 10_000, 200_000)
_QUICK_SIZES = (200,)
_QUICK = Effort(rounds=1, first_rounds=1, series=1, last=22, restores=1, programs=False)
#: Other trees than this have only a turn and a first checkpoint, in fewer rounds; the largest only
#: those whose figures are wanted.
_FOR_ALL = 10_000
_FEWER = Effort(rounds=5, first_rounds=1)
_MOST_FOR_PROGRAMS = 50_000
_LEAST = Effort(rounds=3, first_rounds=1, hermes=False, programs=False, few=True)
_PROJECTS, _QUICK_PROJECTS, _QUICK_WORKTREES = 1_000, 20, 2
_SESSIONS, _QUICK_SESSIONS = 50_000, 100
_POSITIONS = (1, 2, 20, 21, 50, 100)
_FLOOR_ROUNDS = 21
PARTS: dict[str, Callable[[Bench], None]] = {
    "turn": turn,
    "first": first,
    "series": series,
    "restore": restore,
    "disk": disk,
}

_TEXT = """\
## Checkpoints

Source trees of about 20 files a folder and a median file of 2.5 kB. Everybody looks at the same
tree and sees the same change, and who goes first changes with every round. Holdfast and Hermes
{hermes}'s own `CheckpointManager` are timed inside processes that live as long as an agent: a new
turn, then the checkpoint; `holdfast checkpoints take` is the whole process too, as a script starts
it. git, restic and borg are programs, and are timed as such; `git add -A`
has a private index, kept warm. Holdfast makes everything durable before it returns; git, as people
have it, leaves single objects to the operating system, and Hermes uses git. One small file,
written and made durable, takes {floor} here. The load was {before:.1f} before and {after:.1f}
after. Medians of {rounds} rounds, of 3 for what takes more than half a second, and one of Hermes's
first.
"""
_REFUSES = f"""
Hermes {HERMES} refuses more than 50,000 files and folders together, and gives up when git takes 30
seconds. In the largest tree only those take part whose figures are wanted.
"""
_IN_A_ROW = """
One file changed each time; medians of 2 series, and one series of Hermes, until it has pruned once.
"""
_DISK = f"""
Worktrees of one project, {PER_WORKTREE} checkpoints each, {EDITS} files changed in every one, and
maintenance after each worktree. Next to it, git with the same trees as commits, a branch and an
index for each worktree, in one pack (`git repack -a -d -f`).
"""
_RESTORE = """
A restore takes a safety checkpoint first, makes every file durable and leaves a receipt;
`git read-tree --reset -u` only writes the files, so it is shown with a `sync` after it too.
"""
_STATUS = f"""
Projects of {PER_PROJECT} checkpoints, and sessions of {MESSAGES_OF_A_SESSION} messages in the same
home; the commands as whole processes.
"""


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


def measure(scratch: Path, files: int, parts: Sequence[str], effort: Effort, quick: bool) -> Size:
    """One size, with a process of its own for Holdfast, so that its memory is told."""
    folder = scratch / f"{files}-files"
    tree = Tree(folder / "tree", files)
    tree.build()
    os.sync()
    size = Size(files=files, bytes=sum((tree.root / path).stat().st_size for path in tree.paths))
    with Holdfast(folder) as ours:
        for part in parts:
            place = folder / part
            if part not in PARTS:
                continue
            print(f"  {files:,} files: {part} …", file=sys.stderr, flush=True)
            place.mkdir()
            bench = Bench(scratch=place, tree=tree, ours=ours, effort=effort, size=size)
            if part == "disk" and quick:
                disk(bench, worktrees=_QUICK_WORKTREES)
            else:
                PARTS[part](bench)
            shutil.rmtree(place)
    shutil.rmtree(folder)
    return size


def efforts(files: int, parts: Sequence[str], quick: bool) -> tuple[Effort, Sequence[str]]:
    if quick:
        return _QUICK, parts
    if files == _FOR_ALL:
        return Effort(), parts
    effort = _FEWER if files <= _MOST_FOR_PROGRAMS else _LEAST
    return effort, [part for part in parts if part in ("turn", "first")]


def show(results: Results) -> Iterator[str]:
    before, after = results.load
    rounds = max(
        (len(values) for size in results.sizes for values in size.changed.values()), default=0
    )
    floor = span(results.durable_write)
    yield _TEXT.format(hermes=HERMES, floor=floor, before=before, after=after, rounds=rounds)
    if any(size.changed for size in results.sizes):
        yield from turns(results)
        yield _REFUSES
    if any(size.first for size in results.sizes):
        yield from firsts(results)
        yield from missing()
    for size in results.sizes:
        if size.series:
            yield _IN_A_ROW
            yield from in_a_row(size, _POSITIONS)
    for size in results.sizes:
        if size.disk:
            yield _DISK
            yield from disks(size)
    if any(size.restore for size in results.sizes):
        yield _RESTORE
        yield from restores(results)
    if results.status:
        yield _STATUS
        yield from statuses(results)
    yield ""


def missing() -> Iterator[str]:
    for program in PROGRAMS:
        if not is_installed(program):
            yield f"\n{program} is not installed here, so it is missing."


def keep(path: Path | None, results: Results) -> None:
    """Also after each size: the larger ones take long, and may be cut short."""
    if path is not None:
        path.write_text(json.dumps(asdict(results), indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, nargs="+", help="in the tree [1000 10000 200000]")
    parser.add_argument("--projects", type=int, help="for status [1000]")
    parser.add_argument("--only", nargs="+", choices=(*PARTS, "status"), help="these parts")
    parser.add_argument("--raw", type=Path, metavar="FILE", help="keep everything measured")
    common_options(parser)
    arguments = parser.parse_args()
    quick = arguments.quick
    sizes = arguments.files or (_QUICK_SIZES if quick else _SIZES)
    parts = arguments.only or [*PARTS, "status"]
    results, load = Results(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        scratch = Path(name)
        results.durable_write = durable_write(scratch)
        for files in sizes:
            effort, wanted = efforts(files, parts, quick)
            results.sizes.append(measure(scratch, files, wanted, effort, quick))
            keep(arguments.raw, results)
        if "status" in parts:
            projects = arguments.projects or (_QUICK_PROJECTS if quick else _PROJECTS)
            print(f"  {projects:,} projects: status …", file=sys.stderr, flush=True)
            with Holdfast(scratch) as ours:
                sessions = _QUICK_SESSIONS if quick else _SESSIONS
                status(scratch, ours, results, projects, sessions)
    results.load = load, os.getloadavg()[0]
    print("\n".join(show(results)))
    save(arguments.json, plots(results), dict(reached(results)))
    keep(arguments.raw, results)


if __name__ == "__main__":
    main()

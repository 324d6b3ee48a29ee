"""What is measured of checkpoints beside time: the disk, and the view of many projects."""

from __future__ import annotations

import shutil
import statistics
import sys
from pathlib import Path

from checkpoint_parts import Bench
from checkpoint_results import Results
from contenders import BareGit, Holdfast
from contest import WORKERS
from prune import holdfast, on_disk, run
from trees import Tree

WORKTREES, PER_WORKTREE, EDITS = 4, 20, 3
PER_PROJECT = 2
_FILES_OF_A_PROJECT = 5
_STATUS_ROUNDS = 5
MESSAGES_OF_A_SESSION = 2


def disk(bench: Bench, *, worktrees: int = WORKTREES) -> None:
    """Worktrees of one project that drift apart, beside a git repository with a branch for each.

    Maintenance runs after each of them, and git packs everything anew."""
    home, store = bench.scratch / "disk", bench.scratch / "git-disk"
    ours, indexes = home / "checkpoints", []
    for number in range(worktrees):
        worktree = bench.tree.copy(bench.scratch / f"worktree-{number}", seed=1 + number)
        git = BareGit(store, worktree.root, index=f"index-{number}")
        for _ in range(PER_WORKTREE):
            worktree.edit_some(EDITS)
            bench.ours.take(home, worktree.root)
            git.commit(f"worktree-{number}")
        indexes.append(git.index)
        left, packing = on_disk(ours), bench.ours.ask("pack", home)
        count = (number + 1) * PER_WORKTREE
        if packing["checkpoints"] != count:
            raise SystemExit(f"Some of {count} checkpoints are missing: {packing}")
        git.pack()
        bench.size.disk[count] = left, on_disk(ours), on_disk(store)
        bench.size.packing = packing["seconds"]
    bench.size.indexes = on_disk(ours / "store" / "worktrees"), sum(map(on_disk, indexes))
    for folder in (home, store, *bench.scratch.glob("worktree-*")):
        shutil.rmtree(folder)


def status(scratch: Path, ours: Holdfast, results: Results, projects: int, sessions: int) -> None:
    """The library, and whole processes with the start of the interpreter."""
    home, trees, file = scratch / "status", scratch / "projects", scratch / "sessions.jsonl"
    run(sys.executable, WORKERS / "prune_corpus.py", file, sessions, MESSAGES_OF_A_SESSION)
    holdfast(home, "sessions", "import", file)
    file.unlink()
    for number in range(projects):
        tree = Tree(trees / f"project-{number}", _FILES_OF_A_PROJECT, seed=number)
        tree.build()
        for _ in range(PER_PROJECT):
            tree.edit()
            ours.take(home, tree.root)
    results.projects, results.sessions = projects, sessions
    asked = [ours.ask("overview", home) for _ in range(_STATUS_ROUNDS)]
    if asked[0]["projects"] != projects:
        raise SystemExit(f"Not all of {projects:,} projects are seen: {asked[0]}")
    results.status["the library"] = statistics.median(each["seconds"] for each in asked), 0
    for words in (("checkpoints", "status"), ("status",)):
        done = [holdfast(home, *words) for _ in range(_STATUS_ROUNDS)]
        results.status[f"`holdfast {' '.join(words)}`"] = (
            statistics.median(each.seconds for each in done),
            max(each.megabytes for each in done),
        )

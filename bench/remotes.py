"""Checkpoints pushed to a git remote through `git daemon`: what goes over the wire, and how long it
takes, beside plain `git push` of the same commits.

Whole processes are measured, the start of the interpreter included.

    .venv/bin/python bench/remotes.py                   10,000 files, 100 checkpoints: a minute
    .venv/bin/python bench/remotes.py --quick           whether it works
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from plotting import common_options
from prune import holdfast, run
from trees import Tree

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the tests have the wire that counts

from tests.git_remotes import Wire, bare, daemon, git, refs, wire  # noqa: E402

_FILES, _CHECKPOINTS, _ROUNDS = 10_000, 100, 3
_QUICK_FILES, _QUICK_CHECKPOINTS = 100, 5
_KB = 1000
_MOST_BYTES, _MOST_SECONDS = 10_000, 1.0
_TEXT = """\
## Checkpoints on a git remote

A project of {files:,} files, {checkpoints:,} checkpoints, pushed through `git daemon` on the
loopback. git pushes the same commits from the same store; it has no parents to go by, so it sends
the project each time. With no change it lists every reference of the remote.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What one push cost."""

    bytes: int
    seconds: float


def measured(wire: Wire, work: Callable[[], float], rounds: int = 1) -> Sent:
    found = []
    for _ in range(rounds):
        wire.bytes = 0
        seconds = work()
        found.append(Sent(bytes=wire.bytes, seconds=seconds))
    return Sent(
        bytes=int(statistics.median(each.bytes for each in found)),
        seconds=statistics.median(each.seconds for each in found),
    )


def compare(scratch: Path, files: int, checkpoints: int) -> Iterator[tuple[str, Sent, Sent]]:
    home, tree = scratch / "home", Tree(scratch / "project", files)
    tree.build()
    holdfast(home, "config", "init")
    holdfast(home, "config", "set", "checkpoints.max_snapshots", "0")

    def take() -> None:
        tree.edit()
        holdfast(home, "checkpoints", "take", tree.root)

    for name in ("ours.git", "theirs.git"):
        bare(scratch / name)
    store = home / "checkpoints" / "store"
    with daemon(scratch) as port, wire(port) as one:
        holdfast(
            home,
            *("checkpoints", "remote", "add", "backup"),
            f"git://127.0.0.1:{one.port}/ours.git",
        )

        def ours() -> float:
            return holdfast(home, "checkpoints", "push", "backup", tree.root).seconds

        def theirs() -> float:
            url = f"git://127.0.0.1:{one.port}/theirs.git"
            spec = "refs/holdfast/*:refs/holdfast/*"
            return run("git", "-C", store, "push", "--quiet", url, spec).seconds

        take()
        yield "the first checkpoint", measured(one, ours), measured(one, theirs)
        take()
        yield "one file changed", measured(one, ours), measured(one, theirs)
        for _ in range(checkpoints - 2):
            take()
        yield f"{checkpoints - 2:,} more", measured(one, ours), measured(one, theirs)
        yield "no change", measured(one, ours, _ROUNDS), measured(one, theirs, _ROUNDS)
    there = [name for name in refs(scratch / "ours.git") if "/rules/" not in name]
    if len(there) != checkpoints:
        raise SystemExit(f"Of {checkpoints} checkpoints, {len(there)} are on the remote.")
    git("fsck", "--connectivity-only", at=scratch / "ours.git")


def show(lines: list[tuple[str, Sent, Sent]]) -> Iterator[str]:
    yield "| push | Holdfast | | git | |"
    yield "|---|---:|---:|---:|---:|"
    for name, ours, theirs in lines:
        cells = (f"{each.bytes / _KB:,.1f} kB | {each.seconds:.2f} s" for each in (ours, theirs))
        yield f"| {name} | {' | '.join(cells)} |"
    nothing = lines[-1][1]
    reached = nothing.bytes <= _MOST_BYTES and nothing.seconds <= _MOST_SECONDS
    yield ""
    yield (
        f"With no change, at most {_MOST_BYTES / _KB:.0f} kB and {_MOST_SECONDS:.0f} s are wanted:"
        f" {'reached' if reached else 'missed'}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    common_options(parser)
    quick = parser.parse_args().quick
    files, checkpoints = (_QUICK_FILES, _QUICK_CHECKPOINTS) if quick else (_FILES, _CHECKPOINTS)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        lines = list(compare(Path(scratch).resolve(), files, checkpoints))
    print(_TEXT.format(files=files, checkpoints=checkpoints))
    print("\n".join(show(lines)))


if __name__ == "__main__":
    main()

"""A home of Claude Code listed, searched and pruned, beside agentsview on the same home in one run.

The home is generated, see `claude_home.py`. Whole processes are measured, the start of the
interpreter included. Processor time is shown too: it says more on a machine that is busy. What is
repeated is the median of a few rounds.

    .venv/bin/python bench/reach.py                   a few minutes, 2 GB
    .venv/bin/python bench/reach.py --quick           whether it works, a few seconds
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from baselines import AGENTSVIEW, NotInstallableError, agentsview
from claude_home import make
from plotting import common_options
from prune import Run, holdfast, on_disk, run

_SESSIONS, _MEGABYTES = 2000, 352
_QUICK_SESSIONS, _QUICK_MEGABYTES = 40, 4
_ROUNDS = 3
_MB = 1e6
#: How old the newest session is.
_NEWEST_HOURS = 240
_HOUR = 3600.0
#: Some sessions hold it, most do not.
_WORD = "traceback"
_TEXT = """\
## A home of Claude Code

{sessions:,} sessions of {megabytes:.0f} MB, generated as Claude Code writes them, and agentsview
{agentsview} on the same home. Whole processes, the start of the interpreter included; medians of
{rounds} rounds where a thing can be repeated. The first search makes the index of Holdfast, the
first `sync` the database of agentsview, which then asks a daemon; Holdfast has none, and each
search first looks whether anything changed. In brackets, the processor time of the process.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One piece of work by both, and what we want of ours in seconds."""

    name: str
    ours: Run
    theirs: Run | None = None
    wanted: float | None = None


def repeated(work: Callable[[], Run], rounds: int) -> Run:
    """The run in the middle."""
    runs = sorted((work() for _ in range(rounds)), key=lambda each: each.seconds)
    return runs[len(runs) // 2]


class Ours:
    def __init__(self, home: Path) -> None:
        self._home = home

    def __call__(self, *words: str) -> Run:
        return holdfast(self._home, *words)

    @property
    def index(self) -> int:
        return on_disk(self._home / ".holdfast" / "index")


class Theirs:
    """agentsview in a home directory of its own. It syncs by itself, and asks its daemon."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._around = home.parent

    def sync(self) -> Run:
        return run(self._program, "sync", HOME=self._around, AGENTSVIEW_NO_DAEMON="1")

    def __call__(self, *words: str) -> Run:
        return run(self._program, *words, HOME=self._around)

    @contextmanager
    def daemon(self) -> Iterator[None]:
        self("daemon", "start")
        try:
            yield
        finally:
            self("daemon", "stop")

    @property
    def index(self) -> int:
        return on_disk(self._around / ".agentsview")


def read(ours: Ours, theirs: Theirs | None, rounds: int) -> list[Line]:
    def search() -> Run:
        return ours("sessions", "search", _WORD)

    def again(*words: str) -> Run:
        return repeated(lambda: ours(*words), rounds)

    inventory = ours("status")
    made, found = search(), repeated(search, rounds)
    listed, looked = again("sessions", "list"), again("status")
    synced = synced_again = their_search = their_list = None
    if theirs:
        synced, synced_again = theirs.sync(), repeated(theirs.sync, rounds)
        with theirs.daemon():
            their_search = repeated(lambda: theirs("session", "search", _WORD), rounds)
            their_list = repeated(lambda: theirs("session", "list"), rounds)
    return [
        Line(name="first inventory, without an index (`status`)", ours=inventory, wanted=2.0),
        Line(name="first search; `sync`", ours=made, theirs=synced, wanted=30.0),
        Line(name="a search in which nothing changed; `sync`", ours=found, theirs=synced_again),
        Line(name="the same; `session search`", ours=found, theirs=their_search),
        Line(name="`sessions list`; `session list`", ours=listed, theirs=their_list, wanted=0.3),
        Line(name="`status`", ours=looked),
    ]


def change(ours: Ours, sessions: int) -> list[Line]:
    """The older half goes, then the oldest quarter: the sessions are an hour apart."""
    found = []
    for work, share in (("prune", 2), ("archive", 4)):
        age = f"{_NEWEST_HOURS + sessions - sessions // share}h"
        done = ours("sessions", work, "--older-than", age, "--yes")
        found.append(Line(name=f"{work} {sessions // share:,} of them", ours=done))
        found.append(Line(name="undo of it", ours=ours("undo")))
    return found


def table(lines: Sequence[Line]) -> str:
    rows = [
        f"| whole processes | Holdfast | agentsview {AGENTSVIEW} | ratio | wanted |",
        "|---|---:|---:|---:|---:|",
    ]
    for each in lines:
        theirs = _shown(each.theirs) if each.theirs else ""
        ratio = f"{each.theirs.seconds / each.ours.seconds:.1f} x" if each.theirs else ""
        wanted = f"≤ {each.wanted:g} s" if each.wanted else ""
        rows.append(f"| {each.name} | {_shown(each.ours)} | {theirs} | {ratio} | {wanted} |")
    return "\n".join(rows)


def _shown(done: Run) -> str:
    return f"{done.seconds:.2f} s ({done.processor:.2f} s)"


def sizes(source: int, ours: int, theirs: int | None, lines: Sequence[Line]) -> str:
    memory = max(each.ours.megabytes for each in lines)
    their_memory = max((each.theirs.megabytes for each in lines if each.theirs), default=None)
    their_index = "" if theirs is None else f"{theirs / source:.2f}"
    their_most = "" if their_memory is None else f"{their_memory:.0f} MB"
    rows = [
        f"| | Holdfast | agentsview {AGENTSVIEW} | wanted |",
        "|---|---:|---:|---:|",
        f"| index, of the bytes of the transcripts | {ours / source:.2f} | {their_index} | ≤ 0.5 |",
        f"| the most memory | {memory:.0f} MB | {their_most} | ≤ 150 MB |",
    ]
    return "\n".join(rows)


def other(home: Path) -> Theirs | None:
    try:
        return Theirs(agentsview(), home)
    except NotInstallableError as error:
        sys.stderr.write(f"SKIPPED: agentsview {AGENTSVIEW} cannot be installed here: {error}\n")
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    common_options(parser)
    arguments = parser.parse_args()
    quick: bool = arguments.quick
    sessions = _QUICK_SESSIONS if quick else _SESSIONS
    rounds = 1 if quick else _ROUNDS
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        home = Path(folder, "me", ".claude")
        megabytes = _QUICK_MEGABYTES if quick else _MEGABYTES
        newest = time.time() - _NEWEST_HOURS * _HOUR
        make(home, sessions=sessions, megabytes=megabytes, newest=newest)
        source = sum(path.stat().st_size for path in home.glob("projects/*/*.jsonl"))
        time.sleep(3)  # what was just written may change again, so nobody may trust a glance at it
        ours, theirs = Ours(home), other(home)
        lines = read(ours, theirs, rounds)
        index, their_index = ours.index, theirs.index if theirs else None
        changes = change(ours, sessions)
    print(
        _TEXT.format(
            sessions=sessions, megabytes=source / _MB, agentsview=AGENTSVIEW, rounds=rounds
        )
    )
    print(table([*lines, *changes]))
    print()
    print(sizes(source, index, their_index, [*lines, *changes]))


if __name__ == "__main__":
    main()

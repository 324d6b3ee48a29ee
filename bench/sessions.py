"""The session store beside Hermes's own `SessionDB`, on the same data in one run.

Appends are durable one by one on both sides: both use a write-ahead log that is flushed before an
append returns. The stores hold messages before it begins, as stores in use do. Rounds
alternate between the two, and medians are compared. A bare SQLite insert with the same durability
is measured too: no store of this kind can be quicker on the machine at hand.

    .venv/bin/python bench/sessions.py                 a few minutes
    .venv/bin/python bench/sessions.py --quick         whether it works
    .venv/bin/python bench/sessions.py --large         import of 1,000,000 messages, a 1 GB store
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import corpus
from baselines import HERMES, hermes_python
from plotting import Plot, common_options, save

_WORKERS = Path(__file__).parent / "workers"
_TEXT = """\
## Sessions

Compared with Hermes {hermes} through its own `SessionDB`, on the same texts of about 1.4 kB, rounds
alternating, medians of {rounds}. Every append is durable by itself on both sides: the write-ahead
log is flushed before it returns. Both stores hold {before:,} messages before it begins.
"""
_FLOOR = """
Processes wait for each other's transactions, but not for each other's flushes. One process that
does nothing but insert the text, with no index and no totals, and makes it durable, reached
{floor:,.0f} a second in the same run.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured: appends in a round, messages stored before it, how often, by whom."""

    messages: int
    before: int
    rounds: int
    processes: tuple[int, ...]


_USUAL = Size(messages=2_000, before=40_000, rounds=5, processes=(1, 2, 4, 8))
_QUICK = Size(messages=80, before=400, rounds=1, processes=(1, 4))


class Contender:
    """One of the two stores: its interpreter, its worker, a fresh home for every round."""

    def __init__(self, name: str, python: Path, script: str) -> None:
        self.name = name
        self._command = [str(python), str(_WORKERS / script)]

    def run(self, *arguments: object) -> dict[str, float]:
        return self.finish(self.start(*arguments))

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        words = [*self._command, *map(str, arguments)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def finish(self, process: subprocess.Popen[str]) -> dict[str, float]:
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{self.name} failed: {process.args}")
        result: dict[str, float] = json.loads(out)
        return result


def appended(contender: Contender, scratch: Path, count: int, processes: int) -> float:
    """Messages a second, of all processes together, into a copy of the filled store."""
    home = scratch / f"{contender.name}-append"
    shutil.copytree(scratch / contender.name, home)
    started = [
        contender.start("append", home, count // processes, 100 + seed) for seed in range(processes)
    ]
    slowest = max(contender.finish(process)["seconds"] for process in started)
    shutil.rmtree(home)
    return count / slowest


def bare(scratch: Path, count: int) -> float:
    """Inserts a second of the least that could be called a store."""
    with sqlite3.connect(scratch / "bare.db", isolation_level=None) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE IF NOT EXISTS messages (body TEXT)")
        texts = list(corpus.messages(count))
        began = time.perf_counter()
        for text in texts:
            db.execute("INSERT INTO messages VALUES (?)", (text,))
        seconds = time.perf_counter() - began
    db.close()
    return count / seconds


def medians(
    measure: Callable[[Contender], float], both: list[Contender], rounds: int
) -> list[float]:
    """The median of each contender, taking turns."""
    values: dict[str, list[float]] = {each.name: [] for each in both}
    for number in range(rounds):
        for each in both if number % 2 else both[::-1]:
            values[each.name].append(measure(each))
    return [statistics.median(values[each.name]) for each in both]


def compare(scratch: Path, size: Size) -> Plot:
    plot = Plot(
        name="append-rate",
        title="Messages appended, each durable by itself",
        x="processes on one store",
        y="messages a second",
    )
    both = [
        Contender("Holdfast", Path(sys.executable), "holdfast_sessions.py"),
        Contender(f"Hermes {HERMES}", hermes_python(), "hermes_sessions.py"),
    ]
    for each in both:
        each.run("append", scratch / each.name, size.before, 1)
    floor = statistics.median(bare(scratch, size.messages) for _ in range(size.rounds))
    print(_TEXT.format(hermes=HERMES, before=size.before, rounds=size.rounds))
    print(f"| work | Holdfast | Hermes {HERMES} | ratio | wanted |")
    print("|---|---:|---:|---:|---:|")
    for processes in size.processes:
        ours, theirs = medians(
            lambda each, n=processes: appended(each, scratch, size.messages, n),  # type: ignore[misc]
            both,
            size.rounds,
        )
        what = f"append, {processes} process{'es' if processes > 1 else ''}"
        print(f"| {what} | {ours:,.0f}/s | {theirs:,.0f}/s | {ours / theirs:.1f} x | ≥ 5 x |")
        for each, rate in zip(both, (ours, theirs), strict=True):
            plot.add(each.name, processes, rate)
        plot.add("one process, nothing but durable inserts", processes, floor)
    ours, theirs = (each.run("size", scratch / each.name)["bytes"] for each in both)
    sizes = f"{ours / 1e6:.1f} MB | {theirs / 1e6:.1f} MB | {ours / theirs:.3f} x | ≤ 0.25 x"
    print(f"| database, {size.before:,} messages | {sizes} |")
    for what, name in (("search", "search, 5 queries"), ("listing", "list, 10 pages of 20")):
        ours, theirs = medians(
            lambda each, w=what: each.run(w, scratch / each.name)["seconds"] * 1000,  # type: ignore[misc]
            both,
            size.rounds,
        )
        print(f"| {name} | {ours:.1f} ms | {theirs:.1f} ms | {ours / theirs:.2f} x | ≤ 1 x |")
    print(_FLOOR.format(floor=floor))
    return plot


def large(scratch: Path) -> None:
    """What only Holdfast is asked for: a million messages in bounded memory, a quick open."""
    file = scratch / "million.jsonl"
    worker = [sys.executable, str(_WORKERS / "holdfast_sessions.py")]
    subprocess.run([*worker, "write", str(file), "1000000"], check=True, stdout=subprocess.DEVNULL)
    home = scratch / "large"
    command = [sys.executable, "-m", "holdfast", "--home", str(home), "sessions", "import"]
    began = time.perf_counter()
    subprocess.run([*command, str(file)], check=True)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    size = (home / "sessions.db").stat().st_size
    opening = [json.loads(_out([*worker, "opening", str(home)]))["seconds"] for _ in range(11)]
    print("| only for Holdfast | measured | wanted |")
    print("|---|---:|---:|")
    print(f"| import of 1,000,000 messages | {seconds:.0f} s, {1e6 / seconds:,.0f} a second |  |")
    print(f"| its memory | {peak:.0f} MB | < 200 MB |")
    quick = statistics.median(opening) * 1e3
    print(f"| opening the store of {size / 1e9:.2f} GB | {quick:.1f} ms | < 50 ms |")


def _out(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--large", action="store_true", help="also what takes minutes and 3 GB")
    common_options(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        save(arguments.json, [compare(Path(scratch), _QUICK if arguments.quick else _USUAL)])
        if arguments.large:
            large(Path(scratch))


if __name__ == "__main__":
    main()

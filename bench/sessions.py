"""The session store beside Hermes's own `SessionDB`, on the same data in one run.

Appends are durable one by one on both sides: both use a write-ahead log that is flushed before an
append returns. The stores hold messages before it begins, as stores in use do. Rounds
alternate, and medians are compared. A third is SQLite alone, told to do what each of our appends
needs of it: our store can't be quicker on the machine at hand.

    .venv/bin/python bench/sessions.py                 a few minutes
    .venv/bin/python bench/sessions.py --quick         whether it works
    .venv/bin/python bench/sessions.py --large         import of 1,000,000 messages, a 1 GB store
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from baselines import HERMES, hermes_python
from contest import WORKERS, Contender, cell, failures, medians, ratio
from plotting import Plot, common_options, save
from wanted import ROWS

_TEXT = """\
## Sessions

Compared with Hermes {hermes} through its own `SessionDB`, on the same texts of about 1.4 kB, rounds
alternating, medians of {rounds}. Every append is durable by itself on both sides: the write-ahead
log is flushed before it returns. Both stores hold {before:,} messages before it begins.
"""
_FLOOR = """
Processes wait for each other's transactions, but not for each other's flushes. "SQLite alone" is
what SQLite itself does for one of our appends: the same schema, row, totals, index, queue and
flush, with nothing around them. No store with this file can be quicker on this machine.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured: appends in a round, messages stored before it, how often, by whom;
    and messages in the store that is only searched."""

    messages: int
    before: int
    rounds: int
    processes: tuple[int, ...]
    many: int


_USUAL = Size(messages=1_200, before=40_000, rounds=5, processes=(1, 2, 4, 8), many=1_000_000)
_QUICK = Size(messages=80, before=400, rounds=1, processes=(1, 4), many=2_000)
_RARE_ROUNDS, _RARE_EACH = 5, 20


def appended(contender: Contender, scratch: Path, count: int, processes: int) -> float:
    """Messages a second, of all processes together, into a copy of the filled store."""
    home = scratch / f"{contender.name}-append"
    shutil.copytree(scratch / contender.name, home)
    try:
        done = contender.together(
            ("append", home, count // processes, 100 + seed) for seed in range(processes)
        )
    finally:
        shutil.rmtree(home)
    return count / max(each["seconds"] for each in done)


def compare(scratch: Path, size: Size, found: dict[str, float]) -> Plot:
    """Append, size, search and list, beside Hermes."""
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
        each.run("fill", scratch / each.name, size.before)
    alone = Contender("SQLite alone", Path(sys.executable), "bare_sqlite.py")
    shutil.copytree(scratch / both[0].name, scratch / alone.name)
    print(_TEXT.format(hermes=HERMES, before=size.before, rounds=size.rounds))
    print(f"| work | Holdfast | Hermes {HERMES} | ratio | wanted | SQLite alone |")
    print("|---|---:|---:|---:|---:|---:|")
    for processes in size.processes:
        ours, theirs, least = medians(
            lambda each, n=processes: appended(each, scratch, size.messages, n),  # type: ignore[misc]
            (*both, alone),
            size.rounds,
        )
        key = f"append {processes}"
        if ours and theirs:
            found[key] = ours / theirs
        what = f"append, {processes} process{'es' if processes > 1 else ''}"
        cells = f"{cell(ours, '{:,.0f}/s')} | {cell(theirs, '{:,.0f}/s')} | {ratio(ours, theirs)}"
        floor = f"{cell(least, '{:,.0f}/s')}, {ratio(least, theirs)}"
        print(f"| {what} | {cells} | {ROWS[key]} | {floor} |", flush=True)
        for each, rate in zip((*both, alone), (ours, theirs, least), strict=True):
            if rate:
                plot.add(each.name, processes, rate)
    mine, other = (each.run("size", scratch / each.name)["bytes"] for each in both)
    sizes = f"{mine / 1e6:.1f} MB | {other / 1e6:.1f} MB | {mine / other:.3f} x | ≤ 0.25 x"
    print(f"| database, {size.before:,} messages | {sizes} |  |")
    for what, name, limit in (
        ("search", "search, 5 queries", str(ROWS["search"])),
        ("listing", "list, 10 pages of 20", "≤ 1 x"),
    ):
        ours, theirs = medians(
            lambda each, w=what: each.run(w, scratch / each.name)["seconds"] * 1000,  # type: ignore[misc]
            both,
            size.rounds,
        )
        if what == "search" and ours and theirs:
            found["search"] = ours / theirs
        cells = f"{cell(ours, '{:.1f} ms')} | {cell(theirs, '{:.1f} ms')}"
        print(f"| {name} | {cells} | {ratio(ours, theirs, 2)} | {limit} |  |")
    print("\n".join(failures((*both, alone))))
    print(_FLOOR)
    return plot


def rare(scratch: Path, messages: int) -> float:
    """The milliseconds of a search for a part of a word that few messages have."""
    home = scratch / "rare"
    worker = Contender("Holdfast", Path(sys.executable), "holdfast_sessions.py")
    script, sessions = str(WORKERS / "large_store.py"), str(messages // _RARE_EACH)
    subprocess.run([sys.executable, script, str(home), sessions, str(_RARE_EACH)], check=True)
    first, *done = [worker.run("rare", home, number) for number in range(1 + _RARE_ROUNDS)]
    if any(each["found"] != 1 for each in (first, *done)):
        raise SystemExit(f"The search did not find the one message: {first}, {done}")
    milliseconds = 1e3 * statistics.median(each["seconds"] for each in done)
    shutil.rmtree(home)
    print(f"| only for Holdfast, {messages:,} short messages | measured | wanted |")
    print("|---|---:|---:|")
    print(f"| search for a rare part of a word | {milliseconds:.1f} ms | {ROWS['rare part']} |")
    cold = 1e3 * first["cold"]
    print(f"| the first such search, which makes the list of words | {cold:.1f} ms |  |")
    print()
    return milliseconds


def large(scratch: Path) -> None:
    """What only Holdfast is asked for: a million messages in bounded memory, a quick open."""
    file = scratch / "million.jsonl"
    worker = [sys.executable, str(WORKERS / "holdfast_sessions.py")]
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
        size, found = _QUICK if arguments.quick else _USUAL, dict[str, float]()
        plot = compare(Path(scratch), size, found)
        found["rare part"] = rare(Path(scratch), size.many)
        if arguments.large:
            large(Path(scratch))
    save(arguments.json, [plot], found)


if __name__ == "__main__":
    main()

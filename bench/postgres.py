"""Sessions in PostgreSQL beside our own SQLite store and Hermes, on the same data in one run.

The server is a real one on the same disk, with everything durable (`fsync` and
`synchronous_commit` as a server comes). Appends are timed in the workers; import, prune and undo as
whole processes; search inside a process that has the store open. Rounds alternate, medians are
compared.

    .venv/bin/python bench/postgres.py                 a few minutes; needs the development tools
    .venv/bin/python bench/postgres.py --quick         whether it works
    .venv/bin/python bench/postgres.py --growth 6      also how it grows, up to 10^6 messages
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from baselines import HERMES, hermes_python
from corpus import OLD_DAYS
from plotting import Plot, common_options, save
from sessions import Contender, medians

from tests.postgres import Server

_WORKERS = Path(__file__).parent / "workers"
_HOLDFAST = (sys.executable, "-m", "holdfast")
_DURABLE = ("shared_buffers=256MB",)
_TEXT = """\
## Sessions in PostgreSQL

A PostgreSQL on the same disk, everything durable, beside our SQLite store and Hermes {hermes};
texts of about 1.4 kB, rounds alternating, medians of {rounds}. Whole processes for import, prune
and undo.

| work | PostgreSQL | SQLite | Hermes {hermes} | ratio | wanted |
|---|---:|---:|---:|---:|---:|"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    appends: int
    processes: tuple[int, ...]
    sessions: int
    imported: int
    rounds: int


_USUAL = Size(appends=4_000, processes=(1, 8), sessions=5_000, imported=100_000, rounds=3)
_QUICK = Size(appends=80, processes=(1, 4), sessions=60, imported=2_000, rounds=1)


class Stores:
    """Fresh homes: in a file, or in a database of their own."""

    def __init__(self, scratch: Path, server: Server) -> None:
        self._scratch = scratch
        self._server = server
        self._made = 0

    @contextmanager
    def home(self, kind: str) -> Iterator[Path]:
        self._made += 1
        home = self._scratch / f"{kind}-{self._made}"
        home.mkdir()
        if kind == "postgres":
            (home / "config.toml").write_text(f'[store]\nurl = "{self._server.database()}"\n')
            _run(home, "store", "init")
        try:
            yield home
        finally:
            shutil.rmtree(home)


def _run(home: Path, *words: str) -> float:
    began = time.perf_counter()
    subprocess.run([*_HOLDFAST, "--home", str(home), *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def appends(stores: Stores, size: Size) -> Plot:
    plot = Plot(
        name="append-postgres",
        title="Messages appended, each durable by itself",
        x="processes on one store",
        y="messages a second",
    )
    three = [
        Contender("postgres", Path(sys.executable), "holdfast_sessions.py"),
        Contender("sqlite", Path(sys.executable), "holdfast_sessions.py"),
        Contender("hermes", hermes_python(), "hermes_sessions.py"),
    ]
    for processes in size.processes:

        def rate(each: Contender, processes: int = processes) -> float:
            with stores.home(each.name) as home:
                started = [
                    each.start("append", home, size.appends // processes, 100 + seed)
                    for seed in range(processes)
                ]
                return size.appends / max(each.finish(one)["seconds"] for one in started)

        ours, file, hermes = medians(rate, three, size.rounds)
        wanted = "≥ 2 x SQLite, ≥ 4 x Hermes" if processes > 1 else ""
        print(
            f"| append, {processes} process{'es' if processes > 1 else ''} | {ours:,.0f}/s "
            f"| {file:,.0f}/s | {hermes:,.0f}/s | {ours / file:.1f} x, {ours / hermes:.1f} x "
            f"| {wanted} |"
        )
        for name, value in zip(
            ("PostgreSQL", "SQLite", f"Hermes {HERMES}"), (ours, file, hermes), strict=True
        ):
            plot.add(name, processes, value)
    return plot


def removals(stores: Stores, scratch: Path, size: Size) -> None:
    file = scratch / "old.jsonl"
    words = [str(_WORKERS / "prune_corpus.py"), str(file), str(size.sessions), "20"]
    subprocess.run([sys.executable, *words], check=True)
    times: dict[str, list[tuple[float, float, float]]] = {"postgres": [], "sqlite": []}
    for _ in range(size.rounds):
        for kind, measured in times.items():
            with stores.home(kind) as home:
                taken = _run(home, "sessions", "import", str(file))
                pruned = _run(
                    home, "sessions", "prune", "--older-than", f"{OLD_DAYS // 4}d", "--yes"
                )
                undone = _run(home, "undo", "--yes")
                measured.append((taken, pruned, undone))
    names = (
        f"import of {size.sessions:,} x 20",
        f"prune of {size.sessions:,} x 20, undo kept",
        "undo of it",
    )
    for place, what in enumerate(names):
        ours, file_s = (
            statistics.median(each[place] for each in times[kind])
            for kind in ("postgres", "sqlite")
        )
        wanted = "≤ 3 x" if place == 1 else ""
        print(f"| {what} | {ours:.2f} s | {file_s:.2f} s | | {ours / file_s:.1f} x | {wanted} |")


def bulk(stores: Stores, scratch: Path, size: Size) -> None:
    file = scratch / "bulk.jsonl"
    worker = [sys.executable, str(_WORKERS / "holdfast_sessions.py")]
    subprocess.run(
        [*worker, "write", str(file), str(size.imported)], check=True, capture_output=True
    )
    rates = []
    for kind in ("postgres", "sqlite"):
        with stores.home(kind) as home:
            rates.append(size.imported / _run(home, "sessions", "import", str(file)))
    ours, theirs = rates
    print(
        f"| import of {size.imported:,} messages | {ours:,.0f}/s | {theirs:,.0f}/s | "
        f"| {ours / theirs:.1f} x | ≥ 20,000/s |"
    )


def growth(stores: Stores, scratch: Path, upto: int) -> Plot:
    """Time of append, search, list and the plan of a prune, in stores of 10^5 messages and up."""
    plot = Plot(
        name="growth-postgres",
        title="A store in PostgreSQL that grows",
        x="messages",
        y="milliseconds",
        log_x=True,
        log_y=True,
    )
    worker = Contender("postgres", Path(sys.executable), "holdfast_sessions.py")
    print("\n| messages | import | append | search, 5 queries | list, 10 pages | plan of a prune |")
    print("|---:|---:|---:|---:|---:|---:|")
    for power in range(5, upto + 1):
        count = 10**power
        file = scratch / "growth.jsonl"
        words = [sys.executable, str(_WORKERS / "holdfast_sessions.py"), "write", str(file)]
        subprocess.run([*words, str(count)], check=True, capture_output=True)
        with stores.home("postgres") as home:
            taken = _run(home, "sessions", "import", str(file))
            file.unlink()
            searched = [worker.run("search", home)["seconds"] * 1e3 for _ in range(3)]
            listed = [worker.run("listing", home)["seconds"] * 1e3 for _ in range(3)]
            added = worker.run("append", home, 400, 7)["seconds"] / 400 * 1e3
            planned = min(
                _run(home, "sessions", "prune", "--older-than", "1d", "--dry-run") for _ in range(2)
            )
        measured = {
            "append": added,
            "search, 5 queries": statistics.median(searched),
            "list, 10 pages": statistics.median(listed),
            "plan of a prune, whole process": planned * 1e3,
        }
        for name, value in measured.items():
            plot.add(name, count, value)
        shown = " | ".join(f"{value:,.1f} ms" for value in measured.values())
        print(f"| {count:,} | {count / taken:,.0f}/s | {shown} |", flush=True)
    return plot


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--growth", type=int, metavar="N", help="also stores of up to 10^N messages"
    )
    common_options(parser)
    arguments = parser.parse_args()
    size = _QUICK if arguments.quick else _USUAL
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        server = Server(folder, settings=_DURABLE)
        server.start()
        try:
            stores = Stores(Path(scratch), server)
            print(_TEXT.format(hermes=HERMES, rounds=size.rounds))
            plots = [appends(stores, size)]
            bulk(stores, Path(scratch), size)
            removals(stores, Path(scratch), size)
            if arguments.growth:
                plots.append(growth(stores, Path(scratch), arguments.growth))
            save(arguments.json, plots)
        finally:
            server.stop()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

"""Sessions in PostgreSQL beside our own SQLite store and Hermes, on the same data in one run.

The server is a real one on the same disk, with everything durable (`fsync` and
`synchronous_commit` as a server comes). Appends are timed in the workers; import, prune and undo as
whole processes. Rounds alternate, medians are compared. How a store grows, and what a search in a
million messages takes, is in postgres_growth.py.

    .venv/bin/python bench/postgres.py                 a few minutes; needs the development tools
    .venv/bin/python bench/postgres.py --quick         whether it works
    .venv/bin/python bench/postgres.py --only prune    one part: append, import or prune
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

import spent
from baselines import HERMES, hermes_python
from contest import WORKERS, Contender, cell, failures, medians, ratio
from corpus import OLD_DAYS
from plotting import Plot, common_options, save

from holdfast.stores.postgres import schema
from tests.postgres import Server

_HOLDFAST = (sys.executable, "-m", "holdfast")
_DURABLE = ("shared_buffers=256MB",)
_TEXT = """\
## Sessions in PostgreSQL

A PostgreSQL on the same disk, everything durable, beside our SQLite store and Hermes {hermes};
texts of about 1.4 kB, rounds alternating, medians of {rounds}. Whole processes for import, prune
and undo. Processor time is that of the clients and the server together.

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


_USUAL = Size(appends=2_400, processes=(1, 8), sessions=2_000, imported=100_000, rounds=3)
_QUICK = Size(appends=80, processes=(1, 4), sessions=60, imported=2_000, rounds=1)


class Stores:
    """Fresh homes: in a file, or in a database of their own."""

    def __init__(self, scratch: Path, server: Server) -> None:
        self._scratch = scratch
        self._server = server
        self._made = 0

    def server_seconds(self) -> float:
        return spent.server(self._server.folder)

    def empty(self) -> str:
        """The address of an empty store."""
        url = self._server.database()
        schema.create(url)
        return url

    @contextmanager
    def home(self, kind: str) -> Iterator[Path]:
        self._made += 1
        home = self._scratch / f"{kind}-{self._made}"
        home.mkdir()
        if kind == "postgres":
            (home / "config.toml").write_text(f'[store]\nurl = "{self.empty()}"\n')
        try:
            yield home
        finally:
            shutil.rmtree(home)


def _run(home: Path, *words: str) -> float:
    began = time.perf_counter()
    subprocess.run([*_HOLDFAST, "--home", str(home), *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def contenders() -> list[Contender]:
    return [
        Contender("postgres", Path(sys.executable), "holdfast_sessions.py"),
        Contender("sqlite", Path(sys.executable), "holdfast_sessions.py"),
        Contender("hermes", hermes_python(), "hermes_sessions.py"),
    ]


def appends(stores: Stores, size: Size, three: list[Contender]) -> Plot:
    plot = Plot(
        name="append-postgres",
        title="Messages appended, each durable by itself",
        x="processes on one store",
        y="messages a second",
    )
    for processes in size.processes:
        costs: dict[str, list[float]] = {each.name: [] for each in three}

        def rate(
            each: Contender, processes: int = processes, costs: dict[str, list[float]] = costs
        ) -> float:
            with stores.home(each.name) as home:
                before = stores.server_seconds()
                done = each.together(
                    ("append", home, size.appends // processes, 100 + seed)
                    for seed in range(processes)
                )
                cost = stores.server_seconds() - before + sum(one["processor"] for one in done)
                costs[each.name].append(cost / size.appends * 1e3)
                return size.appends / max(one["seconds"] for one in done)

        ours, file, hermes = medians(rate, three, size.rounds)
        wanted = "≥ 2 x SQLite, ≥ 4 x Hermes" if processes > 1 else ""
        several = f"{processes} process{'es' if processes > 1 else ''}"
        rates = " | ".join(cell(each, "{:,.0f}/s") for each in (ours, file, hermes))
        ratios = f"{ratio(ours, file)}, {ratio(ours, hermes)}".strip(", ")
        print(f"| append, {several} | {rates} | {ratios} | {wanted} |")
        cost, of_file, of_hermes = (
            statistics.median(found) if (found := costs[each.name]) else None for each in three
        )
        spent_by = " | ".join(cell(each, "{:.2f} ms") for each in (cost, of_file, of_hermes))
        ratios = f"{ratio(cost, of_file)}, {ratio(cost, of_hermes)}".strip(", ")
        print(f"| its processor time, {several} | {spent_by} | {ratios} | |", flush=True)
        for name, value in zip(
            ("PostgreSQL", "SQLite", f"Hermes {HERMES}"), (ours, file, hermes), strict=True
        ):
            if value:
                plot.add(name, processes, value)
    return plot


def removals(stores: Stores, scratch: Path, size: Size) -> None:
    file = scratch / "old.jsonl"
    words = [str(WORKERS / "prune_corpus.py"), str(file), str(size.sessions), "20"]
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
    """The same messages from a file of lines, and with COPY from our own file."""
    file = scratch / "bulk.jsonl"
    worker = Contender("holdfast", Path(sys.executable), "holdfast_sessions.py")
    worker.run("write", file, size.imported)
    rates = []
    for kind in ("postgres", "sqlite"):
        with stores.home(kind) as home:
            rates.append(size.imported / _run(home, "sessions", "import", str(file)))
            if kind == "postgres":
                continue
            copied = []
            for _ in range(size.rounds):
                before = stores.server_seconds()
                found = worker.run("copy", home, stores.empty())
                cost = found["processor"] + stores.server_seconds() - before
                copied.append((size.imported / found["seconds"], size.imported / cost))
    ours, theirs = rates
    print(
        f"| `sessions import` of {size.imported:,} messages, indexed | {ours:,.0f}/s "
        f"| {theirs:,.0f}/s | | {ours / theirs:.1f} x | |"
    )
    rate, of_processor = map(statistics.median, zip(*copied, strict=True))
    print(
        f"| COPY import of {size.imported:,} messages (`store copy`), before they are indexed "
        f"| {rate:,.0f}/s, {of_processor:,.0f} per second of processor time | | | | ≥ 20,000/s |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("append", "import", "prune"))
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
            three = contenders()
            plots = [appends(stores, size, three)] if arguments.only in (None, "append") else []
            if arguments.only in (None, "import"):
                bulk(stores, Path(scratch), size)
            if arguments.only in (None, "prune"):
                removals(stores, Path(scratch), size)
            print("\n".join(failures(three)))
            save(arguments.json, plots)
        finally:
            server.stop()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

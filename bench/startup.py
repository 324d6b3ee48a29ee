"""How long commands that do little take to start, as ratios to a bare interpreter.

All are measured in one run, taking turns, so that whatever else the machine does falls on all of
them alike. Of `--version` and `--help` the medians of the time are compared; of commands that work
on a home, the least processor time (user and system, children included), because they also wait for
the disk.

    .venv/bin/python bench/startup.py --runs 101
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from plotting import common_options, save
from wanted import ROWS

import holdfast
from holdfast.hooks import client

RUNS = 41
FEWEST_RUNS = 21
_SESSIONS = 50
_TEXT = """\
## Start

Whole processes, taking turns, medians of {runs} runs each.

{table}

Both are answered before click is loaded. The help page is kept in a file that `make docs` writes
and a test compares with the commands: a click group without commands and options, asked for its
help, takes more than four times as long as a bare interpreter.

Commands that work on a home, least processor time of {runs} runs each. The file at P changes before
every run.

{work}

Decision 0032 says what makes them quick.
"""


@dataclass
class Contender:
    """One command line, the most it may take as a multiple of the first, and its times."""

    name: str
    command: list[str]
    limit: float | None = None
    environment: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        return min(self.processor)


def contenders() -> list[Contender]:
    python = sys.executable
    holdfast = str(Path(python).parent / "holdfast")
    return [
        Contender("bare interpreter, `python -c pass`", [python, "-c", "pass"]),
        Contender("`holdfast --version`", [holdfast, "--version"], limit=3),
        Contender("`holdfast --help`", [holdfast, "--help"], limit=5),
    ]


@contextlib.contextmanager
def helper(runtime: Path) -> Iterator[None]:
    """A helper that answers, as the first hook of an agent starts one."""
    runtime.mkdir(mode=0o700)
    sockets = runtime / "holdfast"
    process = subprocess.Popen(
        [sys.executable, "-I", client.__file__, "helper", str(sockets)],
        env=os.environ | {"XDG_RUNTIME_DIR": str(runtime)},
    )
    try:
        while process.poll() is None and not list(sockets.glob("*.sock")):
            time.sleep(0.01)
        yield
    finally:
        process.kill()
        process.wait()


def workers(home: Path, project: Path, runtime: Path) -> list[Contender]:
    """A checkpoint of one known path, and a list of sessions on a pipe, in a home that has both."""
    made = holdfast.open(home, create=True)
    for number in range(_SESSIONS):
        made.sessions.create(source="cli", title=f"The session with the number {number}")
    made.close()
    (project / "known").write_text("0\n")
    bare, *_ = contenders()
    command = str(Path(sys.executable).parent / "holdfast")
    take = [command, "--home", str(home), "checkpoints", "take", str(project)]
    subprocess.run(take, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [
        bare,
        Contender(
            "`holdfast checkpoints take --path P`",
            [*take, "--path", str(project / "known")],
            limit=ROWS["take path"].figure,
            environment={"XDG_RUNTIME_DIR": str(runtime.parent)},
        ),
        Contender(
            "the same, with the helper of the hooks",
            [*take, "--path", str(project / "known")],
            limit=ROWS["take path helper"].figure,
            environment={"XDG_RUNTIME_DIR": str(runtime)},
        ),
        Contender(
            f"`holdfast sessions list`, {_SESSIONS} sessions",
            [command, "--home", str(home), "sessions", "list"],
            limit=ROWS["list start"].figure,
        ),
    ]


def measure(entries: list[Contender], runs: int, changing: Path | None = None) -> None:
    """Take turns, and let each go first equally often. The first round only warms the caches.
    `changing` is a file to write before every run."""
    content = itertools.count(1)
    for number in range(-1, runs):
        start = number % len(entries)
        for entry in entries[start:] + entries[:start]:
            if changing is not None:
                changing.write_text(f"{next(content)}\n")
            seconds, processor = _once(entry.command, entry.environment)
            if number >= 0:
                entry.seconds.append(seconds)
                entry.processor.append(processor)


def _once(command: list[str], more: dict[str, str]) -> tuple[float, float]:
    started, used = time.perf_counter(), _used()
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, stdout=quiet, stderr=quiet, env=os.environ | more)
    return time.perf_counter() - started, _used() - used


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def table(entries: list[Contender], what: str = "median") -> str:
    base = getattr(entries[0], what)
    lines = [f"| command | {what} | ratio | at most |", "|---|---:|---:|---:|"]
    for entry in entries:
        limit = "" if entry.limit is None else f"{entry.limit:g} x"
        time_taken = getattr(entry, what)
        ratio = f"{time_taken / base:.2f} x"
        lines.append(f"| {entry.name} | {time_taken * 1000:.1f} ms | {ratio} | {limit} |")
    return "\n".join(lines)


def _runs(text: str) -> int:
    runs = int(text)
    if runs < FEWEST_RUNS:
        raise argparse.ArgumentTypeError(f"at least {FEWEST_RUNS}: fewer say nothing")
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=_runs, default=RUNS, help=f"rounds [{RUNS}]")
    common_options(parser)
    arguments = parser.parse_args()
    runs: int = FEWEST_RUNS if arguments.quick else arguments.runs
    entries = contenders()
    measure(entries, runs)
    # A worker that keeps the store within its bounds may still be at work there.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        project.mkdir()
        runtime = Path(folder, "run")
        working = workers(home, project, runtime)
        with helper(runtime):
            measure(working, runs, changing=project / "known")
    print(_TEXT.format(runs=runs, table=table(entries), work=table(working, "least")))
    bare, take, helped, listing = working
    found = {
        "take path": take.least / bare.least,
        "take path helper": helped.least / bare.least,
        "list start": listing.least / bare.least,
        "list": listing.median,
    }
    save(arguments.json, (), found)


if __name__ == "__main__":
    main()

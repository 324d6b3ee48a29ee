"""How long `holdfast --version` and `--help` take, as ratios to a bare interpreter.

All are measured in one run, taking turns, so that whatever else the machine does falls on all of
them alike. The medians are compared.

    .venv/bin/python bench/startup.py --runs 101
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from plotting import common_options

RUNS = 41
FEWEST_RUNS = 21
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
_TEXT = """\
## Start

Whole processes, taking turns, medians of {runs} runs each.

{table}

Both are answered before click is loaded. The help page is kept in a file that `make docs` writes
and a test compares with the commands: a click group without commands and options, asked for its
help, takes more than four times as long as a bare interpreter.
"""


@dataclass
class Contender:
    """One command line, the most it may take as a multiple of the first, and its times."""

    name: str
    command: list[str]
    limit: float | None = None
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def contenders() -> list[Contender]:
    python = sys.executable
    holdfast = str(Path(python).parent / "holdfast")
    return [
        Contender("bare interpreter, `python -c pass`", [python, "-c", "pass"]),
        Contender("`holdfast --version`", [holdfast, "--version"], limit=3),
        Contender("`holdfast --help`", [holdfast, "--help"], limit=5),
    ]


def measure(entries: list[Contender], runs: int) -> None:
    """Take turns, and let each go first equally often. The first round only warms the caches."""
    for number in range(-1, runs):
        start = number % len(entries)
        for entry in entries[start:] + entries[:start]:
            seconds = _once(entry.command)
            if number >= 0:
                entry.seconds.append(seconds)


def _once(command: list[str]) -> float:
    # Where bytecode is forbidden every module is compiled on every run: nobody's everyday case.
    environment = {k: v for k, v in os.environ.items() if k != _NO_BYTECODE}
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - started


def table(entries: list[Contender]) -> str:
    base = entries[0].median
    lines = ["| command | median | ratio | at most |", "|---|---:|---:|---:|"]
    for entry in entries:
        limit = "" if entry.limit is None else f"{entry.limit:g} x"
        ratio = f"{entry.median / base:.2f} x"
        lines.append(f"| {entry.name} | {entry.median * 1000:.1f} ms | {ratio} | {limit} |")
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
    print(_TEXT.format(runs=runs, table=table(entries)))


if __name__ == "__main__":
    main()

"""Workers that compete on the same data, taking turns. One that fails has no figure: its cell says
so, a line below the table says why, and the others go on."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

WORKERS = Path(__file__).parent / "workers"


class FailedError(Exception):
    """A worker did not come to its end; says what it said last."""


class Contender:
    """One of those who are compared: its name, its interpreter, its worker."""

    def __init__(self, name: str, python: Path, script: str) -> None:
        self.name = name
        self._command = [str(python), str(WORKERS / script)]
        #: Why it has no figure, each reason once.
        self.failures: dict[str, None] = {}

    def run(self, *arguments: object) -> dict[str, float]:
        return self.together([arguments])[0]

    def together(self, work: Iterable[Sequence[object]]) -> list[dict[str, float]]:
        """A process for each piece of work, all at once. Waits for all of them, also if one
        fails: what it was at work on is about to be removed."""
        pipe = subprocess.PIPE
        started = [
            subprocess.Popen([*self._command, *map(str, each)], stdout=pipe, stderr=pipe, text=True)
            for each in work
        ]
        said = [process.communicate() for process in started]
        for process, (_, complaint) in zip(started, said, strict=True):
            if process.returncode:
                last = complaint.strip().rpartition("\n")[2]
                raise FailedError(last or f"exit code {process.returncode}")
        return [json.loads(out) for out, _ in said]


def medians(
    measure: Callable[[Contender], float], everyone: Sequence[Contender], rounds: int
) -> list[float | None]:
    """The median of each contender, taking turns; None for one that failed in every round."""
    values: dict[str, list[float]] = {each.name: [] for each in everyone}
    for number in range(rounds):
        for each in everyone if number % 2 else everyone[::-1]:
            try:
                values[each.name].append(measure(each))
            except FailedError as error:
                print(f"{each.name} failed: {error}", file=sys.stderr, flush=True)
                each.failures[str(error)] = None
    return [statistics.median(found) if found else None for found in values.values()]


def cell(value: float | None, form: str) -> str:
    """The figure, as `form` shows it."""
    return "failed" if value is None else form.format(value)


def ratio(value: float | None, other: float | None, digits: int = 1) -> str:
    """Of two figures; nothing where one of them failed."""
    return "" if value is None or other is None else f"{value / other:.{digits}f} x"


def failures(everyone: Iterable[Contender]) -> Iterator[str]:
    """A paragraph for each reason that somebody has no figure, or fewer rounds."""
    for each in everyone:
        for reason in each.failures:
            yield f"\n{each.name} failed: `{reason}`."

"""What Holdfast should reach, declared once: the work in a few words, the figure, and what was
found.

Each benchmark tells what it measured by the key of a row, the report shows all rows together. A row
that nobody measured says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """`most`: a limit from above. Otherwise it is the least that should be reached."""

    work: str
    figure: float
    most: bool
    unit: str = "x"

    def __str__(self) -> str:
        return f"{'≤' if self.most else '≥'} {self.figure:g} {self.unit}"

    def is_reached(self, measured: float) -> bool:
        return measured <= self.figure if self.most else measured >= self.figure

    def row(self, measured: float | None) -> str:
        if measured is None:
            return f"| {self.work} | not measured | {self} |  |"
        digits = 0 if measured >= 10 else 2
        reached = "yes" if self.is_reached(measured) else "**no**"
        return f"| {self.work} | {measured:.{digits}f} {self.unit} | {self} | {reached} |"


def _least(work: str, figure: float) -> Wanted:
    return Wanted(work=work, figure=figure, most=False)


def _most(work: str, figure: float, unit: str = "x") -> Wanted:
    return Wanted(work=work, figure=figure, most=True, unit=unit)


#: By key, in the order in which they are shown.
ROWS: Mapping[str, Wanted] = {
    "prune": _least("prune 5,000 x 20 with files, space given back, to Hermes", 60),
    "undo": _most("undo of 5,000 sessions, to the prune", 1.5),
    "archive": _most("archive a session", 2, "ms"),
    "restore": _most("restore a session from the archive", 2, "ms"),
    "writer": _most("longest wait of a writer beside a prune of 150,000", 0.1, "s"),
    "hermes prune": _least("Hermes home, 5,000 go and 1,000 stay, undo kept, to Hermes", 8),
    "hermes undo": _most("undo of 5,000 sessions in a Hermes home, to the prune", 2),
    "append 1": _least("append, 1 process, to Hermes", 5),
    "append 2": _least("append, 2 processes, to Hermes", 5),
    "append 4": _least("append, 4 processes, to Hermes", 5),
    "append 8": _least("append, 8 processes, to Hermes", 4),
    "guarded turn": _most("guarded turn, to an unguarded one", 1.6),
    "search": _most("search, 5 queries, to Hermes", 0.3),
    "rare part": _most("search for a rare part of a word in 10⁶ messages", 100, "ms"),
    "list": _most("`sessions list`, whole process", 0.09, "s"),
    "list start": _most("the same, to a bare interpreter", 8),
    "take path": _most("`checkpoints take --path`, whole process, to a bare interpreter", 5),
    "take path helper": _most("the same with the helper", 2),
    "take process": _least("`checkpoints take`, 10,000 files, whole process, to Hermes", 10),
    "take": _least("a checkpoint in process, 1 file of 10,000 changed, to Hermes", 15),
    "take git": _most("the same, to a warm `git add -A`", 1.5),
    "take known": _least("its path known, to Hermes", 100),
    "take 200k": _most("take, 1 of 200,000 changed, to `git add -A`", 0.5),
    "first git": _most("first checkpoint, 10,000 files, to `git add -A`", 0.6),
    "first restic": _most("the same, to restic", 1.2),
    "first 200k": _most("first checkpoint, 200,000 files, to restic", 1),
    "first 200k memory": _most("its memory", 200, "MB"),
    "later": _most("the 21st and later checkpoint to the 2nd to 20th: median", 1),
    "later mean": _most("the 21st and later checkpoint to the 2nd to 20th: mean", 1),
    "restore some": _most("restore of 20 changed files, 10,000 files, to `git read-tree -u`", 1.2),
    "restore all": _most("restore into an empty directory, 10,000 files, durable, to git", 2),
    "restore all durable": _most("the same, to git and `sync`", 1),
    "disk": _most("disk, checkpoints of all worktrees, to one packed git", 1.2),
    "overview": _most("the library, 1,000 projects, 50,000 sessions", 1, "s"),
    "checkpoints status": _most("`checkpoints status`, the same home", 1, "s"),
    "checkpoints status memory": _most("its memory", 200, "MB"),
    "status": _most("`status`, the same home", 1, "s"),
    "status memory": _most("its memory", 200, "MB"),
}

Found = Mapping[str, float]


def table(found: Found) -> Iterator[str]:
    """All rows, measured or not."""
    yield "| work | measured | wanted | reached |"
    yield "|---|---:|---:|---|"
    for key, wanted in ROWS.items():
        yield wanted.row(found.get(key))


def keep(beside: Path | None, found: Found) -> None:
    """Beside what is to be drawn; without a path nobody asked for it."""
    if unknown := found.keys() - ROWS:
        raise KeyError(f"not declared in bench/wanted.py: {sorted(unknown)}")
    if beside is not None:
        _file(beside).write_text(json.dumps(dict(found), indent=1) + "\n")


def load(beside: Path) -> Found:
    file = _file(beside)
    found: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    return found


def _file(beside: Path) -> Path:
    return beside.with_suffix(".found")

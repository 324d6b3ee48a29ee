"""Source trees for benchmarks: the same on every run, with the file sizes of real projects.

About 20 files in a folder, a median file of 2.5 kB, text that compresses as code does. Standard
library only.
"""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

_IN_FOLDER = 20
_MEDIAN_BYTES = 2_500
_SPREAD = 1.0
_LINES = 6_000
_NAMES = ("parse", "store", "index", "route", "frame", "queue", "token", "cache", "merge", "guard")
_SHAPES = (
    "def {a}_{b}(self, {c}: int) -> {D}:",
    "    if self.{a} is None or not {b}.{c}({n}):",
    "        raise {D}Error(f'{a} {n}: {{{b}}}')",
    "    return [{a} for {a} in {b}_{c} if {a}.{b} > {n}]",
    "    self._{a} = {D}({b}={n}, {c}='{c}-{n}')",
    "from {a}.{b}{n} import {D}, {c}_{a}",
    "    # The {a} of a {b} is known before its {c}: see {n}.",
    "",
)


class Tree:
    """A folder with `count` files. Trees of another `seed` are edited in other places."""

    def __init__(self, root: Path, count: int, seed: int = 0) -> None:
        self.root = root
        self._seed = seed
        self.paths = [_path(number) for number in range(count)]
        self._lines = _pool()
        self._chance = random.Random(seed)
        self._edits = itertools.count()

    def build(self) -> None:
        """Write all files; the folder must be new."""
        weights = list(itertools.accumulate(1 / rank for rank in range(10, len(self._lines) + 10)))
        average = sum(map(len, self._lines)) / len(self._lines) + 1
        for number, path in enumerate(self.paths):
            size = self._chance.lognormvariate(0, _SPREAD) * _MEDIAN_BYTES
            drawn = self._chance.choices(
                self._lines, cum_weights=weights, k=max(1, int(size / average))
            )
            file = self.root / path
            if number % _IN_FOLDER == 0:
                file.parent.mkdir(parents=True)
            file.write_text("\n".join([f"# {path}", *drawn, ""]), encoding="utf-8")

    def edit(self) -> str:
        """Change a line of one file, as an agent does; says which file."""
        return self.edit_some(1)[0]

    def edit_some(self, count: int) -> list[str]:
        """Change a line in each of `count` files, or of all of them if there are no more."""
        paths = self._chance.sample(self.paths, min(count, len(self.paths)))
        for path in paths:
            self._edit(self.root / path)
        return paths

    def _edit(self, file: Path) -> None:
        lines = file.read_text(encoding="utf-8").split("\n")
        lines[len(lines) // 2] = f"    changed = {self._seed}, {next(self._edits)}"
        file.write_text("\n".join(lines), encoding="utf-8")

    def copy(self, root: Path, seed: int) -> Tree:
        """The same files elsewhere, as a second worktree has them."""
        shutil.copytree(self.root, root)
        return Tree(root, len(self.paths), seed)

    def empty(self, aside: Path) -> None:
        """Move everything below the root into another folder, a new one. Deleting it would make
        whoever creates the files again pay for it: ext4 is twenty times as slow soon after."""
        aside.mkdir()
        for child in self.root.iterdir():
            child.rename(aside / child.name)


def _path(number: int) -> str:
    folder = number // _IN_FOLDER
    name = _NAMES[number % len(_NAMES)]
    area = folder // (_IN_FOLDER * _IN_FOLDER)
    package = folder // _IN_FOLDER % _IN_FOLDER
    return f"area{area}/package{package}/part{folder % _IN_FOLDER}/{name}_{number}.py"


def _pool() -> list[str]:
    """Lines as code has them; files are drawn from these, the first ones most often."""
    chance = random.Random(0)
    names = [f"{a}{b}" for a in _NAMES for b in ("", "r", "s", "d", "_at", "_of")]
    lines = []
    for _ in range(_LINES):
        a, b, c, d = chance.sample(names, 4)
        shape = chance.choice(_SHAPES)
        lines.append(shape.format(a=a, b=b, c=c, D=d.title(), n=chance.randrange(10_000)))
    return lines

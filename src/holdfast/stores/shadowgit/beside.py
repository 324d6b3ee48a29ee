"""What git's trees cannot hold: whole permissions, and directories without captured files."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import DamageError
from holdfast.model.checkpoint import Entry
from holdfast.stores.shadowgit.trees import LINK, PROGRAM, Node

_FORMAT = 1
_LINK_MODE = stat.S_IFLNK | 0o777


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """The permissions that most things of a project have; only others are listed one by one.

    They depend on the umask of whoever made the project, and stay what they were at first.
    """

    file: int = 0o644
    program: int = 0o755
    directory: int = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """The record beside a tree. Paths are bytes."""

    usual: Usual = Usual()
    modes: Mapping[bytes, int] = field(default_factory=dict)
    empty: frozenset[bytes] = frozenset()

    def entry(self, path: bytes, node: Node) -> Entry:
        """A file or symlink with its whole mode."""
        mode, oid = node
        if mode == LINK:
            return Entry(mode=_LINK_MODE, oid=oid.hex())
        usual = self.usual.program if mode == PROGRAM else self.usual.file
        return Entry(mode=stat.S_IFREG | self.modes.get(path, usual), oid=oid.hex())

    def directory(self, path: bytes) -> Entry:
        return Entry(mode=stat.S_IFDIR | self.modes.get(path, self.usual.directory))


def path_text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def path_bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def dumped(beside: Beside) -> bytes:
    """The same record is always the same bytes, so that equal trees have equal ids."""
    usual = beside.usual
    data = {
        "format": _FORMAT,
        "usual": [f"{mode:04o}" for mode in (usual.file, usual.program, usual.directory)],
        "modes": {path_text(path): f"{mode:04o}" for path, mode in sorted(beside.modes.items())},
        "empty": [path_text(path) for path in sorted(beside.empty)],
    }
    return json.dumps(data, indent=0).encode("ascii")


def loaded(raw: bytes) -> Beside:
    try:
        data: dict[str, Any] = json.loads(raw)
        file, program, directory = (int(mode, 8) for mode in data["usual"])
        return Beside(
            usual=Usual(file=file, program=program, directory=directory),
            modes={path_bytes(path): int(mode, 8) for path, mode in data["modes"].items()},
            empty=frozenset(path_bytes(path) for path in data["empty"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamageError(
            "The record of modes beside a checkpoint is damaged.",
            hint="Run `holdfast checkpoints verify` to see which checkpoints are.",
        ) from error


def most_usual(files: Iterable[int], directories: Iterable[int]) -> Usual:
    """The most frequent permissions of files, of programs and of directories."""
    counts: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    for mode in files:
        counts[is_program(mode)][mode] += 1
    standard = Usual()
    return Usual(
        file=_most(counts[False], standard.file),
        program=_most(counts[True], standard.program),
        directory=_most(Counter(directories), standard.directory),
    )


def is_program(mode: int) -> bool:
    """git's one bit: whether the owner may run it."""
    return bool(mode & stat.S_IXUSR)


def _most(counts: Counter[int], standard: int) -> int:
    if not counts:
        return standard
    # Of equally frequent ones the smallest, so that the answer does not depend on the order.
    return min(counts, key=lambda mode: (-counts[mode], mode))

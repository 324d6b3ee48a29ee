"""Modes and empty directories: what git does not store, recorded next to the tree."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterable, Mapping

from holdfast.errors import DamageError
from holdfast.model.checkpoint import Entry
from holdfast.stores.git.trees import (
    LINK,
    PROGRAM,
    Node,
    is_program,
    path_bytes,
    path_text,
)
from holdfast.value import dataclass, field

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Any

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """The most frequent permissions of a project; a record lists only the exceptions.

    They follow from the umask of the project's owner and stay as the first checkpoint saw them.
    """

    file: int = 0o644
    program: int = 0o755
    directory: int = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRecord:
    """What git cannot store: permissions and empty directories. Paths are bytes."""

    usual: Usual = Usual()
    modes: Mapping[bytes, int] = field(default_factory=dict)
    empty: frozenset[bytes] = frozenset()

    def entry(self, path: bytes, node: Node) -> Entry:
        """Return the entry of a file or symlink, with its full mode."""
        mode, oid = node
        if mode == LINK:
            return Entry(mode=_LINK_MODE, oid=oid.hex())
        usual = self.usual.program if mode == PROGRAM else self.usual.file
        return Entry(mode=stat.S_IFREG | self.modes.get(path, usual), oid=oid.hex())

    def directory(self, path: bytes) -> Entry:
        return Entry(mode=stat.S_IFDIR | self.modes.get(path, self.usual.directory))


def dump_record(record: ModeRecord) -> bytes:
    """Serialize a record. Equal records produce equal bytes, so that equal trees have equal ids."""
    usual = record.usual
    data = {
        "format": _FORMAT,
        "usual": [f"{mode:04o}" for mode in (usual.file, usual.program, usual.directory)],
        "modes": {path_text(path): f"{mode:04o}" for path, mode in sorted(record.modes.items())},
        "empty": [path_text(path) for path in sorted(record.empty)],
    }
    return json.dumps(data, indent=0).encode("ascii")


def load_record(raw: bytes) -> ModeRecord:
    try:
        data: dict[str, Any] = json.loads(raw)
        file, program, directory = (int(mode, 8) for mode in data["usual"])
        return ModeRecord(
            usual=Usual(file=file, program=program, directory=directory),
            modes={path_bytes(path): int(mode, 8) for path, mode in data["modes"].items()},
            empty=frozenset(path_bytes(path) for path in data["empty"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamageError(
            "The record of permissions of a checkpoint is damaged.",
            hint="Run `holdfast checkpoints verify` to see which checkpoints are damaged.",
        ) from error


def most_usual(files: Iterable[int], directories: Iterable[int]) -> Usual:
    """Return the most frequent permissions of files, programs and directories."""
    counts: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    for mode in files:
        counts[is_program(mode)][mode] += 1
    standard = Usual()
    return Usual(
        file=_most(counts[False], standard.file),
        program=_most(counts[True], standard.program),
        directory=_most(Counter(directories), standard.directory),
    )


def _most(counts: Counter[int], standard: int) -> int:
    if not counts:
        return standard
    # Ties go to the smallest mode, so that the order does not matter.
    return min(counts, key=lambda mode: (-counts[mode], mode))


_LINK_MODE = stat.S_IFLNK | 0o777

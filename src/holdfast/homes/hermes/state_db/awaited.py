"""Children and parents of which only one is in the store, noted until the other comes back.

Hermes's rows have no place for a parent that is not there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors

NAME = "awaited-parents.json"


class AwaitedParents:
    """The notes of one home; whoever changes them has the home's lock."""

    def __init__(self, state: Path) -> None:
        self._path = state / NAME

    def add(self, parents: Mapping[str, str]) -> None:
        """Note parents by child."""
        known = self._read()
        if parents.items() <= known.items():
            return
        with storage_errors(f"write {self._path}"):
            make_private_dir(self._path.parent)
            replace(self._path, json.dumps({**known, **parents}).encode())

    def among(self, names: Collection[str]) -> Mapping[str, str]:
        """The notes in which one of these is the child or the parent."""
        return {
            child: parent
            for child, parent in self._read().items()
            if child in names or parent in names
        }

    def _read(self) -> dict[str, str]:
        """What cannot be read says nothing: a child then stays without its parent."""
        try:
            notes = json.loads(read_file(self._path))
        except (OSError, ValueError):
            return {}
        return {str(c): str(p) for c, p in notes.items()} if isinstance(notes, dict) else {}

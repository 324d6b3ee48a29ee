"""Sessions that the user pinned in the home of an agent without pins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.errors import StorageError
from holdfast.stores import files


class Pins:
    """The pins of one home. Not a cache: they cannot be recreated."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> frozenset[str]:
        return frozenset(self._stored())

    def set(self, session_id: str, pinned: bool) -> frozenset[str]:
        ids = {*self._stored(), session_id} if pinned else {*self._stored()} - {session_id}
        files.make_private_dir(self._path.parent)
        files.replace(self._path, json.dumps(sorted(ids)).encode("ascii"))
        return frozenset(ids)

    def _stored(self) -> list[str]:
        try:
            said: Any = json.loads(files.read_file(self._path))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise StorageError(
                f"Cannot read {self._path}, so nothing may be removed here: {error}",
                hint="Fix the file, or delete it and pin the sessions again.",
            ) from error
        if not isinstance(said, list):
            raise StorageError(f"{self._path} is damaged: it is not a list of sessions.")
        return [str(each) for each in said]

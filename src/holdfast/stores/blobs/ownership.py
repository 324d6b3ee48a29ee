"""Whose an archive folder is, and whether it should be there.

    <state>/archive-folders.json    the home's own id, and the folders that it has archived to
    <folder>/owner.json             the id and the place of the home that the folder belongs to

Only for folders that somebody chose: they may lie on a disk that is not mounted, and two homes may
name the same one. A home that remembers a folder does not make it again, since an empty folder in
the place of a disk would hide what is archived there.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.errors import StorageError
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors, sync_dir

MEMORY = "archive-folders.json"
OWNER = "owner.json"
_MISSING = "Is its disk mounted? Then check `folder` of [archive] in config.toml."
_NOT_OURS = "Check its permissions and its disk, or set another `folder` of [archive]."
_ARCHIVED = b'"action":"archive"'
_DONE = b'"result":"removed"'


class Ownership:
    """One home and the folder that its configuration names."""

    def __init__(
        self, state: Path, folder: Path, *, usual: Path, is_archive: Callable[[str], bool]
    ) -> None:
        """`usual` is the folder of a home whose configuration names none. `is_archive` recognises
        the names of files that only an archive has."""
        self._state = state
        self._folder = folder
        self._usual = usual
        self._is_archive = is_archive

    def check(self) -> bool:
        """Whether the folder is there. Raises when it should be and is not, or is another's."""
        if not self._folder.is_dir():
            if self._is_remembered():
                raise StorageError(
                    f"The archive folder {self._folder} does not exist.", hint=_MISSING
                )
            return False
        owner = _read(self._folder / OWNER)
        if owner is None:
            if self._is_remembered() and not self._has_archive(self._folder):
                raise StorageError(
                    f"The archive folder {self._folder} is empty, and this home archived there.",
                    hint=_MISSING,
                )
            return True
        if not self._is_mine(owner):
            raise StorageError(
                f"The archive folder {self._folder} belongs to another home: {owner.get('home')}.",
                hint="Give each home a folder of its own: `folder` of [archive] in config.toml.",
            )
        return True

    def check_usable(self) -> bool:
        """`check`, and raise as well when the folder is new and could not be made, or is there and
        takes no files."""
        is_there = self.check()
        parent = self._folder.parent
        if not is_there and not parent.is_dir():
            why = "is no folder" if os.path.lexists(parent) else "does not exist"
            raise StorageError(
                f"The archive folder {self._folder} cannot be made: {parent} {why}.", hint=_MISSING
            )
        if not os.access(self._folder if is_there else parent, os.W_OK | os.X_OK):
            what = "cannot be written to" if is_there else f"cannot be made: {parent} is read-only"
            raise StorageError(f"The archive folder {self._folder} {what}.", hint=_NOT_OURS)
        return is_there

    def make(self) -> None:
        """Make the folder if it is new, and say in it whose it is."""
        if not self.check_usable():
            with storage_errors(f"create the archive folder {self._folder}"):
                make_private_dir(self._folder)
        memory = self._memory()
        mine = {"home": str(self._state), "id": memory["id"]}
        if _read(self._folder / OWNER) == mine and str(self._folder) in memory["folders"]:
            return
        with storage_errors(f"write to the archive folder {self._folder}"):
            # The memory last: a folder that was never claimed may be made again.
            replace(self._folder / OWNER, json.dumps(mine).encode())
            sync_dir(self._folder)
            folders = sorted({*memory["folders"], str(self._folder)})
            make_private_dir(self._state)
            replace(
                self._state / MEMORY,
                json.dumps({"id": memory["id"], "folders": folders}).encode(),
            )

    def _memory(self) -> dict[str, Any]:
        known = _read(self._state / MEMORY) or {}
        folders = known.get("folders")
        return {
            "id": str(known.get("id") or secrets.token_hex(16)),
            "folders": [str(each) for each in folders] if isinstance(folders, list) else [],
        }

    def _is_remembered(self) -> bool:
        """By its own note. A home that has none may have archived here with an earlier version:
        when its log tells of archived sessions, and they are not in the folder that is usual."""
        if _read(self._state / MEMORY) is not None:
            return str(self._folder) in self._memory()["folders"]
        if self._has_archive(self._usual):
            return False
        journals = (self._state / "operations").glob("*.jsonl")
        # An intent alone is no archived session: a first try that failed must not bar the next.
        return any(_ARCHIVED in said and _DONE in said for said in map(read_file, journals))

    def _has_archive(self, folder: Path) -> bool:
        found = folder.iterdir() if folder.is_dir() else ()
        return any(self._is_archive(path.name) for path in found)

    def _is_mine(self, owner: dict[str, Any]) -> bool:
        """A home that was moved keeps its id; of one that was copied, the original has the folder.
        A kill may have come between the two files: then the place alone tells."""
        place = Path(str(owner.get("home")))
        if place == self._state:
            return True
        if owner.get("id") != self._memory()["id"]:
            return False
        other = _read(place / MEMORY)
        return other is None or other.get("id") != owner.get("id")


def _read(path: Path) -> dict[str, Any] | None:
    """What cannot be read says nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            value = json.loads(file.read(64 * 1024))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None

"""The owner of an archive folder, and whether the folder should exist.

    <state>/archive-folders.json    the home's own id, and the folders that it has archived to
    <folder>/owner.json             the id and the path of the home that owns the folder

Only for folders that a configuration names: such a folder may be on a disk that is not mounted, and
two homes may name the same one. A home that has used a folder does not create it again: an empty
folder in place of the mount would hide what is archived there.
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
        """`usual` is the archive folder of a home whose configuration names none. `is_archive`
        recognizes the names of files that only an archive has."""
        self._state = state
        self._folder = folder
        self._usual = usual
        self._is_archive = is_archive

    def check(self) -> bool:
        """True if the folder exists. Raises if it should and does not, or if it is another
        home's."""
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
                    f"The archive folder {self._folder} is empty, but this home used it before.",
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
        """Like `check`, but also raise if the folder is new and cannot be created, or exists and
        cannot be written to."""
        is_there = self.check()
        parent = self._folder.parent
        if not is_there and not parent.is_dir():
            why = "is not a folder" if os.path.lexists(parent) else "does not exist"
            raise StorageError(
                f"The archive folder {self._folder} cannot be made: {parent} {why}.", hint=_MISSING
            )
        if not os.access(self._folder if is_there else parent, os.W_OK | os.X_OK):
            what = "cannot be written to" if is_there else f"cannot be made: {parent} is read-only"
            raise StorageError(f"The archive folder {self._folder} {what}.", hint=_NOT_OURS)
        return is_there

    def make(self) -> None:
        """Create the folder if it is new, and record its owner in it."""
        if not self.check_usable():
            with storage_errors(f"create the archive folder {self._folder}"):
                make_private_dir(self._folder)
        memory = self._memory()
        mine = {"home": str(self._state), "id": memory["id"]}
        if _read(self._folder / OWNER) == mine and str(self._folder) in memory["folders"]:
            return
        with storage_errors(f"write to the archive folder {self._folder}"):
            # The home's own record last: a folder that was never claimed may be created again.
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
        """True if the home used the folder, by the home's own record. Without a record, an earlier
        version may have archived here: then the log has archived sessions, and the usual folder
        does not."""
        if _read(self._state / MEMORY) is not None:
            return str(self._folder) in self._memory()["folders"]
        if self._has_archive(self._usual):
            return False
        journals = (self._state / "operations").glob("*.jsonl")
        # An intent alone is no archived session: a failed first attempt must not block the next.
        return any(_ARCHIVED in said and _DONE in said for said in map(read_file, journals))

    def _has_archive(self, folder: Path) -> bool:
        found = folder.iterdir() if folder.is_dir() else ()
        return any(self._is_archive(path.name) for path in found)

    def _is_mine(self, owner: dict[str, Any]) -> bool:
        """True if an owner record is this home's. A home that was moved keeps its id. If a home was
        copied, the original owns the folder. After a kill between the two writes, only the path
        decides."""
        place = Path(str(owner.get("home")))
        if place == self._state:
            return True
        if owner.get("id") != self._memory()["id"]:
            return False
        other = _read(place / MEMORY)
        return other is None or other.get("id") != owner.get("id")


def _read(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if the file cannot be read."""
    try:
        value = json.loads(read_file(path, 64 * 1024))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None

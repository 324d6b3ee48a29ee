"""Checksums of what the vault holds alone."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.homes.vault_names import ABOUT, Entry
from holdfast.parts.trees import below, is_folder
from holdfast.parts.unit_record import RECORD
from holdfast.stores.files import open_file

_CHUNK = 1024 * 1024
#: What of a folder in the vault is ours, and no part of the session.
OURS = (ABOUT, RECORD, "tree.json")


def sums_of(entry: Entry) -> Mapping[str, str]:
    """The checksums of the files of a session, by their place in its folder."""
    found = {}
    for path in sorted(below(entry.folder)):
        if is_folder(path) or path.is_symlink() or path.name in OURS:
            continue
        if stat.S_ISREG(path.lstat().st_mode):
            found[str(path.relative_to(entry.folder))] = _sum(path)
    return found


def check_sums(entry: Entry) -> None:
    """Raise `DamageError` unless the files of a session are what they were when it was sealed. One
    that has another name again is on its way back to its agent, which may write to it."""
    for name, sha256 in entry.sums.items():
        path = entry.folder / name
        try:
            same = path.lstat().st_nlink > 1 or _sum(path) == sha256
        except FileNotFoundError:
            same = False
        if not same:
            raise DamageError(f"{path} is not what its agent left: it was changed since")


def _sum(path: Path) -> str:
    digest = hashlib.sha256()
    with open_file(path) as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()

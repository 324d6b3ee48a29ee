"""Second names for the files of a tree, or copies where a second name would not help."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.parts.trees import clone
from holdfast.stores.files import link_new, make_private_dir

#: Documents that can only be written again as a whole, perhaps in place: a second name would change
#: with them. Everything else is appended to, or written once.
_REWRITTEN = (".json", ".yaml", ".yml", ".toml", ".md", ".db", ".sqlite", ".sqlite3", "-wal")


#: What an agent has while it works, and what would mislead it if it came back.
_PASSING = (".lock", ".tmp", ".pid")


def name_again(source: Path, target: Path, *, alone: bool = False) -> None:
    """Give everything below `source` a second name below `target`, which does not exist yet. What
    cannot have one, or should not, is copied and compared; a link is copied as the link that it is.
    With `alone`, so is a file that has another name: somebody may write to it."""
    status = source.lstat()
    if stat.S_ISDIR(status.st_mode):
        make_private_dir(target)
        with os.scandir(source) as entries:
            inner = sorted(each.name for each in entries)
        for each in inner:
            name_again(source / each, target / each, alone=alone)
        shutil.copystat(source, target, follow_symlinks=False)
        return
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        raise StorageError(f"{source} is neither a file nor a folder; it cannot be kept.")
    is_appended = not stat.S_ISLNK(status.st_mode) and not is_document(source)
    is_shared = alone and status.st_nlink > 1
    if is_shared or not is_appended or not _linked(source, target):
        clone(source, target)


def is_document(path: Path) -> bool:
    return path.name.endswith(_REWRITTEN)


def is_passing(path: Path) -> bool:
    return path.name.endswith(_PASSING)


def _linked(source: Path, target: Path) -> bool:
    """False where a second name is impossible: on another file system, on one without hard links,
    for a file with too many of them, or for one of another user that the system protects."""
    try:
        return link_new(source, target)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.EACCES):
            return False
        raise

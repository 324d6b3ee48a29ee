"""SQLite databases in a project: a database and its side files are restored together, or stay.

What was written last may be in `NAME-wal` or `NAME-journal` alone, and SQLite plays these into
whatever database it finds beside them. So an older database with a newer log, or the reverse, is
damaged. And a program that has the database open goes on writing to the files that it opened, even
if a restore has put others in their places.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from holdfast.model.checkpoint import Change, Entry
from holdfast.stores.checkpoints.restore_plan import Steps
from holdfast.stores.checkpoints.working_tree import WorkingTree
from holdfast.stores.files import SQLITE_MAGIC
from holdfast.stores.git.trees import path_bytes, path_text

IN_USE = "an SQLite database that a program may have open: "
APART = "an SQLite database: its files can only be restored together"

#: What SQLite has to have in step with the database.
_LOGS = ("-wal", "-journal")
#: The index of a log is made again by whoever opens the database next.
_INDEX = "-shm"
_SIDES = (*_LOGS, _INDEX)
_USUAL = (".db", ".db3", ".sqlite", ".sqlite3")

#: What the target has at a path, and the first bytes of its content.
Then = Callable[[str], Entry | None]
Head = Callable[[Entry], bytes]


def kept_whole(todo: Steps, tree: WorkingTree, then: Then, head: Head) -> dict[str, str]:
    """Return the paths that have to stay, with reasons: files of databases that are in use, or of
    which the steps would replace only a part."""
    changes = {each.path: each for each in (*todo.unlinked, *todo.written)}
    kept: dict[str, str] = {}
    for database in _databases(changes, tree):
        entry = then(database)
        if not (_is_database(tree, database) or (entry is not None and _is_sqlite(head(entry)))):
            continue
        files = [database, *(database + side for side in _SIDES)]
        ours = [path for path in files if path in changes]
        if all(_is_done(tree, changes[path]) for path in ours):
            continue
        why = _opened(tree, files) or _torn(changes, tree, then, database)
        if why is not None:
            kept |= dict.fromkeys(ours, why)
    return kept


def _databases(changes: Mapping[str, Change], tree: WorkingTree) -> Iterator[str]:
    """Yield the paths that may be databases: those with side files, here or in the steps, and
    those with a usual name, which a program may have open without side files."""
    beside: dict[str, frozenset[str]] = {}
    found = set()
    for path in changes:
        side = next((each for each in _SIDES if path.endswith(each)), None)
        if side is not None:
            found.add(path.removesuffix(side))
            continue
        folder, _, name = path.rpartition("/")
        if folder not in beside:
            beside[folder] = _sides_in(tree, folder)
        if name in beside[folder] or path.endswith(_USUAL):
            found.add(path)
    yield from sorted(found)


def _sides_in(tree: WorkingTree, folder: str) -> frozenset[str]:
    """Return the names in a directory that have side files there."""
    if not tree.is_there(path_bytes(folder)):
        return frozenset()
    names: list[str] = []
    with contextlib.suppress(OSError):  # it has no file that a step could change
        names = list(map(path_text, tree.names(path_bytes(folder))))
    return frozenset(
        name.removesuffix(side) for name in names for side in _SIDES if name.endswith(side)
    )


def _is_database(tree: WorkingTree, path: str) -> bool:
    with contextlib.suppress(OSError):
        return _is_sqlite(tree.head(path_bytes(path), len(SQLITE_MAGIC)))
    return False


def _is_sqlite(head: bytes) -> bool:
    return head[: len(SQLITE_MAGIC)] == SQLITE_MAGIC


def _is_done(tree: WorkingTree, change: Change) -> bool:
    """True if a path is as the step would leave it."""
    try:
        seen = tree.look(path_bytes(change.path))
    except OSError:
        return False
    return change.new is None if seen is None else seen.is_like(change.new)


def _opened(tree: WorkingTree, files: list[str]) -> str | None:
    for path in files:
        if why := tree.in_use(path_bytes(path)):
            return IN_USE + why
    return None


def _torn(
    changes: Mapping[str, Change], tree: WorkingTree, then: Then, database: str
) -> str | None:
    """Return why the files would not fit together after these steps; None if they would be those of
    the target."""
    for path in (database, *(database + log for log in _LOGS)):
        change, wanted = changes.get(path), then(path)
        try:
            # A file that the target lacks, and no step removes, stays: no need to read it.
            unread = change is None and wanted is None
            seen = tree.look(path_bytes(path), size=-1 if unread else None)
        except OSError:
            return APART
        if change is None:
            fits = wanted is None if seen is None else wanted is not None and seen.oid == wanted.oid
        else:
            fits = seen is None or seen.is_like(change.old) or seen.is_like(change.new)
        if not fits:
            return APART
    return None

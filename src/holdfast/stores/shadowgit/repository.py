"""The bare repository on disk: where things lie, how it is made, opened and locked."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import SchemaError, StorageError
from holdfast.stores import lock
from holdfast.stores.files import (
    PRIVATE_DIR,
    PRIVATE_FILE,
    make_private_dir,
    read_file,
    replace,
    storage_errors,
)
from holdfast.stores.shadowgit.excludes import excludes_text
from holdfast.stores.shadowgit.git import EXCLUDES, Git
from holdfast.stores.shadowgit.objects import Objects

FORMAT = 1
REFS = "refs/holdfast/"
TRASH_REFS = "refs/holdfast-trash/"

# It outranks every .gitattributes, so that bytes stay bytes.
_ATTRIBUTES = b"* -text !eol -ident !filter !working-tree-encoding\n"
_PROJECT_DIGITS = 16
_WORKTREE_FILES = ("HEAD", "commondir", "gitdir", "locked")
_WAIT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the parts of a checkpoint folder lie."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def packs(self) -> Path:
        return self.store / "objects" / "pack"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"

    @property
    def projects(self) -> Path:
        return self.folder / "projects"

    def private(self, project: str) -> Path:
        """The folder of a project's private index: a place where git looks for gc roots."""
        return self.store / "worktrees" / project

    def git(self) -> Git:
        return Git(store=self.store)

    def exists(self) -> bool:
        return (self.store / "format").exists()


def project_of(workdir: Path) -> str:
    """The id of the project that a resolved working directory is."""
    return hashlib.sha256(os.fsencode(workdir)).hexdigest()[:_PROJECT_DIGITS]


def prepare(layout: Layout, rules: Sequence[str] = ()) -> None:
    """Make the store if there is none, and see to its excludes; safe to repeat after a kill."""
    if not layout.exists():
        with storage_errors(f"make the checkpoint store {layout.store}"):
            make_private_dir(layout.folder)
        with alone(layout, holder="checkpoints"):
            if not layout.exists():
                _make(layout)
    check(layout)
    text = excludes_text(tuple(rules)).encode("utf-8", "surrogateescape")
    excludes = layout.store / EXCLUDES
    with storage_errors(f"write {excludes}"):
        if not excludes.exists() or read_file(excludes) != text:
            replace(excludes, text)


def _make(layout: Layout) -> None:
    with storage_errors(f"make the checkpoint store {layout.store}"):
        layout.store.mkdir(mode=PRIVATE_DIR, exist_ok=True)
        layout.git().run("init", "--quiet", "--bare", "--template=", str(layout.store))
        for folder in (layout.store / "info", layout.store / "worktrees", layout.projects):
            folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
        replace(layout.store / "info" / "attributes", _ATTRIBUTES)
        # Last: a store without it is one that was never finished.
        replace(layout.store / "format", f"{FORMAT}\n".encode())


def check(layout: Layout) -> None:
    """Raise when the store is another user's, of a newer version, or cannot be read."""
    with storage_errors(f"open the checkpoint store {layout.store}"):
        owner = layout.store.stat().st_uid
        text = read_file(layout.store / "format").decode("ascii", "replace").strip()
    if owner != os.geteuid():
        raise StorageError(
            f"The checkpoint store {layout.store} belongs to user {owner}, not to you.",
            hint="Run this as its owner: files of two owners would lock each other out.",
        )
    if text != str(FORMAT):
        raise SchemaError(
            f"The checkpoint store {layout.store} has format {text!r}; this version of Holdfast"
            f" knows {FORMAT}. Nothing was changed.",
            hint="Update Holdfast.",
        )


def opened(layout: Layout) -> Objects:
    """The objects of the store, in process."""
    check(layout)
    return Objects(layout.store / "objects")


def used(layout: Layout) -> AbstractContextManager[None]:
    """Share the store: to take, list, restore. Nobody removes objects meanwhile."""
    return lock.shared(layout.lock, wait=_WAIT, doing="reclaiming space of", place=layout.folder)


def alone(layout: Layout, *, holder: str, wait: float = _WAIT) -> AbstractContextManager[None]:
    """Have the store to oneself: to remove objects. Bound the time: everybody else waits."""
    return lock.exclusive(
        layout.lock, holder=holder, wait=wait, doing="using", place=layout.folder, queue=True
    )


@contextlib.contextmanager
def project_lock(layout: Layout, project: str, workdir: str) -> Iterator[None]:
    """One process at a time has a project's private index and record."""
    check(layout)
    folder = layout.private(project)
    with storage_errors(f"make {folder}"):
        _make_private_index_folder(folder, workdir)
    with lock.exclusive(
        folder / "lock",
        holder="checkpoints",
        wait=_WAIT,
        doing="taking a checkpoint of",
        place=Path(workdir),
    ):
        yield


def _make_private_index_folder(folder: Path, workdir: str) -> None:
    """What makes git take it for the folder of a linked worktree that must not be pruned."""
    if (folder / "locked").exists():
        return
    folder.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    texts = (
        "ref: refs/heads/none",
        "../..",
        f"{workdir}/.git",
        "The private index of a Holdfast project.",
    )
    for name, text in zip(_WORKTREE_FILES, texts, strict=True):
        # Flushed before the last one says that they are there: git takes a folder with an empty
        # one for no worktree, and the project would have no checkpoints any more.
        with open(folder / name, "wb", opener=_private) as file:
            file.write(os.fsencode(f"{text}\n"))
            file.flush()
            os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, PRIVATE_FILE)


def forget_worktree(folder: Path) -> None:
    """The reverse, for one without an index; the next who takes the project's lock makes them."""
    with storage_errors(f"clear {folder}"):
        # The last one first: it says that all of them are there.
        for name in reversed(_WORKTREE_FILES):
            (folder / name).unlink(missing_ok=True)

"""The bare repository on disk: where things lie, how it is made, opened and locked."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pygit2

from holdfast.errors import SchemaError, StorageError
from holdfast.stores import lock
from holdfast.stores.files import (
    PRIVATE_DIR,
    PRIVATE_FILE,
    make_private_dir,
    replace,
    storage_errors,
)
from holdfast.stores.shadowgit.excludes import excludes_text
from holdfast.stores.shadowgit.git import EXCLUDES, Git

FORMAT = 1
REFS = "refs/holdfast/"
TRASH_REFS = "refs/holdfast-trash/"
#: Where a first checkpoint's objects hang between their pack and their ref.
IMPORT_REFS = "refs/holdfast-import/"

# It outranks every .gitattributes, so that bytes stay bytes.
_ATTRIBUTES = b"* -text !eol -ident !filter !working-tree-encoding\n"
_PROJECT_DIGITS = 16
_WAIT = 30.0
_LOOSE_FIRST, _PACKS_AFTER = 2, 1
_QUICK_COMPRESSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the parts of a checkpoint folder lie."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

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
    text = excludes_text(rules).encode("utf-8", "surrogateescape")
    excludes = layout.store / EXCLUDES
    with storage_errors(f"write {excludes}"):
        if not excludes.exists() or excludes.read_bytes() != text:
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
        text = (layout.store / "format").read_text("ascii", "replace").strip()
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


def opened(layout: Layout) -> pygit2.Repository:
    """The repository in process. What it writes is flushed, whatever the configuration says."""
    objects = str(layout.store / "objects")
    with git_errors(f"open the checkpoint store {layout.store}"):
        repository = pygit2.Repository(str(layout.store))
        database = pygit2.Odb()
        loose = pygit2.OdbBackendLoose(
            objects, _QUICK_COMPRESSION, True, PRIVATE_DIR, PRIVATE_FILE & ~0o200
        )
        database.add_backend(loose, _LOOSE_FIRST)
        database.add_backend(pygit2.OdbBackendPack(objects), _PACKS_AFTER)
        repository.set_odb(database)
    return repository


@contextlib.contextmanager
def git_errors(doing: str) -> Iterator[None]:
    """Turn what libgit2 and the operating system say into a `StorageError`."""
    with storage_errors(doing):
        try:
            yield
        except pygit2.GitError as error:
            hint = "Run `holdfast checkpoints verify` to see whether the store is whole."
            if "space" in str(error):
                hint = "The disk is full. Free some space and try again; nothing was changed."
            raise StorageError(f"Cannot {doing}: {error}", hint=hint) from error


def used(layout: Layout) -> AbstractContextManager[None]:
    """Share the store: to take, list, restore. Nobody removes objects meanwhile."""
    return lock.shared(layout.lock, wait=_WAIT, doing="reclaiming space of", place=layout.folder)


def alone(layout: Layout, *, holder: str, wait: float = _WAIT) -> AbstractContextManager[None]:
    """Have the store to oneself: to remove objects. Bound the time: everybody else waits."""
    return lock.exclusive(layout.lock, holder=holder, wait=wait, doing="using", place=layout.folder)


@contextlib.contextmanager
def project_lock(layout: Layout, project: str, workdir: str) -> Iterator[None]:
    """One process at a time has a project's private index and record."""
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
    for name, text in (
        ("HEAD", "ref: refs/heads/none"),
        ("commondir", "../.."),
        ("gitdir", f"{workdir}/.git"),
        ("locked", "The private index of a Holdfast project."),
    ):
        path = folder / name
        path.write_bytes(os.fsencode(f"{text}\n"))
        path.chmod(PRIVATE_FILE)

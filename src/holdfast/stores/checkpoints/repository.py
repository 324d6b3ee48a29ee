"""The bare repository on disk: its layout, and how to open and lock it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.errors import SchemaError, StorageError
from holdfast.stores import lock
from holdfast.stores.digest import sha256
from holdfast.stores.files import (
    PRIVATE_DIR,
    PRIVATE_FILE,
    read_file,
    storage_errors,
    write_all,
)
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.program import Git
from holdfast.value import dataclass

FORMAT = 1
REFS = "refs/holdfast/"
TRASH_REFS = "refs/holdfast-trash/"

#: While a push or a fetch talks to a remote, it holds this lock and has these folders in the store.
REMOTE_LOCK = "remote.lock"
OUTGOING, INCOMING = TRANSFERS = ("outgoing", "incoming")

#: This file is written last: a folder without it is not a store.
FORMAT_FILE = "format"

_PROJECT_DIGITS = 16
_AT = "@"
_WORKTREE_FILES = ("HEAD", "commondir", "gitdir", "locked")
_WAIT = 30.0
LEGACY_PREFIX = "legacy-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The paths in a checkpoint folder."""

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
        """The folder of a project's private index, where git looks for gc roots."""
        return self.store / "worktrees" / project

    def rules(self, digest: str) -> Path:
        """The default excludes that a checkpoint was taken under, by digest."""
        return self.store / "rules" / digest

    def git(self) -> Git:
        return Git(store=self.store)

    def exists(self) -> bool:
        return (self.store / FORMAT_FILE).exists()


def project_of(workdir: Path) -> str:
    """Return the id of the project in a resolved working directory."""
    return sha256(os.fsencode(workdir)).hexdigest()[:_PROJECT_DIGITS]


def elsewhere(project: str, machine: str) -> str:
    """Return the local id of another machine's project. Two machines may use the same path."""
    return f"{project}{_AT}{machine}"


def machine_of(project: str) -> str:
    """Return the machine that a project is on; "" for this one."""
    return project.partition(_AT)[2]


#: The store itself may be a symbolic link. These parts may not: Holdfast removes files in them.
_NEVER_LINKS = ("objects", "objects/pack", "refs", "worktrees")


def check(layout: Layout) -> None:
    """Raise if the store belongs to another user, has an unknown format, has a link among its
    parts, or cannot be read."""
    for name in _NEVER_LINKS:
        if os.path.islink(f"{layout.store}/{name}"):  # noqa: PTH114 - three times per take
            raise StorageError(
                f"{layout.store / name} is a link. Holdfast does not change files behind it; "
                "nothing was done.",
                hint="Replace the link with the folder itself.",
            )
    with storage_errors(f"open the checkpoint store {layout.store}"):
        owner = layout.store.stat().st_uid
        text = read_file(layout.store / FORMAT_FILE).decode("ascii", "replace").strip()
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
    """Open the objects of the store for reading in process."""
    check(layout)
    return Objects(layout.store / "objects")


def used(layout: Layout) -> AbstractContextManager[None]:
    """Share the store, to take, list or restore. This blocks the removal of objects."""
    return lock.shared(layout.lock, wait=_WAIT, doing="reclaiming space of", place=layout.folder)


def alone(layout: Layout, *, holder: str, wait: float = _WAIT) -> AbstractContextManager[None]:
    """Lock the store exclusively, to remove objects. Keep it short: all other users wait."""
    return lock.exclusive(
        layout.lock, holder=holder, wait=wait, doing="using", place=layout.folder, queue=True
    )


@contextlib.contextmanager
def project_lock(layout: Layout, project: str, workdir: str) -> Iterator[None]:
    """Hold a project's lock: only one process at a time uses its private index and record."""
    check(layout)
    folder = layout.private(project)
    with storage_errors(f"make {folder}"):
        folder.mkdir(mode=PRIVATE_DIR, parents=True, exist_ok=True)
    with lock.exclusive(
        folder / "lock",
        holder="checkpoints",
        wait=_WAIT,
        doing="taking a checkpoint of",
        place=Path(workdir),
    ):
        # Under the lock: another process would find a file empty while it is written.
        with storage_errors(f"make {folder}"):
            _make_worktree(folder, workdir)
        yield


def _make_worktree(folder: Path, workdir: str) -> None:
    """Set up the folder so that git treats it as a linked worktree that must not be pruned."""
    if (folder / "locked").exists():
        return
    texts = (
        "ref: refs/heads/none",
        "../..",
        f"{workdir}/.git",
        "The private index of a Holdfast project.",
    )
    for name, text in zip(_WORKTREE_FILES, texts, strict=True):
        # Each file is durable before the last one, which marks the set as complete: with an empty
        # file, git would not see a worktree, and the project would get no more checkpoints.
        _write(folder / name, os.fsencode(f"{text}\n"), durable=True)


def forget_worktree(folder: Path) -> None:
    """The reverse, for a folder without an index. The next user of the project's lock undoes it."""
    with storage_errors(f"clear {folder}"):
        # The last file first: it marks the set as complete.
        for name in reversed(_WORKTREE_FILES):
            (folder / name).unlink(missing_ok=True)


def write_cache(path: Path, data: bytes) -> None:
    """Replace a file that may be lost, without fsync. Concurrent writers may corrupt it."""
    temporary = path.with_name(f"{path.name}.new")
    _write(temporary, data, durable=False)
    temporary.replace(path)


def _write(path: Path, data: bytes, *, durable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    fd = os.open(path, flags, PRIVATE_FILE)
    try:
        write_all(fd, data)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def is_older_name(name: str) -> bool:
    """True if a folder of this name in a checkpoint folder belongs to the older layout."""
    return is_older_repository(name) or (name.startswith(LEGACY_PREFIX) and "/" not in name)


def is_older_repository(name: str) -> bool:
    return len(name) == _PROJECT_DIGITS and not name.strip("0123456789abcdef")

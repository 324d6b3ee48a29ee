"""Create the store in a temporary folder and rename it into place, so it is complete or absent.

The next creation clears leftovers of a kill. A store behind a symbolic link is created in place, so
there may also be a half-made store.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import HoldfastError, StorageError
from holdfast.stores.checkpoints.default_excludes import digest_of, excludes_text
from holdfast.stores.checkpoints.repository import FORMAT, FORMAT_FILE, Layout, alone, check
from holdfast.stores.files import (
    OTHERS,
    PRIVATE_DIR,
    make_private_dir,
    read_file,
    replace,
    storage_errors,
    sync_dir,
)
from holdfast.stores.git.program import EXCLUDES, Git

#: These attributes take precedence over every .gitattributes, so that git never converts a file.
_ATTRIBUTES = b"* -text !eol -ident !filter !working-tree-encoding\n"
_ASIDE = "store.new"
_LOCKS = ("config.lock", "HEAD.lock", "packed-refs.lock")


def prepare(layout: Layout, rules: Sequence[str] = ()) -> None:
    """Create the store if it is missing and write its excludes; safe to repeat after a kill."""
    if not layout.exists():
        with storage_errors(f"make the checkpoint store {layout.store}"):
            make_private_dir(layout.folder)
        with alone(layout, holder="checkpoints"):
            if not layout.exists():
                found(layout)
    elif not _is_repository(layout.store):
        mend(layout)
    check(layout)
    _close_to_others(layout)
    text = excludes_text(tuple(rules)).encode("utf-8", "surrogateescape")
    excludes = layout.store / EXCLUDES
    with storage_errors(f"write {excludes}"):
        if not excludes.exists() or read_file(excludes) != text:
            replace(excludes, text)
        kept = layout.rules(digest_of(text))
        if not kept.exists():  # checkpoints refer to their rules by this digest
            kept.parent.mkdir(mode=PRIVATE_DIR, exist_ok=True)
            replace(kept, text)


def _close_to_others(layout: Layout) -> None:
    """Remove other users' permissions, if there are any. `objects` comes last: its mode shows
    whether this is done."""
    with storage_errors(f"make {layout.folder} private"):
        if not layout.store.joinpath("objects").lstat().st_mode & OTHERS:
            return
        for place, folders, names in os.walk(layout.folder):
            for name in (*folders, *names):
                path = Path(place, name)
                mode = path.lstat().st_mode
                known = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
                if known and mode & OTHERS and path != layout.store / "objects":
                    path.chmod(stat.S_IMODE(mode) & ~OTHERS)
        layout.store.joinpath("objects").chmod(PRIVATE_DIR)


def found(layout: Layout) -> None:
    """Create the store under the exclusive lock; clear leftovers of a kill."""
    aside = layout.folder / _ASIDE
    with storage_errors(f"make the checkpoint store {layout.store}"):
        layout.projects.mkdir(mode=PRIVATE_DIR, exist_ok=True)
        _clear(aside)
        if _is_to_be_finished(layout.store):
            _refuse_foreign(layout.store)
            _fill(layout.store)
            return
        try:
            aside.mkdir(mode=PRIVATE_DIR)
            _fill(aside)
            _flush(aside)
            _clear(layout.store)
            aside.rename(layout.store)
        except BaseException:
            with contextlib.suppress(OSError):
                _clear(aside)  # a half-made store would only fill the disk
            raise
        sync_dir(layout.folder)


def is_half_made(layout: Layout) -> bool:
    """True if there is a store that git does not accept, because of a kill or because a user
    removed a file that a repository must have. Creates nothing."""
    left = os.path.lexists(layout.store) and not layout.exists()
    left = left or (layout.exists() and not _is_repository(layout.store))
    return left or os.path.lexists(layout.folder / _ASIDE)


def mend(layout: Layout) -> str:
    """Remove a half-made store, or finish it if there are objects in it; return what was done."""
    with alone(layout, holder="doctor"):
        if layout.exists() and not _is_repository(layout.store):
            with storage_errors(f"repair the checkpoint store {layout.store}"):
                _clear(layout.store / "HEAD")
                _fill(layout.store)
            return f"restored the missing git files of the checkpoint store {layout.store}"
        if not layout.exists() and _is_to_be_finished(layout.store):
            found(layout)
            return f"finished the checkpoint store {layout.store}"
        with storage_errors(f"clear {layout.folder}"):
            _clear(layout.folder / _ASIDE)
            if not layout.exists():
                _clear(layout.store)
    return f"removed a half-made checkpoint store at {layout.store}"


def _fill(store: Path) -> None:
    for name in _LOCKS:
        (store / name).unlink(missing_ok=True)
    Git(store=store).run("init", "--quiet", "--bare", "--template=", str(store))
    for folder in (store / "info", store / "worktrees"):
        folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    replace(store / "info" / "attributes", _ATTRIBUTES)
    # Last: a store without this file was never finished.
    replace(store / FORMAT_FILE, f"{FORMAT}\n".encode())


def _is_repository(store: Path) -> bool:
    """True if git accepts the store. Holdfast does not use HEAD, so it can be rewritten."""
    try:
        head = read_file(store / "HEAD")
    except (OSError, HoldfastError):
        return False
    return head.startswith(b"ref: refs/") and (store / "refs").is_dir()


def _is_to_be_finished(store: Path) -> bool:
    """True if a store without a format file has objects or references, or is behind a link."""
    if store.is_symlink():
        return True
    kept = (store / "refs" / "holdfast", store / "packed-refs", store / "objects" / "pack")
    return any(path.is_file() or (path.is_dir() and any(path.iterdir())) for path in kept)


def _refuse_foreign(store: Path) -> None:
    """Raise if a link points to anything but an empty folder or an incomplete repository."""
    if store.is_symlink() and any(store.iterdir()) and not (store / "objects").is_dir():
        raise StorageError(
            f"{store} points to {store.resolve()}, which holds other files; nothing was written.",
            hint="Point the link to an empty folder.",
        )


def _clear(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        import shutil  # noqa: PLC0415 - slow to import, and takes do not need it

        shutil.rmtree(path)
    else:
        path.unlink()


def _flush(folder: Path) -> None:
    """Fsync the other files of a repository: git only fsyncs objects and references."""
    for place, _, names in os.walk(folder):
        for name in names:
            fd = os.open(
                Path(place, name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            )
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        sync_dir(Path(place))

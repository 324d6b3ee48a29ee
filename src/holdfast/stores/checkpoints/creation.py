"""Create the store in a temporary folder and rename it into place, so it is either whole or absent.

The next creation clears what a kill left. Earlier versions created the store in place, so a
half-made store that git refuses to finish may be there.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import HoldfastError, StorageError
from holdfast.stores.checkpoints.ignore_rules import excludes_text, standing_digest
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

#: It outranks every .gitattributes, so that bytes stay bytes.
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
        kept = layout.rules(standing_digest(text))
        if not kept.exists():  # a checkpoint says under which rules it was taken, by this name
            kept.parent.mkdir(mode=PRIVATE_DIR, exist_ok=True)
            replace(kept, text)


def _close_to_others(layout: Layout) -> None:
    """Earlier versions let the umask decide who may read what git makes. One look tells whether
    everything has been seen to: the folder that others are kept out of last."""
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
    """Create the store under the exclusive lock; clears what a kill left."""
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
    """Whether there is a store that git does not take for one: a kill left it so, or somebody
    removed what a repository must have. Creates nothing."""
    left = os.path.lexists(layout.store) and not layout.exists()
    left = left or (layout.exists() and not _is_repository(layout.store))
    return left or os.path.lexists(layout.folder / _ASIDE)


def mend(layout: Layout) -> str:
    """Clear what a kill left, or finish it if there is anything in it; says what was done."""
    with alone(layout, holder="doctor"):
        if layout.exists() and not _is_repository(layout.store):
            with storage_errors(f"mend the checkpoint store {layout.store}"):
                _clear(layout.store / "HEAD")
                _fill(layout.store)
            return f"gave the checkpoint store {layout.store} back what git needs"
        if not layout.exists() and _is_to_be_finished(layout.store):
            found(layout)
            return f"finished the checkpoint store {layout.store}"
        with storage_errors(f"clear {layout.folder}"):
            _clear(layout.folder / _ASIDE)
            if not layout.exists():
                _clear(layout.store)
    return f"removed what an interrupted start had left of the checkpoint store {layout.store}"


def _fill(store: Path) -> None:
    for name in _LOCKS:
        (store / name).unlink(missing_ok=True)
    Git(store=store).run("init", "--quiet", "--bare", "--template=", str(store))
    for folder in (store / "info", store / "worktrees"):
        folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    replace(store / "info" / "attributes", _ATTRIBUTES)
    # Last: a store without it is one that was never finished.
    replace(store / FORMAT_FILE, f"{FORMAT}\n".encode())


def _is_repository(store: Path) -> bool:
    """Whether git accepts it. Holdfast keeps nothing in HEAD, so HEAD can be written again."""
    try:
        head = read_file(store / "HEAD")
    except (OSError, HoldfastError):
        return False
    return head.startswith(b"ref: refs/") and (store / "refs").is_dir()


def _is_to_be_finished(store: Path) -> bool:
    """A store in which there is something, or one that lies elsewhere, behind a link."""
    if store.is_symlink():
        return True
    kept = (store / "refs" / "holdfast", store / "packed-refs", store / "objects" / "pack")
    return any(path.is_file() or (path.is_dir() and any(path.iterdir())) for path in kept)


def _refuse_foreign(store: Path) -> None:
    """A link may lead to an empty folder, or to one that git began to make a repository of."""
    if store.is_symlink() and any(store.iterdir()) and not (store / "objects").is_dir():
        raise StorageError(
            f"{store} leads to {store.resolve()}, which holds other files; nothing was written.",
            hint="Let it lead to an empty folder.",
        )


def _clear(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        import shutil  # noqa: PLC0415 - slow to import, and a take removes no folder

        shutil.rmtree(path)
    else:
        path.unlink()


def _flush(folder: Path) -> None:
    """git flushes objects and references, but not what it makes a repository of."""
    for place, _, names in os.walk(folder):
        for name in names:
            fd = os.open(Path(place, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        sync_dir(Path(place))

"""Files and folders: one rename into the trash, and one back.

A rename is atomic, keeps times and modes, needs no space, and closes the race that a check before
an unlink leaves open: after the rename no process can open the file by its old name, so the second
check, made then, is final.

The home and its trash may be on different file systems, and overlayfs refuses to rename a folder of
its lower layer. Then the part is first copied and compared. The original is renamed within its own
folder, checked there, and deleted.
"""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.model.part import FilePart, FolderPart, Sight, Slot, Stamp, digest
from holdfast.spine.outcomes import ALREADY_GONE, CHANGED, COPY_MISSING, PLACE_TAKEN
from holdfast.stores.files import (
    Doubled,
    allocated_bytes,
    give_to,
    link_new,
    make_private_dir,
    sync_dir,
)
from holdfast.stores.open_files import open_elsewhere
from holdfast.value import dataclass

_OWNER = stat.S_IRWXU


class TreeMover:
    """Moves `FilePart` and `FolderPart`."""

    def look(self, batch: Sequence[Slot]) -> Sequence[Sight]:
        return [_look(slot) for slot in batch]

    def copy(self, batch: Sequence[Slot]) -> None:
        """Only if a rename is impossible: on another file system."""
        for slot in batch:
            place = _standing(slot)
            if place is not None and place.lstat().st_dev != slot.folder.stat().st_dev:
                _copy(slot, place)

    def drop(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        done = [_drop(slot) for slot in batch]
        _sync(batch)
        return done

    def put_back(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        doubled: list[Path] = []
        done = [_put_back(slot, doubled) for slot in batch]
        for parent in {_place(slot).parent for slot in batch}:
            with contextlib.suppress(FileNotFoundError):
                sync_dir(parent)  # the new names before the old ones go
        for each in doubled:
            each.unlink()
        return done

    def discard(self, batch: Sequence[Slot]) -> int:
        freed = 0
        for slot in batch:
            _clear(slot)
            freed += tree_bytes(slot.copy)
            remove_tree(_work(slot))
            if is_folder(slot.copy):
                # A kill must not leave half a folder under the name of a complete copy.
                slot.copy.rename(_work(slot))
                remove_tree(_work(slot))
            else:
                remove_tree(slot.copy)
        return freed


def _place(slot: Slot) -> Path:
    part = slot.part
    if not isinstance(part, FilePart | FolderPart):
        raise TypeError(part)
    return part.path


def _aside(slot: Slot) -> Path:
    """The path, in the same folder, where an original waits for its last check. It follows from the
    intent, so that the next run finds it after a kill."""
    batch = slot.folder
    return _place(slot).with_name(f".holdfast-{batch.parent.name}-{batch.name}-{slot.name}")


def _checked(slot: Slot) -> Path:
    """The path of an original that passed its last check and is being deleted."""
    aside = _aside(slot)
    return aside.with_name(f"{aside.name}.gone")


def _work(slot: Slot) -> Path:
    return slot.copy.with_name(f"{slot.name}.part")


def _standing(slot: Slot) -> Path | None:
    """Return where the original is: at its place, or set aside by a killed run."""
    return next((each for each in (_place(slot), _aside(slot)) if os.path.lexists(each)), None)


def _look(slot: Slot) -> Sight:
    try:
        place = _standing(slot)
        original = None if place is None else measure(place)
        copy = measure(slot.copy)
        return Sight(
            here=original is not None,
            stamp="" if original is None else original.stamp,
            bytes=0 if original is None else original.bytes,
            copied=copy is not None,
            copy_bytes=0 if copy is None else copy.bytes,
            spoiled=copy is not None and bool(slot.stamp) and copy.stamp != slot.stamp,
        )
    except OSError:
        return Sight(here=None)


def _copy(slot: Slot, original: Path) -> None:
    if os.path.lexists(slot.copy):
        return  # a copy gets its name only when it is complete
    work = _work(slot)
    clone(original, work)
    work.rename(slot.copy)
    sync_dir(slot.folder)


def _drop(slot: Slot) -> str | None:
    _clear(slot)
    place = _standing(slot)
    if place is None:
        # A killed run may have stopped between the move and its last check.
        return _confirmed(slot, slot.copy) if os.path.lexists(slot.copy) else ALREADY_GONE
    if tree_stamp(place) != slot.stamp:
        _name_again(place, _place(slot))
        return CHANGED
    if place.is_symlink() and (why := in_use(place)) is not None:
        return why  # checked here: in the trash, a relative link leads elsewhere
    if not os.path.lexists(slot.copy):
        try:
            place.rename(slot.copy)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(slot, place)
        else:
            return _confirmed(slot, slot.copy)
    aside = _aside(slot)
    if place != aside:
        place.rename(aside)
    why = _confirmed(slot, aside)
    if why is None:
        aside.rename(_checked(slot))
        _clear(slot)
    return why


def _confirmed(slot: Slot, moved: Path) -> str | None:
    """The second, final check. What changed or is in use returns to its place."""
    why = CHANGED if tree_stamp(moved) != slot.stamp else in_use(moved, _place(slot).name)
    if why is not None and not _name_again(moved, _place(slot)):
        return f"{why}, then replaced; the old one is {moved}"
    return why


def _put_back(slot: Slot, doubled: list[Path]) -> str | None:
    """Files that have two names afterwards are added to `doubled`."""
    _clear(slot)
    place, aside = _place(slot), _aside(slot)
    if os.path.lexists(place):
        return None if tree_stamp(place) == slot.stamp else PLACE_TAKEN
    if not os.path.lexists(aside):
        if not os.path.lexists(slot.copy):
            return COPY_MISSING
        make_private_dir(place.parent)  # the agent may have deleted an empty folder
        if slot.copy.lstat().st_dev == place.parent.stat().st_dev:
            with contextlib.suppress(_OtherFileSystemError):
                return None if _name_again(slot.copy, place, doubled) else PLACE_TAKEN
        clone(slot.copy, aside)
    return None if _name_again(aside, place, doubled) else PLACE_TAKEN


class _OtherFileSystemError(Exception):
    """The system refuses a rename although both paths are on one device."""


def _name_again(moved: Path, place: Path, doubled: list[Path] | None = None) -> bool:
    """Rename something back, never replacing anything. Returns False if the place is taken. With
    `doubled`, a file may keep its other name until the caller has made the old one durable."""
    if moved == place:
        return True
    if os.path.lexists(place):
        return False
    try:
        if is_folder(moved) or not _linked(moved, place, doubled):
            moved.rename(place)  # the system refuses to replace a non-empty folder
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise _OtherFileSystemError from error
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


def _linked(moved: Path, place: Path, doubled: list[Path] | None) -> bool:
    """Restore the name of a file with a hard link. Returns False if the file system has none."""
    if not link_new(moved, place):
        return False
    if doubled is None:
        sync_dir(place.parent)  # the new name before the old one goes
        moved.unlink()
    else:
        doubled.append(moved)
    return True


def _clear(slot: Slot) -> None:
    """Finish deleting an original that a killed run had checked."""
    remove_tree(_checked(slot))


def _sync(batch: Sequence[Slot]) -> None:
    """Sync new names first, lost names second: a power cut may leave two, never none."""
    for folder in dict.fromkeys(slot.folder for slot in batch):
        sync_dir(folder)
    for parent in dict.fromkeys(_place(slot).parent for slot in batch):
        with contextlib.suppress(FileNotFoundError):
            sync_dir(parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A file or a folder with everything below it: its stamp, the bytes freed if it is removed, and
    when anything in it was last written."""

    stamp: Stamp
    bytes: int
    changed: float


def measure(path: Path, doubled: Doubled | None = None) -> Tree | None:
    """Measure a file or folder; None if it does not exist. Unreadable content raises: a stamp with
    a gap would be wrong. `doubled` files have a second name in the vault and are counted anyway.

    The stamp consists of sizes, mtimes and names. It excludes ctime and the link count: a hard link
    changes both.
    """
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISDIR(status.st_mode):
        changed = status.st_mtime
        if stat.S_ISLNK(status.st_mode):
            changed = max(changed, _changed_behind(path))
        return Tree(stamp=_leaf(status), bytes=allocated_bytes(status, doubled), changed=changed)
    found: list[tuple[str, str]] = []
    total, changed = 0, status.st_mtime
    waiting = [""]  # names, not Path objects: a home may have a hundred thousand files
    while waiting:
        folder = waiting.pop()
        with os.scandir(os.path.join(path, folder)) as entries:  # noqa: PTH118 - as above
            for entry in entries:
                each = entry.stat(follow_symlinks=False)
                name = f"{folder}{entry.name}"
                changed = max(changed, each.st_mtime)
                if stat.S_ISDIR(each.st_mode):
                    found.append((name, "d"))
                    waiting.append(f"{name}{os.sep}")
                else:
                    total += allocated_bytes(each, doubled)
                    found.append((name, _leaf(each)))
    return Tree(stamp=f"d:{digest(sorted(found))}", bytes=total, changed=changed)


def _changed_behind(link: Path) -> float:
    """Return when the target of a link was last written: an agent may follow the link."""
    try:
        status = link.stat()
    except OSError:
        return 0.0
    if not stat.S_ISDIR(status.st_mode):
        return status.st_mtime
    tree = measure(Path(os.path.realpath(link)))
    return status.st_mtime if tree is None else tree.changed


def tree_stamp(path: Path) -> Stamp:
    tree = measure(path)
    return "" if tree is None else tree.stamp


def tree_bytes(path: Path) -> int:
    tree = measure(path)
    return 0 if tree is None else tree.bytes


def _leaf(status: os.stat_result) -> str:
    return f"{stat.S_IFMT(status.st_mode) >> 12:x}:{status.st_size}:{status.st_mtime_ns}"


def in_use(path: Path, called: str = "") -> str | None:
    """Return evidence that a process has a file of this tree open. `called` is the original name,
    if it was renamed."""
    top = path
    if path.is_symlink():
        path = Path(os.path.realpath(path))
        if not path.exists():
            return None
    leaves = [path] if not is_folder(path) else list(below(path))
    for leaf in leaves:
        if stat.S_ISREG(leaf.lstat().st_mode):
            why = open_elsewhere(leaf)
            if why is not None:
                name = called if called and leaf == top else leaf.name
                return f"{name} is {why}" if why.startswith("open") else f"{name} {why}"
    return None


def is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def below(path: Path) -> Iterator[Path]:
    """Yield everything in a folder. Unreadable content raises: a stamp must have no gap."""

    def refuse(error: OSError) -> None:
        raise error

    for base, folders, files in os.walk(path, onerror=refuse):
        for name in (*folders, *files):
            yield Path(base, name)


def clone(source: Path, target: Path) -> None:
    """Copy a tree with times, modes, owners and the hard links inside it; fsync and compare it."""
    remove_tree(target)
    cloned = _Cloned()
    if is_folder(source):
        shutil.copytree(source, target, symlinks=True, copy_function=cloned.file)
    else:
        cloned.file(os.fspath(source), os.fspath(target))
    for path in (target, *(below(target) if is_folder(target) else ())):
        _give_back(path, (source / path.relative_to(target)).lstat())
        if not path.is_symlink():
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def is_same_tree(one: Path, other: Path) -> bool:
    """True if two files or folders have the same names, bytes and times."""
    if tree_stamp(one) != tree_stamp(other):
        return False
    for each in [one] if not is_folder(one) else below(one):
        if stat.S_ISREG(each.lstat().st_mode):
            there = other / each.relative_to(one)
            is_file = stat.S_ISREG(there.lstat().st_mode)
            if not is_file or not filecmp.cmp(each, there, shallow=False):
                return False
    return True


class _Cloned:
    """Copies the files of one tree; hard links inside it stay hard links."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, int], str] = {}

    def file(self, source: str, target: str) -> None:
        status = os.lstat(source)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise StorageError(f"{source} is neither a file nor a folder, so it cannot be copied.")
        first = self._first.setdefault((status.st_dev, status.st_ino), target)
        if first != target and link_new(first, target):
            return
        shutil.copy2(source, target, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and not filecmp.cmp(source, target, shallow=False):
            raise StorageError(f"{source} changed while it was copied, or the copy is damaged.")


def _give_back(copy: Path, status: os.stat_result) -> None:
    there = copy.lstat()
    if (there.st_uid, there.st_gid) != (status.st_uid, status.st_gid):
        give_to(copy, status.st_uid, status.st_gid)
        if not stat.S_ISLNK(status.st_mode):
            copy.chmod(stat.S_IMODE(status.st_mode))


def remove_tree(path: Path) -> None:
    """Delete a file or a folder, including read-only folders. No error if it does not exist."""
    if not is_folder(path):
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        path.chmod(path.lstat().st_mode | _OWNER)
        for inner in below(path):
            if is_folder(inner):
                inner.chmod(inner.lstat().st_mode | _OWNER)
        shutil.rmtree(path)

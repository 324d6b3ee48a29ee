"""A folder as the files of a bundle, and back: `tree.json` describes each file."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from holdfast.errors import DamageError, StorageError
from holdfast.model.json_value import Reader
from holdfast.parts.trees import below, is_folder, remove_tree
from holdfast.parts.unit_record import RECORD
from holdfast.stores import files
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.bundle import SourceFile
from holdfast.stores.archive.bundle_manifest import owner
from holdfast.stores.files import RIGHTS, give_to, link_new, make_private_dir, sync_dir, write_all
from holdfast.value import dataclass

_TREE = "tree.json"
_NEW_RECORD = f"{RECORD}.new"
_CHUNK = 1024 * 1024


def packed(folder: Path) -> Sequence[SourceFile]:
    """A folder of the trash or the vault as files of a bundle. The list of its files is written
    into it."""
    listed = _listed(folder)
    files.replace(folder / _TREE, json.dumps(listed).encode("ascii"))
    held = (
        _source(str(number), folder / each["path"])
        for number, each in enumerate(listed)
        if each["kind"] != "folder" and each["same"] is None
    )
    return [_source(_TREE, folder / _TREE), *held]


def _listed(folder: Path) -> list[dict[str, Any]]:
    """Everything below a folder, folders before their contents. Times are in nanoseconds, because
    tar rounds them. `same` is the number of the first entry for a file with several names."""
    listed: list[dict[str, Any]] = []
    names: dict[tuple[int, int], int] = {}
    for path in sorted(below(folder)):
        if path.name == _TREE and path.parent == folder:
            continue
        status = path.lstat()
        if stat.S_IFMT(status.st_mode) not in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
            raise StorageError(f"{path.name} is no regular file; it cannot be archived")
        number = len(listed)
        first = number
        if stat.S_ISREG(status.st_mode):
            first = names.setdefault((status.st_dev, status.st_ino), number)
        listed.append(
            {
                "path": str(path.relative_to(folder)),
                "kind": "folder" if is_folder(path) else "link" if path.is_symlink() else "file",
                "mode": stat.S_IMODE(status.st_mode),
                "mtime_ns": status.st_mtime_ns,
                "uid": status.st_uid,
                "gid": status.st_gid,
                "same": None if first == number else first,
            }
        )
    return listed


def _source(name: str, path: Path) -> SourceFile:
    status = path.lstat()
    link = str(path.readlink()) if stat.S_ISLNK(status.st_mode) else None
    return SourceFile(name=name, status=status, open=lambda: files.open_file(path), link=link)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    path: Path
    kind: str
    mode: int
    mtime_ns: int
    owner: tuple[int, int] | None
    same: int | None


def unpack(archive: SessionArchive, file: str, folder: Path) -> None:
    """Unpack a bundle that holds a folder, after comparing every byte. The folder's record is
    written last, so that the next run after a kill starts again."""
    remove_tree(folder)
    with archive.at_hand(file):
        archive.verify(file)
        with (
            archive.opened(file) as (raw, codec),
            bundle.members(raw, codec) as members,
            whole_or_gone(folder),
        ):
            _write_tree(folder, members)


@contextlib.contextmanager
def whole_or_gone(folder: Path) -> Iterator[None]:
    """Remove a partly written folder, for example if the disk is full: it would only waste space,
    and the bundle has everything."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            remove_tree(folder)
        raise


def _write_tree(folder: Path, members: Iterator[bundle.Member]) -> None:
    """Write the folder. `tree.json` comes first, and names every other file."""
    nodes: list[_Node] = []
    make_private_dir(folder)
    for name, link, content in members:
        short = name.removeprefix(bundle.FILES)
        if short == name:
            continue
        if short == _TREE:
            nodes = [_node(folder, each) for each in json.loads(content.read())]
            for node in nodes:
                if node.kind == "folder":
                    make_private_dir(node.path)
        elif short.isdecimal() and int(short) < len(nodes):
            _write(nodes[int(short)], link, content)
        else:
            raise DamageError(f"{short!r} is not in the list of its bundle")
    _finish(nodes)
    (folder / _NEW_RECORD).rename(folder / RECORD)
    sync_dir(folder)


def _finish(nodes: Sequence[_Node]) -> None:
    """Set what requires all files to exist: their other names, and the metadata of folders."""
    for node in nodes:
        if node.same is not None:
            _name_again(node, nodes)
    for node in reversed(nodes):  # a folder after its contents, which change its mtime
        if node.kind == "folder":
            if node.owner is not None:
                give_to(node.path, *node.owner)
            node.path.chmod(node.mode)
            os.utime(node.path, ns=(node.mtime_ns, node.mtime_ns))


def _node(folder: Path, value: object) -> _Node:
    read = Reader(value, "file of a bundle", DamageError)
    relative = Path(read.text("path"))
    if relative.is_absolute() or ".." in relative.parts:
        raise DamageError(f"{relative} points outside its bundle")
    if relative == Path(RECORD):
        relative = Path(_NEW_RECORD)
    return _Node(
        path=folder / relative,
        kind=read.text("kind"),
        mode=read.whole("mode"),
        mtime_ns=read.whole("mtime_ns"),
        # Bundles of earlier versions have neither owners nor second names.
        owner=(owner(read, "uid"), owner(read, "gid")) if "uid" in read else None,
        same=read.whole("same") if "same" in read and read.value("same") is not None else None,
    )


def _name_again(node: _Node, nodes: Sequence[_Node]) -> None:
    """Give a file another name."""
    if node.same is None or node.same >= len(nodes) or nodes[node.same].kind != "file":
        raise DamageError(f"{node.path.name} links to a file that its bundle does not have")
    first = nodes[node.same].path
    if not link_new(first, node.path):
        shutil.copy2(first, node.path)


def _write(node: _Node, link: str | None, content: IO[bytes]) -> None:
    times = (node.mtime_ns, node.mtime_ns)
    if link is not None:
        node.path.symlink_to(link)
        if node.owner is not None:
            give_to(node.path, *node.owner)
        os.utime(node.path, ns=times, follow_symlinks=False)
        return
    fd = os.open(node.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        while piece := content.read(_CHUNK):
            write_all(fd, piece)
        if node.owner is not None:
            give_to(fd, *node.owner)
        os.fchmod(fd, node.mode & RIGHTS)
        os.utime(fd, ns=times)
        os.fsync(fd)
    finally:
        os.close(fd)

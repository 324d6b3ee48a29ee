"""Checkpoint repositories of an older layout, one per directory: moved aside, and still readable.

checkpoints/<16 hex digits>/                      where they were
checkpoints/legacy-<timestamp>/<16 hex digits>/   where they are after the first take

Each is a git repository with a file HERMES_WORKDIR that names its directory. Nothing in them is
ever changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from holdfast.errors import DamageError, StorageError, UnknownCheckpointError
from holdfast.model.checkpoint import Captured, Checkpoint
from holdfast.stores.checkpoints.content import ModeRecord
from holdfast.stores.checkpoints.finder import check_prefix
from holdfast.stores.checkpoints.repository import LEGACY_PREFIX, Layout, is_older_repository
from holdfast.stores.files import (
    allocated_below,
    make_private_dir,
    read_file,
    storage_errors,
    sync_dir,
    version_of,
)
from holdfast.stores.git.object import Kind
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.refs import read_reference
from holdfast.stores.git.trees import Trees, is_id, path_text, read_commit
from holdfast.value import dataclass

WORKDIR = "HERMES_WORKDIR"
_SIGNS = ("HEAD", "objects", WORKDIR)
_SECOND = 1_000_000_000
_TIMESTAMP = "%Y%m%d-%H%M%S"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRepository:
    """A repository. `archive` is the folder that it was moved into, "" if it was not moved."""

    project: str
    workdir: str
    path: Path
    archive: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleRepository:
    """A repository that was not moved aside yet. `last_touch` is the newest time of any file and
    any commit in it: every write changes one of these."""

    name: str
    path: Path
    workdir: str
    last_touch: float
    bytes: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyArchive:
    """The repositories that were moved aside together."""

    name: str
    path: Path
    moved_at: float
    bytes: int
    repositories: int


def set_aside(layout: Layout, *, now: float) -> str | None:
    """Move what lies in the checkpoint folder itself into an archive; its name if there was any.

    One rename each: killed in between, the next use moves the rest.
    """
    found = list(_in(layout.folder))
    if not found:
        return None
    name = LEGACY_PREFIX + datetime.fromtimestamp(now, UTC).strftime(_TIMESTAMP)
    archive = layout.folder / name
    with storage_errors(f"move older checkpoints to {archive}"):
        make_private_dir(archive)
        for path in found:
            with contextlib.suppress(FileNotFoundError):  # another process was quicker
                path.rename(archive / path.name)
        for folder in (archive, layout.folder):
            sync_dir(folder)
    return name


def archives(layout: Layout) -> Sequence[LegacyArchive]:
    """Every archive, the oldest first."""
    found = [
        LegacyArchive(
            name=path.name,
            path=path,
            moved_at=_moved_at(path),
            bytes=allocated_below(path),
            repositories=sum(1 for _ in _in(path)),
        )
        for path in _archives(layout)
    ]
    return sorted(found, key=lambda archive: (archive.moved_at, archive.name))


def singles(layout: Layout) -> Sequence[SingleRepository]:
    """Every older repository that is still where an older version put it."""
    found = []
    for path in sorted(_in(layout.folder)):
        with contextlib.suppress(FileNotFoundError):  # gone meanwhile
            newest = _newest_inside(path)
            found.append(
                SingleRepository(
                    name=path.name,
                    path=path,
                    workdir=_workdir(path),
                    last_touch=max([newest / _SECOND, *_head_time(path)]),
                    bytes=allocated_below(path),
                    version=version_at(path, newest),
                )
            )
    return found


def version_at(path: Path, newest: int | None = None) -> str:
    """A text that changes when anything in an archive or a repository is written."""
    if path.name.startswith(LEGACY_PREFIX):
        return version_of(path.lstat())
    inside = _newest_inside(path) if newest is None else newest
    return f"{version_of(path.lstat())}.{inside}"


def _newest_inside(path: Path) -> int:
    """In nanoseconds."""
    newest = path.lstat().st_mtime_ns
    for place, _, files in os.walk(path):
        for name in (".", *files):
            with contextlib.suppress(OSError):
                newest = max(newest, os.lstat(f"{place}/{name}").st_mtime_ns)
    return newest


def repositories(layout: Layout) -> Sequence[LegacyRepository]:
    """Every older repository, moved aside or not."""
    places = [("", layout.folder), *((path.name, path) for path in _archives(layout))]
    return [
        LegacyRepository(project=path.name, workdir=_workdir(path), path=path, archive=archive)
        for archive, folder in places
        for path in sorted(_in(folder))
    ]


class LegacyShelf:
    """The checkpoints of older repositories, read as those of the store are."""

    def __init__(self, found: Sequence[LegacyRepository]) -> None:
        self._found = found

    @classmethod
    def of(cls, layout: Layout, workdir: str | None = None) -> LegacyShelf:
        """Of all directories, or of one."""
        every = repositories(layout)
        return cls([each for each in every if workdir in (None, each.workdir)])

    def list(self) -> Sequence[Checkpoint]:
        """The newest first; what cannot be read is left out."""
        found: list[Checkpoint] = []
        for each in self._found:
            with contextlib.suppress(StorageError):
                found += _checkpoints(each)
        return sorted(found, key=lambda checkpoint: -checkpoint.time)

    def get(self, prefix: str) -> Checkpoint:
        check_prefix(prefix)
        matches = {each.id: each for each in self.list() if each.id.startswith(prefix)}
        if len(matches) == 1:
            return next(iter(matches.values()))
        what = f"{len(matches)} checkpoints have ids" if matches else "No checkpoint has an id"
        raise UnknownCheckpointError(
            f"{what} that {'begin' if matches else 'begins'} with {prefix!r} among the older ones.",
            hint="Give more digits of the one you mean." if matches else None,
        )

    def captured(self, tree: str) -> Captured:
        """They know git's modes only, and no empty directories."""
        trees = self._holding(tree)
        record = ModeRecord()
        return Captured(
            files={
                path_text(path): record.entry(path, node)
                for path, node in trees.files(bytes.fromhex(tree))
            },
            directories={},
        )

    def blob(self, oid: str) -> bytes:
        return self._holding(oid).raw(bytes.fromhex(oid), Kind.BLOB)

    def _holding(self, oid: str) -> Trees:
        for each in self._found:
            with contextlib.suppress(StorageError):
                objects = opened_at(each.path)
                if bytes.fromhex(oid) in objects:
                    return Trees(objects)
        raise DamageError(f"{oid} is in none of the older repositories.")


def opened_at(repository: Path) -> Objects:
    """The objects of a repository, whosever it is."""
    return Objects(repository / "objects")


def _checkpoints(legacy: LegacyRepository) -> Iterator[Checkpoint]:
    """Every commit that its branch leads to, as far as they can be read."""
    trees = Trees(opened_at(legacy.path))
    seen: set[str] = set()
    waiting = list(_head(legacy.path))
    while waiting:
        commit = waiting.pop()
        if commit in seen:
            continue
        seen.add(commit)
        with contextlib.suppress(DamageError):
            found = read_commit(trees, commit)
            if found.committed is None:
                continue
            yield Checkpoint(
                id=commit,
                project=legacy.project,
                workdir=legacy.workdir,
                time=found.committed,
                reason=found.message.strip(),
                tree=found.tree,
            )
            waiting += found.parents


def _head(repository: Path) -> Iterator[str]:
    """The commit that a repository is at, if it is at one that can be found."""
    with storage_errors(f"read {repository}"), contextlib.suppress(DamageError):
        head = read_file(repository / "HEAD").decode("utf-8", "replace").strip()
        yield head if is_id(head) else read_reference(repository, head.removeprefix("ref: "))


def _head_time(repository: Path) -> Iterator[float]:
    """When its newest commit was made, if that can be read."""
    with contextlib.suppress(StorageError, DamageError):
        trees = Trees(opened_at(repository))
        for commit in _head(repository):
            found = read_commit(trees, commit).committed
            if found is not None:
                yield found


def _in(folder: Path) -> Iterator[Path]:
    """The repositories that lie directly in a folder. Symlinks do not count."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if is_older_repository(entry.name) and entry.is_dir(follow_symlinks=False):
                path = Path(entry.path)
                if all((path / sign).exists() for sign in _SIGNS):
                    yield path


def _archives(layout: Layout) -> Sequence[Path]:
    if not layout.folder.is_dir():
        return ()
    named = sorted(layout.folder.glob(f"{LEGACY_PREFIX}*"))
    return [path for path in named if path.is_dir() and not path.is_symlink()]


def _moved_at(path: Path) -> float:
    try:
        text = f"{path.name.removeprefix(LEGACY_PREFIX)} +0000"
        return datetime.strptime(text, f"{_TIMESTAMP} %z").timestamp()
    except ValueError:
        return path.stat().st_mtime


def _workdir(path: Path) -> str:
    try:
        return os.fsdecode(read_file(path / WORKDIR).strip(b"\n"))
    except OSError:
        return ""

"""Checkpoint repositories of an older layout, one for each directory: moved aside, still readable.

checkpoints/<16 hex digits>/                      original location
checkpoints/legacy-<timestamp>/<16 hex digits>/   moved there by the first take

Each is a git repository with a file HERMES_WORKDIR that names its directory. Nothing in them is
ever changed. To compare or restore one of their checkpoints, it is first copied into the store. The
older layout recorded neither full permissions nor empty directories, and had its own ignore rules;
a restore does not change what it could not have recorded.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from holdfast.errors import DamageError, StorageError, UnknownCheckpointError, UsageError
from holdfast.model.arguments import StrPath, expanded
from holdfast.model.checkpoint import Checkpoint, NotCaptured, Sight
from holdfast.model.item import LEGACY, UNKNOWN_SOURCE, Item
from holdfast.stores.checkpoints.checkpoint_commit import write_checkpoint
from holdfast.stores.checkpoints.content import FILES, RECORD, Content, content_of
from holdfast.stores.checkpoints.default_excludes import Ignoring
from holdfast.stores.checkpoints.finder import check_prefix
from holdfast.stores.checkpoints.join_packs import join_if_many
from holdfast.stores.checkpoints.repository import (
    LEGACY_PREFIX,
    Layout,
    is_older_repository,
    opened,
    project_lock,
    project_of,
    used,
)
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.checkpoints.stored_modes import ModeRecord, dump_record
from holdfast.stores.checkpoints.walk import ancestors
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
from holdfast.stores.git.pack_writer import Pack
from holdfast.stores.git.program import Git
from holdfast.stores.git.refs import read_reference
from holdfast.stores.git.trees import (
    FILE,
    LINK,
    PROGRAM,
    TREE,
    Node,
    Trees,
    is_id,
    is_program,
    path_text,
    read_commit,
)
from holdfast.value import dataclass, replace

_MILLISECONDS = 1000
_KNOWN = (FILE, PROGRAM, LINK)
#: How the list of checkpoints marks a checkpoint that is not in the store.
OLDER = " (older layout)"
_LEFT_OUT = "the rules at that time left it out"
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

    def checkpoints(self) -> list[Checkpoint]:
        """Return the readable checkpoints, the newest first."""
        found: list[Checkpoint] = []
        with contextlib.suppress(StorageError):
            found += _checkpoints(self)
        return sorted(found, key=lambda checkpoint: -checkpoint.time)


def set_aside(layout: Layout, *, now: float) -> str | None:
    """Move the repositories in the checkpoint folder into an archive; return its name, or None if
    there was no repository.

    Each move is one rename: after a kill in between, the next use moves the rest.
    """
    found = list(_in(layout.folder))
    if not found:
        return None
    name = LEGACY_PREFIX + datetime.fromtimestamp(now, UTC).strftime(_TIMESTAMP)
    archive = layout.folder / name
    with storage_errors(f"move older checkpoints to {archive}"):
        make_private_dir(archive)
        for path in found:
            with contextlib.suppress(FileNotFoundError):  # another process moved it first
                path.rename(archive / path.name)
        for folder in (archive, layout.folder):
            sync_dir(folder)
    return name


def items(layout: Layout) -> Sequence[Item]:
    """Return every archive, the oldest first, and every repository that was not moved aside yet.
    The latter's last use is the newest time of any file or commit in it: every write changes
    one."""
    found = [_item(path, version_at(path), _moved_at(path)) for path in _archives(layout)]
    found.sort(key=lambda item: (item.last_active_at, item.id))
    for path in sorted(_in(layout.folder)):
        with contextlib.suppress(FileNotFoundError):  # moved meanwhile
            version = version_at(path)  # first, so that any write from here on changes it
            touched = max([_newest_inside(path) / _SECOND, *_head_time(path)])
            found.append(_item(path, version, touched, _workdir(path) or UNKNOWN_SOURCE))
    return found


def _item(path: Path, version: str, used_at: float, source: str = UNKNOWN_SOURCE) -> Item:
    return Item(
        kind=LEGACY,
        id=path.name,
        source=source,
        bytes=allocated_below(path),
        last_active_at=used_at,
        version=version,
    )


def version_at(path: Path) -> str:
    """Return a string that changes with every write to an archive or a repository."""
    if path.name.startswith(LEGACY_PREFIX):
        return version_of(path.lstat())
    return f"{version_of(path.lstat())}.{_newest_inside(path)}"


def _newest_inside(path: Path) -> int:
    """Return the newest mtime of any file, in nanoseconds."""
    newest = path.lstat().st_mtime_ns
    for place, _, files in os.walk(path):
        for name in (".", *files):
            with contextlib.suppress(OSError):
                newest = max(newest, os.lstat(f"{place}/{name}").st_mtime_ns)
    return newest


def repositories(layout: Layout) -> Sequence[LegacyRepository]:
    """Return every repository, moved aside or not."""
    places = [("", layout.folder), *((path.name, path) for path in _archives(layout))]
    return [
        LegacyRepository(project=path.name, workdir=_workdir(path), path=path, archive=archive)
        for archive, folder in places
        for path in sorted(_in(folder))
    ]


def opened_at(repository: Path) -> Objects:
    """Open the objects of any repository."""
    return Objects(repository / "objects")


def _checkpoints(legacy: LegacyRepository) -> Iterator[Checkpoint]:
    """Yield every readable commit that is reachable from its branch."""
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
    """Yield the commit of HEAD, if it can be read."""
    with storage_errors(f"read {repository}"), contextlib.suppress(DamageError):
        head = read_file(repository / "HEAD").decode("utf-8", "replace").strip()
        yield head if is_id(head) else read_reference(repository, head.removeprefix("ref: "))


def _head_time(repository: Path) -> Iterator[float]:
    """Yield the time of the newest commit, if it can be read."""
    with contextlib.suppress(StorageError, DamageError):
        trees = Trees(opened_at(repository))
        for commit in _head(repository):
            found = read_commit(trees, commit).committed
            if found is not None:
                yield found


def _in(folder: Path) -> Iterator[Path]:
    """Yield the repositories directly in a folder. Symlinks do not count."""
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


class StoreWithOlderLayout(ShadowGitStore):
    """A store in a folder that also contains repositories of the older layout.

    The first take moves these aside. `list` includes their checkpoints. `get` copies a checkpoint
    into the store, where it can be compared, pinned and restored.
    """

    _moved = False

    def _open(self, now: float) -> None:
        super()._open(now)
        if not self._moved:
            set_aside(self.layout, now=now)
            self._moved = True

    def list(self, workdir: StrPath | None = None) -> Sequence[Checkpoint]:
        own = super().list(workdir)
        known = {(each.workdir, each.time) for each in own}
        place = None if workdir is None else str(expanded(workdir))
        older = [
            replace(each, reason=f"{each.reason}{OLDER}")
            for repository in repositories(self.layout)
            if place in (None, repository.workdir)
            for each in repository.checkpoints()
            if (each.workdir, each.time) not in known
        ]
        return [*own, *sorted(older, key=lambda each: -each.time)]

    def get(self, prefix: str) -> Checkpoint:
        check_prefix(prefix)
        try:
            return super().get(prefix)
        except UnknownCheckpointError:
            found = _find(self.layout, prefix)
            if found is None:
                raise
        return self._adopted(*found)

    def ready(self, checkpoint: Checkpoint) -> Checkpoint:
        return self.get(checkpoint.id)

    def _adopted(self, repository: LegacyRepository, old: Checkpoint) -> Checkpoint:
        workdir = Path(old.workdir)
        if not workdir.is_absolute():
            raise UsageError(
                f"The older repository {repository.path} does not name its directory.",
                hint="git can read it: `git --git-dir PATH log --stat`.",
            )
        self.prepare()
        with self.reading():
            present = self.look(workdir) if workdir.is_dir() else None
            return adopt(self.layout, repository, old, present)


def _find(layout: Layout, prefix: str) -> tuple[LegacyRepository, Checkpoint] | None:
    """Return the older checkpoint whose id begins with `prefix`, and its repository."""
    for each in repositories(layout):
        matches = [found for found in each.checkpoints() if found.id.startswith(prefix)]
        if len(matches) == 1:
            return each, matches[0]
    return None


def adopt(
    layout: Layout,
    legacy: LegacyRepository,
    old: Checkpoint,
    present: Sight | None,
    *,
    origin: str | None = None,
    left: tuple[NotCaptured, ...] = (),
    contents: Mapping[bytes, bytes] = MappingProxyType({}),
) -> Checkpoint:
    """Copy a checkpoint into the store; `present` is a look at its working tree, if there is one.
    `origin` is where it came from, `left` what else it did not capture, and `contents` the contents
    of files that a checkout converts.

    Time and reason stay. It gets a new id, because it contains more than before. Safe to repeat.
    """
    workdir = Path(os.path.realpath(old.workdir))
    project = project_of(workdir)
    with (
        used(layout),
        project_lock(layout, project, str(workdir)),
        storage_errors(f"bring {old.id} into the checkpoint store"),
        Pack(layout.packs, (objects := opened(layout)).stored) as new,
    ):
        trees = Trees(objects, new)
        source = Trees(opened_at(legacy.path))
        files = _copied(source, trees, old.tree, contents)
        now_there = None if present is None else content_of(trees, bytes.fromhex(present.tree))
        record = ModeRecord() if now_there is None else _known(files, now_there.record)
        git = Git(store=layout.store, folder=layout.private(project), work_tree=workdir)
        blob = trees.put(Kind.BLOB, dump_record(record))
        tree = trees.patched(trees.write({}), files)
        root = trees.write({RECORD: (FILE, blob), FILES: (TREE, tree)})
        checkpoint = replace(
            old,
            project=project,
            workdir=str(workdir),
            tree=root.hex(),
            name=None,
            pinned=False,
            not_captured=(*_left_out(git, legacy, trees, files, now_there), *left),
            origin=origin,
        )
        order = round(old.time * _MILLISECONDS)
        made = write_checkpoint(layout, trees, new, checkpoint, order)
    join_if_many(layout)  # each imported checkpoint leaves a pack
    return made


def _copied(
    source: Trees, target: Trees, tree: str, contents: Mapping[bytes, bytes]
) -> Mapping[bytes, Node]:
    """Copy all files of an older tree, except nested repositories, which it only refers to."""
    files = {path: node for path, node in source.files(bytes.fromhex(tree)) if node[0] in _KNOWN}
    for path, (mode, oid) in files.items():
        data = contents.get(path)
        if data is not None:
            files[path] = (mode, target.put(Kind.BLOB, data))
        else:
            target.put(Kind.BLOB, source.raw(oid, Kind.BLOB))
    return files


def _known(files: Mapping[bytes, Node], present: ModeRecord) -> ModeRecord:
    """Return the part of the present record that is about paths of the older tree."""
    folders = {folder for path in files for folder in ancestors(path)}
    modes = {
        path: mode
        for path, mode in present.modes.items()
        if path in folders or (path in files and is_program(mode) is (files[path][0] == PROGRAM))
    }
    empty = frozenset(
        path
        for path in present.empty
        if path not in folders and path not in files and files.keys().isdisjoint(ancestors(path))
    )
    kept = {path: mode for path, mode in present.modes.items() if path in empty}
    return ModeRecord(usual=present.usual, modes=modes | kept, empty=empty)


def _left_out(
    git: Git,
    legacy: LegacyRepository,
    trees: Trees,
    files: Mapping[bytes, Node],
    present: Content | None,
) -> tuple[NotCaptured, ...]:
    """Return the present files that the rules of the older repository exclude."""
    rules = legacy.path / "info" / "exclude"
    if present is None or not rules.exists():
        return ()
    new = sorted(path for path, _ in trees.files(present.files) if path not in files)
    if not new:
        return ()
    with Ignoring(git, rules) as ignoring:
        ignored = sorted(ignoring.ask(new))
    return tuple(NotCaptured(path=path_text(path), reason=_LEFT_OUT) for path in ignored)

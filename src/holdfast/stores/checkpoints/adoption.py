"""Bring a checkpoint of an older repository into the store, to compare and restore it there.

The older layout recorded neither full permissions nor empty directories, and it had its own ignore
rules. A restore changes nothing that the older layout could not know.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import UnknownCheckpointError, UsageError
from holdfast.model.arguments import StrPath, expanded
from holdfast.model.checkpoint import Checkpoint, NotCaptured, Sight
from holdfast.stores.checkpoints.checkpoint_commit import Details, parse, ref_name, write_commit
from holdfast.stores.checkpoints.content import (
    FILES,
    RECORD,
    Content,
    ModeRecord,
    content_of,
    dump_record,
)
from holdfast.stores.checkpoints.ignore_rules import Ignoring
from holdfast.stores.checkpoints.older_layout import (
    LegacyRepository,
    LegacyShelf,
    opened_at,
    repositories,
    set_aside,
)
from holdfast.stores.checkpoints.repository import Layout, opened, project_lock, project_of, used
from holdfast.stores.checkpoints.space import tidy
from holdfast.stores.checkpoints.store import ShadowGitStore
from holdfast.stores.files import storage_errors
from holdfast.stores.git.object import Kind
from holdfast.stores.git.pack_writer import Pack
from holdfast.stores.git.program import Git
from holdfast.stores.git.refs import NewReference
from holdfast.stores.git.trees import (
    FILE,
    LINK,
    PROGRAM,
    TREE,
    Node,
    Trees,
    is_program,
    path_text,
    read_commit,
)
from holdfast.value import dataclass, field, replace

_MILLISECONDS = 1000
_KNOWN = (FILE, PROGRAM, LINK)
#: What the list of checkpoints says of one that is not in the store.
OLDER = " (older layout)"
_LEFT_OUT = "the rules of that time left it out"


class StoreWithOlderLayout(ShadowGitStore):
    """A store in a folder that also holds repositories of the older layout.

    The first take moves these aside. `list` shows their checkpoints. `get` brings the one that is
    asked for into the store, where it can be compared, marked and restored.
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
            for each in LegacyShelf.of(self.layout, place).list()
            if (each.workdir, each.time) not in known
        ]
        return [*own, *older]

    def get(self, prefix: str) -> Checkpoint:
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
                f"The older repository {repository.path} does not say which directory it is about.",
                hint="git can read it: `git --git-dir PATH log --stat`.",
            )
        self.prepare()
        with self.reading():
            present = self.look(workdir) if workdir.is_dir() else None
            return adopt(self.layout, repository, old, present)


def _find(layout: Layout, prefix: str) -> tuple[LegacyRepository, Checkpoint] | None:
    """The older checkpoint whose id begins with `prefix`, and its repository."""
    for each in repositories(layout):
        with contextlib.suppress(UnknownCheckpointError):
            return each, LegacyShelf([each]).get(prefix)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of an older checkpoint besides its tree: where it came from, what else it could
    not capture, and the contents that a checkout gives where those are not what it stored."""

    origin: str | None = None
    left: tuple[NotCaptured, ...] = ()
    contents: Mapping[bytes, bytes] = field(default_factory=dict)


def adopt(
    layout: Layout,
    legacy: LegacyRepository,
    old: Checkpoint,
    present: Sight | None,
    known: Known | None = None,
) -> Checkpoint:
    """The same checkpoint in the store; `present` is its working tree, if that is there.

    Its time and reason stay. Its id does not: it is made of more than it was. Safe to repeat.
    """
    more = known or Known()
    workdir = Path(os.path.realpath(old.workdir))
    project = project_of(workdir)
    with (
        used(layout),
        project_lock(layout, project, str(workdir)),
        storage_errors(f"bring {old.id} into the checkpoint store"),
        _writable(layout) as (trees, new),
    ):
        source = Trees(opened_at(legacy.path))
        files = _copied(source, trees, old.tree, more.contents)
        now_there = None if present is None else content_of(trees, bytes.fromhex(present.tree))
        record = ModeRecord() if now_there is None else _known(files, now_there.record)
        git = Git(store=layout.store, folder=layout.private(project), work_tree=workdir)
        details = Details(
            project=project,
            workdir=str(workdir),
            time=old.time,
            reason=old.reason,
            session=None,
            turn=None,
            files_changed=old.files_changed,
            insertions=old.insertions,
            deletions=old.deletions,
            not_captured=(*_left_out(git, legacy, trees, files, now_there), *more.left),
            origin=more.origin,
        )
        # Write-order rule: what it holds, then the commit, and its ref last.
        blob = trees.put(Kind.BLOB, dump_record(record))
        tree = trees.patched(trees.write({}), files)
        root = trees.write({RECORD: (FILE, blob), FILES: (TREE, tree)})
        commit = write_commit(trees, details, root)
        ref = ref_name(project, round(old.time * _MILLISECONDS), commit)
        with NewReference(layout.store, ref, commit) as reference:
            new.flush([reference.fd])
            reference.publish()
        made = read_commit(trees, commit)
    tidy(layout)  # an import of many checkpoints leaves a pack for each
    return parse(made.id, made.tree, made.message)


@contextlib.contextmanager
def _writable(layout: Layout) -> Iterator[tuple[Trees, Pack]]:
    objects = opened(layout)
    with Pack(layout.packs, objects.stored) as new:
        yield Trees(objects, new), new


def _copied(
    source: Trees, target: Trees, tree: str, contents: Mapping[bytes, bytes]
) -> Mapping[bytes, Node]:
    """Everything in an older tree but what it only refers to (nested repositories)."""
    files = {path: node for path, node in source.files(bytes.fromhex(tree)) if node[0] in _KNOWN}
    for path, (mode, oid) in files.items():
        data = contents.get(path)
        if data is not None:
            files[path] = (mode, target.put(Kind.BLOB, data))
        else:
            target.put(Kind.BLOB, source.raw(oid, Kind.BLOB))
    return files


def _known(files: Mapping[bytes, Node], present: ModeRecord) -> ModeRecord:
    """What the record of the present says of paths that are in the older tree, too."""
    folders = {path[:place] for path in files for place in _slashes(path)}
    modes = {
        path: mode
        for path, mode in present.modes.items()
        if path in folders or (path in files and is_program(mode) is (files[path][0] == PROGRAM))
    }
    empty = frozenset(
        path
        for path in present.empty
        if path not in folders
        and path not in files
        and not any(path[:place] in files for place in _slashes(path))
    )
    kept = {path: mode for path, mode in present.modes.items() if path in empty}
    return ModeRecord(usual=present.usual, modes=modes | kept, empty=empty)


def _slashes(path: bytes) -> list[int]:
    return [place for place, sign in enumerate(path) if sign == ord("/")]


def _left_out(
    git: Git,
    legacy: LegacyRepository,
    trees: Trees,
    files: Mapping[bytes, Node],
    present: Content | None,
) -> tuple[NotCaptured, ...]:
    """Of what is there now, what the older repository's own rules would have left out."""
    rules = legacy.path / "info" / "exclude"
    if present is None or not rules.exists():
        return ()
    new = sorted(path for path, _ in trees.files(present.files) if path not in files)
    if not new:
        return ()
    with Ignoring(git, rules) as ignoring:
        ignored = sorted(ignoring.ask(new))
    return tuple(NotCaptured(path=path_text(path), reason=_LEFT_OUT) for path in ignored)

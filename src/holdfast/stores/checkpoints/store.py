"""The checkpoint store: one bare git repository for all projects of a home."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.errors import StorageError, UnknownCheckpointError, UsageError
from holdfast.model.checkpoint import (
    Captured,
    Change,
    Checkpoint,
    Excluded,
    Lines,
    Preview,
    Project,
    RestoreState,
    Rollback,
    Sight,
    TakeOutcome,
    Taking,
)
from holdfast.model.places import StrPath, expanded, real
from holdfast.model.units import format_bytes
from holdfast.ports import Bounding
from holdfast.stores.checkpoints import (
    adoption,
    comparison,
    finder,
    projects,
    restore,
    restore_record,
    walk,
)
from holdfast.stores.checkpoints.checkpoint_commit import rotate
from holdfast.stores.checkpoints.comparison import captured, changes, git_lines
from holdfast.stores.checkpoints.content import content_of
from holdfast.stores.checkpoints.creation import prepare
from holdfast.stores.checkpoints.look_state import Listings
from holdfast.stores.checkpoints.older_layout import LegacyShelf, set_aside
from holdfast.stores.checkpoints.projects import refused, relative, unreachable
from holdfast.stores.checkpoints.repository import Layout, opened, project_lock, project_of, used
from holdfast.stores.checkpoints.space import (
    NoRoomError,
    Room,
    is_over,
    most_for_packs,
    most_for_takes,
    store_bytes,
    tidy,
    weigh,
)
from holdfast.stores.checkpoints.take import Order, Taker
from holdfast.stores.git.object import Kind
from holdfast.stores.git.pack_writer import Limited
from holdfast.stores.git.program import Git
from holdfast.stores.git.trees import EMPTY, Trees

#: How far a project's record may lag behind a take that found nothing new.
_TOUCH_SECONDS = 3600.0
_FULL = (
    "{place}: it does not fit into the checkpoint store, whose cap is {limit}, although everything"
    " that may go has gone. The newest checkpoint of each project stays, and so do pinned and"
    " named ones: `holdfast checkpoints prune --dry-run` says what is in the way. Raise"
    " checkpoints.max_total_size_mb, or exclude large files"
)


class ShadowGitStore:
    """Checkpoints in `folder`. Safe for many processes; every call is durable on return.

    `user_home` is a place that is too broad for a checkpoint. `max_file_size` is in bytes, None for
    no limit. `excludes` are ignore rules on top of the standing ones. `max_snapshots` is how many
    checkpoints of a project are listed when a new one is taken, 0 for all. `max_bytes` is the cap
    on what the store takes on the disk; `bounding` gets it back below that. With `hash_all` every
    file is read, whatever its times say: a write through a shared memory map changes them late or
    never.
    """

    def __init__(
        self,
        folder: Path,
        *,
        user_home: Path | None = None,
        max_file_size: int | None = 10_000_000,
        excludes: Sequence[str] = (),
        max_snapshots: int = 0,
        max_bytes: int | None = None,
        bounding: Bounding | None = None,
        hash_all: bool = False,
    ) -> None:
        self.layout = Layout(folder=folder)
        self._max_snapshots = max_snapshots
        self._max_bytes = max_bytes
        self._bounding = bounding
        self._user_home = user_home
        self._limit = max_file_size
        self._excludes = tuple(excludes)
        self._hash_all = hash_all
        self._listings = Listings()

    def take(
        self,
        workdir: StrPath,
        *,
        reason: str,
        now: float,
        session: str | None = None,
        turn: str | None = None,
        paths: Sequence[str] | None = None,
    ) -> Taking:
        place = real(workdir)
        project = project_of(place)
        why = self._why_not(place, project)
        if why is not None:
            return Taking(outcome=TakeOutcome.SKIPPED, id=None, reason=f"{place}: {why}")
        given = None if paths is None else [relative(place, path) for path in paths]
        self.prepare()
        set_aside(self.layout, now=now)
        order = Order(
            workdir=place, project=project, reason=reason, now=now, session=session, turn=turn
        )
        before = _identity(place)
        try:
            return self._take_within_bounds(order, given)
        except StorageError:
            if before is not None and before == _identity(place):
                raise
            reason = f"{place}: it went away while it was looked at"
            return Taking(outcome=TakeOutcome.SKIPPED, id=None, reason=reason)

    def _take_within_bounds(self, order: Order, paths: Sequence[bytes] | None) -> Taking:
        """Take one. Only when the store is far above its cap does that wait until there is room."""
        limit = self._max_bytes
        if limit is None:
            return self._take(order, paths, None)
        with suppress(NoRoomError):
            return self._take(order, paths, Room(self.layout, most_for_takes(limit)))
        making = nullcontext() if self._bounding is None else self._bounding.room_made()
        with making:
            try:
                return self._take(order, paths, Room(self.layout, most_for_packs(limit)))
            except NoRoomError:
                reason = _FULL.format(place=order.workdir, limit=format_bytes(limit))
                return Taking(outcome=TakeOutcome.SKIPPED, id=None, reason=reason)

    def _take(self, order: Order, paths: Sequence[bytes] | None, room: Room | None) -> Taking:
        project, place = order.project, order.workdir
        hidden = 0
        with used(self.layout), project_lock(self.layout, project, str(place)):
            restore.finish(self.layout, project)
            taken = self._taker(project, place, room).take(order, paths)
            # The checkpoint is there. What a full disk keeps from being done now is done later.
            with suppress(StorageError):
                self._touch(project, place, order.now)
                if taken.outcome is TakeOutcome.TAKEN:
                    hidden = self._rotate(project)
        if taken.outcome is TakeOutcome.TAKEN:
            with suppress(StorageError):
                self._clear_up(hidden, room)  # when nobody has the store any more
        return taken

    def _clear_up(self, hidden: int, room: Room | None) -> None:
        limit, over = self._max_bytes, False
        if limit is not None and room is not None:
            total = store_bytes(self.layout) if room.total is None else room.total
            over = is_over(self.layout, limit, total)
            if total <= limit:  # it copies packs: above the cap there is no room for that
                tidy(self.layout)
        else:
            tidy(self.layout)
        if self._bounding is not None and (over or hidden):
            self._bounding.later()

    def look(self, workdir: StrPath, *, paths: Sequence[str] | None = None) -> Sight:
        place = real(workdir)
        project = project_of(place)
        why = self._why_not(place, project)
        if why is not None:
            raise UsageError(f"Cannot look at {place}: {why}.")
        given = None if paths is None else [relative(place, path) for path in paths]
        self.prepare()
        limit = self._max_bytes
        room = None if limit is None else Room(self.layout, most_for_packs(limit))
        with used(self.layout), project_lock(self.layout, project, str(place)):
            try:
                return self._taker(project, place, room).look(given)
            except NoRoomError:
                raise NoRoomError(
                    f"Cannot look at {place}: what changed there does not fit into the checkpoint"
                    f" store, which is at twice its cap of {format_bytes(limit or 0)}.",
                    hint="Run `holdfast checkpoints prune`, or raise max_total_size_mb.",
                ) from None

    def excluded(self, workdir: Path) -> Sequence[Excluded]:
        place = Path(os.path.realpath(workdir))
        project = project_of(place)
        why = self._why_not(place, project)
        if why is not None:
            raise UsageError(f"Cannot look at {place}: {why}.")
        with (
            self._with_rules() as layout,
            used(layout),
            project_lock(layout, project, str(place)),
        ):
            git = Git(store=layout.store, folder=layout.private(project), work_tree=place)
            found = walk.excluded(git, os.fsencode(place))
            return sorted(found, key=lambda each: each.path)

    @contextmanager
    def _with_rules(self) -> Iterator[Layout]:
        """A store that git can ask for the excludes. Where there is none yet, looking makes none:
        an empty one that goes again answers as well."""
        if self.layout.exists():
            self.prepare()
            yield self.layout
            return
        with TemporaryDirectory(prefix="holdfast-") as folder:
            layout = Layout(folder=Path(folder) / self.layout.folder.name)
            prepare(layout, self._excludes)
            yield layout

    def reading(self) -> AbstractContextManager[None]:
        """Meanwhile nobody removes an object. Each call does this for itself; whoever makes several
        that belong together holds it around them, or what one names may be gone for the next."""
        # Reading makes nothing, so there may be no store and no lock.
        return used(self.layout) if self.layout.exists() else nullcontext()

    def prepare(self) -> None:
        """Make the store, if there is none."""
        prepare(self.layout, self._excludes)

    def list(self, workdir: StrPath | None = None) -> Sequence[Checkpoint]:
        project = None if workdir is None else project_of(real(workdir))
        with self.reading():
            return finder.checkpoints(self.layout, project)

    def get(self, prefix: str) -> Checkpoint:
        finder.check_prefix(prefix)
        with self.reading():
            return finder.get(self.layout, prefix)

    def captured(self, tree: str) -> Captured:
        with self.reading():
            trees = Trees(opened(self.layout))
            return captured(trees, content_of(trees, bytes.fromhex(tree)))

    def blob(self, oid: str) -> bytes:
        with self.reading():
            return Trees(opened(self.layout)).raw(bytes.fromhex(oid), Kind.BLOB)

    def changes(self, old: str, new: str) -> Sequence[Change]:
        with self.reading():
            trees = Trees(opened(self.layout))
            before = content_of(trees, bytes.fromhex(old))
            after = content_of(trees, bytes.fromhex(new))
            return changes(trees, before, after)

    def lines(self, old: str | None, new: str) -> Lines:
        with self.reading():
            trees = Trees(opened(self.layout))
            after = content_of(trees, bytes.fromhex(new)).files
            before = EMPTY if old is None else content_of(trees, bytes.fromhex(old)).files
            return git_lines(self.layout.git(), before.hex(), after.hex())

    def projects(self, *, stale_before: float | None = None) -> Sequence[Project]:
        with self.reading():
            return finder.projects(self.layout, stale_before=stale_before)

    def secure(self, target: str, *, paths: Sequence[str] | None = None, now: float) -> str:
        checkpoint = self.get(target)
        wanted = restore.inside(checkpoint, paths)
        begun = restore.cut_short(self.layout, checkpoint, wanted)
        if begun is not None:
            return begun
        restore.announce(self.layout, checkpoint, now=now)
        reason = restore.safety_reason(checkpoint)
        taking = self.take(Path(checkpoint.workdir), reason=reason, now=now)
        return restore.secured(self.layout, checkpoint, taking, wanted)

    def preview(self, target: str, *, paths: Sequence[str] | None = None) -> Preview:
        with self.reading():  # what a look finds is held by nothing else
            checkpoint = self.get(target)
            workdir = Path(checkpoint.workdir)
            present = self.look(workdir) if os.path.lexists(workdir) else None
            return restore.preview(self.layout, checkpoint, present, paths)

    def preview_undo(
        self, target: str, safety: str, *, paths: Sequence[str] | None = None
    ) -> Preview:
        return restore.preview_undo(self.layout, target, safety, paths)

    def restore(
        self,
        target: str,
        safety: str,
        *,
        paths: Sequence[str] | None = None,
        now: float,
        shown: Preview | None = None,
    ) -> Rollback:
        return restore.restore(self.layout, target, safety, paths=paths, now=now, shown=shown)

    def restore_state(
        self, target: str, safety: str, *, paths: Sequence[str] | None = None
    ) -> RestoreState:
        return restore.state(self.layout, target, safety, paths=paths)

    def older(self, workdir: StrPath | None = None) -> Sequence[Checkpoint]:
        return LegacyShelf.of(
            self.layout, None if workdir is None else str(expanded(workdir))
        ).list()

    def adopt_older(self, prefix: str) -> tuple[Checkpoint, Checkpoint] | None:
        try:
            repository, old = adoption.find(self.layout, prefix)
        except UnknownCheckpointError:
            return None
        if not Path(old.workdir).is_absolute():
            raise UsageError(
                f"The older repository {repository.path} does not say which directory it is about.",
                hint="git can read it: `git --git-dir PATH log --stat`.",
            )
        self.prepare()
        with self.reading():
            present = self.look(Path(old.workdir)) if Path(old.workdir).is_dir() else None
            return old, adoption.adopt(self.layout, repository, old, present)

    def ready(self, checkpoint: Checkpoint) -> Checkpoint:
        return checkpoint

    def patch(self, old: str, new: str, paths: Sequence[str] = ()) -> Iterator[bytes]:
        return comparison.spooled(comparison.patch(self.layout.store, old, new, paths))

    def statistics(
        self, old: str, new: str, paths: Sequence[str] = (), *, width: int
    ) -> Iterator[bytes]:
        lines = comparison.statistics(self.layout.store, old, new, paths, width=width)
        return comparison.spooled(lines)

    def pin(self, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
        return projects.pin(self.layout, checkpoint, pinned)

    def rename(self, checkpoint: Checkpoint, name: str | None) -> Checkpoint:
        return projects.rename(self.layout, checkpoint, name)

    def _taker(self, project: str, place: Path, room: Limited | None) -> Taker:
        return Taker(
            self.layout, project, place, self._limit, self._listings, room, hash_all=self._hash_all
        )

    def _why_not(self, place: Path, project: str) -> str | None:
        reason = unreachable(place, projects.read_record(self.layout, project))
        return reason or refused(place, self.layout, self._user_home)

    def _rotate(self, project: str) -> int:
        record = projects.read_record(self.layout, project)
        keep = set(restore_record.held(self.layout.private(project)))
        if record is not None:
            keep |= record.pins | record.names.keys()
        return rotate(self.layout, project, self._max_snapshots, keep=keep)

    def _touch(self, project: str, place: Path, now: float) -> None:
        record = projects.read_record(self.layout, project)
        mount, disk = projects.whereabouts(place)
        if record is None:
            record = projects.ProjectRecord(
                project=project, workdir=str(place), created_at=now, last_touch=now
            )
            if self._max_bytes is not None:
                weigh(self.layout)  # it has a private index now
        elif abs(now - record.last_touch) < _TOUCH_SECONDS and record.mount == mount:
            return
        touched = replace(record, last_touch=now, mount=mount, disk=disk)
        projects.write_record(self.layout, touched)


def _identity(place: Path) -> tuple[int, int] | None:
    """Which directory it is; another may have its name a moment later."""
    try:
        status = place.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino

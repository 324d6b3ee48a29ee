"""The part of the checkpoint store that takes checkpoints.

An agent takes a checkpoint before every change, often in a new process. So this module imports only
what a take needs; listing, comparing and restoring are in `store`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path

from holdfast.errors import StorageError, UsageError, in_voice
from holdfast.model.arguments import StrPath, real
from holdfast.model.checkpoint import Capturing, CutRestore, Sight, TakeOutcome, Taking
from holdfast.model.text import format_bytes
from holdfast.stores.checkpoints import projects, restore_record
from holdfast.stores.checkpoints.checkpoint_commit import rotate
from holdfast.stores.checkpoints.creation import prepare
from holdfast.stores.checkpoints.join_packs import join_if_many
from holdfast.stores.checkpoints.look_state import Listings
from holdfast.stores.checkpoints.projects import kept_for_runs, refused, relative, unreachable
from holdfast.stores.checkpoints.repository import Layout, project_lock, project_of, used
from holdfast.stores.checkpoints.size_cap import (
    NoRoomError,
    Room,
    is_over,
    most_for_packs,
    most_for_takes,
    store_bytes,
    weigh,
)
from holdfast.stores.checkpoints.take import Order, Taker
from holdfast.stores.files import storage_errors
from holdfast.value import replace

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from holdfast.ports.checkpoints import Bounding
    from holdfast.stores.checkpoints.early_look import EarlyLook

USUAL = Capturing()
#: How old the `last_touch` of a record may be before a take updates it.
_TOUCH_SECONDS = 3600.0
_FULL = (
    "{place}: it does not fit into the checkpoint store, whose cap is {limit}, although"
    " every checkpoint that may be removed is gone. The newest checkpoint of each project stays,"
    " and so do pinned and named ones: `holdfast checkpoints prune --dry-run` shows them. Raise"
    " checkpoints.max_total_size_mb, or exclude large files"
)


class CheckpointWriter:
    """Takes checkpoints into `folder`. Safe for concurrent processes; every call is durable on
    return.

    `how` has what is captured and which bounds apply. `bounding` brings the store back within its
    bounds after a take that exceeded them. `early` is a look that the first take may use.
    """

    def __init__(
        self,
        folder: Path,
        how: Capturing = USUAL,
        *,
        bounding: Bounding | None = None,
        early: EarlyLook | None = None,
    ) -> None:
        self.layout = Layout(folder=folder)
        self.how = how
        self.bounding = bounding
        self._listings = Listings()
        self._early = early

    def take(
        self,
        workdir: StrPath,
        *,
        reason: str,
        now: float,
        session: str | None = None,
        turn: str | None = None,
        paths: Sequence[str] | None = None,
        after: str | None = None,
        early: EarlyLook | None = None,
    ) -> Taking:
        """Take a checkpoint. With `paths`, look only at these and below them; with `after`, only if
        that is still the last checkpoint of the directory. `early` is a look in progress."""
        place = real(workdir)
        order = Order(
            workdir=place,
            project=project_of(place),
            reason=reason,
            now=now,
            session=session,
            turn=turn,
            after=after,
            early=early or self._early,
        )
        with nullcontext() if order.early is None else closing(order.early):
            return self._ordered(order, paths)

    def _ordered(self, order: Order, paths: Sequence[str] | None) -> Taking:
        place = order.workdir
        if (refusal := self.refusal(place)) is not None:
            return refusal
        given = None if paths is None else [relative(place, path) for path in paths]
        self._open(order.now)
        before = _identity(place)
        try:
            # The store may disappear while it is being read, if its folder is deleted.
            with storage_errors(f"take a checkpoint of {place}"):
                return self._take_within_bounds(order, given)
        except StorageError:
            if before is not None and before == _identity(place):
                raise
            reason = f"{place}: it disappeared while the checkpoint was taken"
            return Taking(outcome=TakeOutcome.SKIPPED, id=None, reason=reason)

    def refusal(self, workdir: StrPath) -> Taking | None:
        """Return the result for a directory that must not get a checkpoint; None if it may."""
        place = real(workdir)
        why = self._why_not(place, project_of(place))
        if why is None:
            return None
        return Taking(outcome=TakeOutcome.SKIPPED, id=None, reason=f"{place}: {why}")

    def foresee(self, workdir: StrPath, *, paths: Sequence[str] | None = None) -> Taking:
        """Return what a take would do now: what it would capture is read, but not stored."""
        if (refusal := self.refusal(workdir)) is not None:
            return refusal
        place = real(workdir)
        project = project_of(place)
        given = None if paths is None else [relative(place, path) for path in paths]
        self.prepare()
        with used(self.layout), project_lock(self.layout, project, str(place)):
            return self._taker(project, place, None).foresee(given)

    def _open(self, now: float) -> None:
        """The first step of a take. A subclass may move older files aside."""
        self.prepare()

    def _take_within_bounds(self, order: Order, paths: Sequence[bytes] | None) -> Taking:
        """Take a checkpoint. If the store is far above its cap, make room first."""
        limit = self.how.max_bytes
        if limit is None:
            return self._take(order, paths, None)
        with suppress(NoRoomError):
            return self._take(order, paths, Room(self.layout, most_for_takes(limit)))
        making = nullcontext() if self.bounding is None else self.bounding.room_made()
        with making:
            try:
                return self._take(order, paths, Room(self.layout, most_for_packs(limit)))
            except NoRoomError:
                reason = in_voice(_FULL).format(place=order.workdir, limit=format_bytes(limit))
                return Taking(outcome=TakeOutcome.SKIPPED, id=None, reason=reason)

    def _take(self, order: Order, paths: Sequence[bytes] | None, room: Room | None) -> Taking:
        project, place = order.project, order.workdir
        hidden = 0
        with used(self.layout), project_lock(self.layout, project, str(place)):
            cut = self._finish_restore(project)
            if cut is not None and order.early is not None:
                order.early.close()  # it may have compared before this
            taken = self._taker(project, place, room, order.early).take(order, paths)
            if cut is not None:
                taken = replace(taken, cut_restore=cut)
            # The checkpoint is taken. If a full disk prevents the rest, a later take does it.
            with suppress(StorageError):
                self._touch(project, place, order.now)
                if taken.outcome is TakeOutcome.TAKEN:
                    hidden = self._rotate(project)
        if taken.outcome is TakeOutcome.TAKEN:
            with suppress(StorageError):
                self._clear_up(hidden, room)  # after the locks are released
        return taken

    def _finish_restore(self, project: str) -> CutRestore | None:
        """Finish an interrupted restore, if there is one, before its state is captured."""
        cut = restore_record.under_way(self.layout.private(project))
        if cut is None:
            return None
        # Imported here: only a take that follows a killed restore needs it.
        from holdfast.stores.checkpoints.restore import finish  # noqa: PLC0415

        return finish(self.layout, project, cut)

    def _clear_up(self, hidden: int, room: Room | None) -> None:
        limit, over, fits = self.how.max_bytes, False, True
        if limit is not None and room is not None:
            total = store_bytes(self.layout) if room.total is None else room.total
            over, fits = is_over(self.layout, limit, total), total <= limit
        has_worker = self.bounding is not None and (over or hidden > 0)
        if self.bounding is not None and has_worker:
            self.bounding.later()
        if fits:  # above the cap there is no room to copy packs
            # The worker joins packs, too. If it does not get to it, this take has to.
            join_if_many(self.layout, patience=2 if has_worker else 1)

    def look(self, workdir: StrPath) -> Sight:
        place, project = self._seen_place(workdir)
        self.prepare()
        limit = self.how.max_bytes
        room = None if limit is None else Room(self.layout, most_for_packs(limit))
        with used(self.layout), project_lock(self.layout, project, str(place)):
            try:
                return self._taker(project, place, room).look()
            except NoRoomError:
                raise NoRoomError(
                    f"Cannot look at {place}: what changed there does not fit into the checkpoint"
                    f" store, which is at twice its cap of {format_bytes(limit or 0)}.",
                    hint="Run `holdfast checkpoints prune`, or raise max_total_size_mb.",
                ) from None

    def reading(self) -> AbstractContextManager[None]:
        """Block the removal of objects until the context ends. Every call does this itself; use it
        around several calls that belong together."""
        # Reading creates nothing, so there may be no store and no lock.
        return used(self.layout) if self.layout.exists() else nullcontext()

    def prepare(self) -> None:
        """Create the store if it is missing."""
        prepare(self.layout, self.how.excludes)

    def _taker(
        self, project: str, place: Path, room: Room | None, early: EarlyLook | None = None
    ) -> Taker:
        reserve = None if room is None else room.reserved
        return Taker(self.layout, project, place, self.how, self._listings, reserve, early)

    def _seen_place(self, workdir: StrPath) -> tuple[Path, str]:
        """Return a directory that can be looked at, and its project."""
        place = real(workdir)
        project = project_of(place)
        why = self._why_not(place, project)
        if why is not None:
            raise UsageError(f"Cannot look at {place}: {why}.")
        return place, project

    def _why_not(self, place: Path, project: str) -> str | None:
        reason = unreachable(place, projects.read_record(self.layout, project))
        return reason or refused(place, self.layout, self.how.user_home)

    def _rotate(self, project: str) -> int:
        if projects.is_unreadable(self.layout, project):
            return 0  # what it pins is unknown
        record = projects.read_record(self.layout, project)
        private = self.layout.private(project)
        keep = {*restore_record.held(private), *kept_for_runs(private)}
        if record is not None:
            keep |= record.pins | record.names.keys()
        return rotate(self.layout, project, self.how.max_snapshots, keep=keep)

    def _touch(self, project: str, place: Path, now: float) -> None:
        record = projects.read_record(self.layout, project)
        mount, disk = projects.whereabouts(place)
        if record is None:
            record = projects.ProjectRecord(
                project=project, workdir=str(place), created_at=now, last_touch=now
            )
            if self.how.max_bytes is not None:
                weigh(self.layout)  # there is a new private index
        elif abs(now - record.last_touch) < _TOUCH_SECONDS and record.mount == mount:
            return
        touched = replace(record, last_touch=now, mount=mount, disk=disk)
        projects.write_record(self.layout, touched)


def _identity(place: Path) -> tuple[int, int] | None:
    """Return device and inode of a directory: its path may refer to another one a moment later."""
    try:
        status = place.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino

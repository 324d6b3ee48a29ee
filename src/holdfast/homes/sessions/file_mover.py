"""Loose session files in a home's `sessions/` folder: removing them and restoring them.

Removal is one rename into the trash. That is atomic, keeps times and modes, needs no free space,
and closes the race that a check before an unlink leaves open: once the file has its new name, no
process can open it by the old one, so the second check, made there, is final. From the first
check to the second other openers are blocked (on Linux by a file lease), so an open in between is
noticed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from holdfast.homes.sessions.folder import FOLDER, Life, SessionFileName, of_another_user, recent
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import (
    IN_PLACE,
    Moved,
    Presence,
    damaged,
    failed,
    refused,
    stayed,
    unseen,
)
from holdfast.ports.runs import Clock
from holdfast.spine.keeper import OneStepMover
from holdfast.spine.outcomes import ALREADY_GONE, CHANGED, COPY_MISSING, PLACE_TAKEN, copy_changed
from holdfast.stores.files import (
    LINK,
    allocated_bytes,
    link_new,
    lstat_at,
    make_private_dir,
    open_dir,
    same_content,
    storage_errors,
    version_of,
)
from holdfast.stores.open_files import hold_alone, open_elsewhere
from holdfast.stores.sessions.survey import Owner
from holdfast.stores.threads import in_threads
from holdfast.stores.trash_paths import TrashFolder
from holdfast.value import dataclass

_FOREIGN_NAME = "not the name of a session file"
_OTHER_DISK = "on another file system than the trash"
#: How many undo copies are removed for good in parallel: a file system mounted with `discard`
#: informs its disk of each freed block and waits for the answer, file by file.
_HANDS = 6
#: With more files than this, the names in the trash are read once.
_FEW = 64
#: How many files are announced, moved and recorded at a time, with a few flushes for all of them.
#: This takes less than half a second, after which a run can be stopped.
_TOGETHER = 5_000
_Answer = TypeVar("_Answer")


@dataclass(slots=True)  # not frozen: thousands are created, and none is kept
class _Places:
    """The two places of one file, by descriptor: no symlink created in between can misdirect a
    rename. A descriptor is None if its folder does not exist. `begun` are the names in the trash
    when this batch began, or None if they were not read."""

    removal: Removal
    parsed: SessionFileName
    sessions_or_none: int | None
    name: str
    trash_or_none: int | None
    copy: str
    begun: Collection[str] | None

    @property
    def sessions(self) -> int:
        if self.sessions_or_none is None:
            raise FileNotFoundError(errno.ENOENT, "its folder is gone")
        return self.sessions_or_none

    @property
    def trash(self) -> int:
        if self.trash_or_none is None:
            raise FileNotFoundError(errno.ENOENT, "its trash folder is gone")
        return self.trash_or_none

    def original(self) -> os.stat_result | None:
        return None if self.sessions_or_none is None else lstat_at(self.name, self.sessions)

    def to_trash(self) -> None:
        os.rename(self.name, self.copy, src_dir_fd=self.sessions, dst_dir_fd=self.trash)

    def undo_copy(self) -> os.stat_result | None:
        return None if self.trash_or_none is None else lstat_at(self.copy, self.trash)

    def earlier_copy(self) -> os.stat_result | None:
        """The undo copy of a killed run: no other program puts copies there."""
        is_new = self.begun is not None and self.copy not in self.begun
        return None if is_new else self.undo_copy()


class SessionFileMover(OneStepMover):
    """Moves transcripts and request dumps."""

    def __init__(self, root: Path, trash: TrashFolder, clock: Clock, life: Life) -> None:
        self._folder = root / FOLDER
        self._trash = trash
        self._clock = clock
        self._life = life

    def prepare(self, items: Sequence[PlanItem]) -> int | None:
        return _TOGETHER

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]:
        # By the names of the files: a saved plan may contain anything about their sessions.
        names = (self._life.parse(each.item.id.rpartition("/")[2]) for each in batch)
        sessions = sorted({parsed.session for parsed in names if parsed})
        unknown = self._life.unknown() if sessions else None
        owners = {} if unknown else self._life.owners(sessions)
        look = functools.partial(self._look, owners, unknown)
        return self._each(batch, look, _unseen, looking=True)

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._each(batch, self._drop, failed, create_trash=True)

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        with storage_errors(f"create {self._folder}"):
            make_private_dir(self._folder)
        return self._each(batch, self._put_back, failed)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        return self._each(batch, _discard, failed, hands=_HANDS)

    def _look(self, owners: Mapping[str, Owner], unknown: str | None, places: _Places) -> Presence:
        original, copy = places.original(), places.earlier_copy()
        judged = places.removal.item.version
        if copy is not None:
            twice = original is not None and os.path.samestat(copy, original)
            changed = not same_content(version_of(copy), judged)
            return Presence(
                here=original is not None,
                copied=True,
                partly=not twice,  # `drop` checks it once more in the trash
                damage=copy_changed(self._trash.path(places.removal)) if changed else "",
                bytes=allocated_bytes(copy),
            )
        if original is None:
            return Presence(here=False, bytes=places.removal.item.bytes)
        obstacle = _changed(places, original)
        if obstacle is not None:
            changed = not same_content(version_of(original), judged)
            return Presence(here=True, changed=changed, obstacle=obstacle)
        owner = owners.get(places.parsed.session)
        obstacle = unknown or self._protected(places, original, owner)
        return Presence(here=True, obstacle=obstacle) if obstacle else IN_PLACE

    def _protected(
        self, places: _Places, status: os.stat_result, owner: Owner | None
    ) -> str | None:
        """Why a file must stay, given the current state of its session. `drop` checks whether a
        process has it open."""
        item = places.removal.item
        if item.goes_with or item.owned:
            if item.goes_with and owner is not None:
                return "its session is in the store"
            if owner is not None and not owner.ended:
                return "its session is open"
            return of_another_user(status)
        if owner is not None:
            return "its session is in the store now"
        return recent(status, self._life.idle, self._clock()) or of_another_user(status)

    def _drop(self, places: _Places) -> Moved:
        if places.earlier_copy() is not None:  # a killed run got this far
            return self._confirm(places, lambda: open_elsewhere(places.copy, places.trash))
        try:
            if places.removal.item.version.startswith(LINK):  # a link itself cannot be open
                places.to_trash()
                return self._confirm(places, lambda: None)
            alone = hold_alone(places.name, places.sessions)
            if isinstance(alone, str):
                return stayed(alone)
            try:
                places.to_trash()
                return self._confirm(places, alone.opened)
            finally:
                alone.let_go()
        except FileNotFoundError:
            return stayed(ALREADY_GONE)

    def _confirm(self, places: _Places, opened: Callable[[], str | None]) -> Moved:
        """The second, final check: the file in the trash must be the one that the plan judged."""
        moved = os.stat(places.copy, dir_fd=places.trash, follow_symlinks=False)
        obstacle = _changed(places, moved) or opened()
        if obstacle is None:
            return Moved(copied=True, bytes=allocated_bytes(moved))
        if _link_back(places):
            _discard(places)
            return stayed(obstacle)
        # A new file already has the name. The old one stays in the trash, where it can be found.
        where = self._trash.path(places.removal)
        return failed(f"{obstacle}, then replaced; the old file is {where}")

    def _put_back(self, places: _Places) -> Moved:
        """Restores only the name. All names are durable before the first copy is removed."""
        copy = places.undo_copy()
        if copy is None:
            return damaged(COPY_MISSING)
        return Moved(copied=True) if _link_back(places) else failed(PLACE_TAKEN)

    def _each(
        self,
        batch: Sequence[Removal],
        step: Callable[[_Places], _Answer],
        refuse: Callable[[str], _Answer],
        *,
        looking: bool = False,
        create_trash: bool = False,
        hands: int = 1,
    ) -> Sequence[_Answer]:
        """Run a step for each item; one that fails does not affect the others."""
        answers: list[_Answer] = []
        for operation, removals in itertools.groupby(batch, key=lambda each: each.operation):
            group = list(removals)
            done: list[_Answer] = []
            try:
                with self._opened(operation, looking, create_trash) as folders:
                    many = (looking or create_trash) and len(group) > _FEW
                    begun = _names_in(folders[1]) if many else None
                    run = functools.partial(self._run, step, refuse, *folders, begun)
                    done = _in_parts(run, group, hands)
            except OSError as error:
                why = f"{self._folder}: {error.strerror}"
                done += [refuse(why) for _ in group[len(done) :]]
            answers += done
        return answers

    def _run(
        self,
        step: Callable[[_Places], _Answer],
        refuse: Callable[[str], _Answer],
        sessions: int | None,
        trash: int | None,
        begun: Collection[str] | None,
        removal: Removal,
    ) -> _Answer:
        folder, _, name = removal.item.id.rpartition("/")
        parsed = self._life.parse(name)
        # A saved plan is a file that anyone may have written: only names in this form are ours.
        if folder != FOLDER or parsed is None or parsed.kind != removal.item.kind:
            return refuse(_FOREIGN_NAME)
        copy = removal.copy_name
        try:
            return step(_Places(removal, parsed, sessions, name, trash, copy, begun))
        except OSError as error:
            return refuse(
                _OTHER_DISK if error.errno == errno.EXDEV else str(error.strerror or error)
            )

    @contextlib.contextmanager
    def _opened(
        self, operation: str, looking: bool, create_trash: bool
    ) -> Iterator[tuple[int | None, int | None]]:
        with contextlib.ExitStack() as stack:
            sessions = None
            with contextlib.suppress(FileNotFoundError):
                sessions = stack.enter_context(open_dir(self._folder))
            trash = stack.enter_context(self._trash.opened(operation, create=create_trash))
            yield sessions, trash
            if looking:
                return
            # New names first, removed names second: a power failure may leave two names, never
            # none.
            for fd in (trash, sessions):
                if fd is not None:
                    os.fsync(fd)
        self._trash.drop_if_empty(operation)


def _names_in(folder: int | None) -> Collection[str]:
    return () if folder is None else frozenset(os.listdir(folder))  # noqa: PTH208 - a descriptor


def _in_parts(
    run: Callable[[Removal], _Answer], batch: Sequence[Removal], hands: int
) -> list[_Answer]:
    """Run a step for each of a batch, split among several threads."""
    if hands == 1:
        return [run(each) for each in batch]
    size = -(-len(batch) // hands)
    parts = [batch[start : start + size] for start in range(0, len(batch), size)]
    done = in_threads(lambda part: [run(each) for each in part], parts, hands)
    return [answer for part in done for answer in part]


def _unseen(why: str) -> Presence:
    return refused(why) if why == _FOREIGN_NAME else unseen(why)


def _changed(places: _Places, status: os.stat_result) -> str | None:
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        return "no longer a file"
    return CHANGED if version_of(status) != places.removal.item.version else None


def _discard(places: _Places) -> Moved:
    copy = places.undo_copy()
    if copy is None:
        return Moved()
    os.unlink(places.copy, dir_fd=places.trash)
    return Moved(copied=True, bytes=allocated_bytes(copy))


def _link_back(places: _Places) -> bool:
    """Give the undo copy its old name, never replacing anything; False if the name is taken."""
    try:
        linked = link_new(places.copy, places.name, folder=places.trash, new_folder=places.sessions)
    except FileExistsError:
        copy, original = places.undo_copy(), places.original()
        # The same file under both names: a killed run got this far.
        return copy is not None and original is not None and os.path.samestat(copy, original)
    if linked:
        return True
    if places.original() is not None:
        return False
    os.rename(places.copy, places.name, src_dir_fd=places.trash, dst_dir_fd=places.sessions)
    return True

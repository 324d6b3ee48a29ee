"""Loose session files in a home's `sessions/` folder: removing them and bringing them back.

Removal is one rename into the trash. That is atomic, keeps times and modes, needs no free
space, and closes the race that a check before an unlink leaves open: once the file is under its
new name nobody can open it by the old one, so the second check, made there, is final.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.homes.artifact_names import ArtifactName
from holdfast.homes.artifact_scan import FOLDER, Life, in_use, signs_of_life
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.ports import Clock
from holdfast.stores.files import (
    allocated_bytes,
    make_private_dir,
    open_dir,
    same_content,
    storage_errors,
    version_of,
)
from holdfast.stores.liveness import open_elsewhere
from holdfast.stores.sqlite.survey import Owner
from holdfast.stores.trash_folder import TrashFolder

_NOT_REACHED = "the run ended before its turn"
_TO_DISCARD = "in the trash for a last look"
#: What `link` says on file systems that have no hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


@dataclass(frozen=True, slots=True)
class _Places:
    """One file's two places, by descriptor: no symlink made meanwhile can lead a rename astray."""

    removal: Removal
    parsed: ArtifactName
    sessions: int
    name: str
    trash_or_none: int | None
    copy: str

    @property
    def trash(self) -> int:
        if self.trash_or_none is None:
            raise FileNotFoundError(errno.ENOENT, "its trash folder is gone")
        return self.trash_or_none

    def original(self) -> os.stat_result | None:
        return _lstat(self.name, self.sessions)

    def undo_copy(self) -> os.stat_result | None:
        return None if self.trash_or_none is None else _lstat(self.copy, self.trash)


_Step = Callable[[_Places], Outcome]


class ArtifactKeeper:
    """Keeps transcripts and request dumps."""

    def __init__(self, root: Path, trash: TrashFolder, clock: Clock, life: Life) -> None:
        self._folder = root / FOLDER
        self.trash = trash
        self._clock = clock
        self._life = life

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Files need nothing."""

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        # By the names of the files: what a saved plan says of their sessions may be anything.
        names = (self._life.parse(each.item.id.rpartition("/")[2]) for each in batch)
        owners = self._life.owners(sorted({parsed.session for parsed in names if parsed}))
        moved = self._each(batch, partial(self._remove, owners), create_trash=True)
        return self._finished(batch, moved)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return self._finished(batch, self._each(batch, self._settle))

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Two at a time: most of the work is the file system's, which frees two files as fast as
        one."""
        middle = len(batch) // 2
        with ThreadPoolExecutor(max_workers=2) as hands:
            halves = hands.map(
                lambda half: self._each(half, self._discard), (batch[:middle], batch[middle:])
            )
            return [outcome for half in halves for outcome in half]

    def _finished(self, batch: Sequence[Removal], moved: Sequence[Outcome]) -> Sequence[Outcome]:
        """Discard what moved to the trash only to be looked at once more."""
        final = [
            removal
            for removal, outcome in zip(batch, moved, strict=True)
            if outcome.reason is _TO_DISCARD
        ]
        if not final:
            return moved
        gone = dict(zip((each.key for each in final), self.discard(final), strict=True))
        return [gone.get(each.key, done) for each, done in zip(batch, moved, strict=True)]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """All names come back and are durable before the first copy loses its own."""
        with storage_errors(f"create {self._folder}"):
            make_private_dir(self._folder)
        outcomes = self._each(batch, self._name_again)
        back = [
            removal
            for removal, outcome in zip(batch, outcomes, strict=True)
            if outcome.result is Result.BROUGHT_BACK
        ]
        self._each(back, self._forget_copy)
        return outcomes

    def _remove(self, owners: Mapping[str, Owner], places: _Places) -> Outcome:
        before = places.original()
        if before is None:
            return places.removal.end(Result.SKIPPED, "already gone")
        obstacle = self._changed(places, before) or self._protected(
            places, before, owners.get(places.parsed.session)
        )
        if obstacle:
            return places.removal.end(Result.SKIPPED, obstacle)
        if places.undo_copy() is not None:  # a rename would replace it
            return places.removal.end(Result.FAILED, "its place in the trash is taken")
        os.rename(places.name, places.copy, src_dir_fd=places.sessions, dst_dir_fd=places.trash)
        return self._confirm(places)

    def _protected(
        self, places: _Places, status: os.stat_result, owner: Owner | None
    ) -> str | None:
        """Why a file must stay as things are now with its session."""
        item = places.removal.item
        if item.goes_with or item.owned:
            if item.goes_with and owner is not None:
                return "its session is in the store"
            if owner is not None and not owner.ended:
                return "its session is open"
            return in_use(status, places.sessions, places.name)
        if owner is not None:
            return "its session is in the store now"
        return signs_of_life(
            status, places.sessions, places.name, owner, self._life.idle, self._clock()
        )

    def _confirm(self, places: _Places) -> Outcome:
        """The second, final look: what lies in the trash must be what the plan judged."""
        moved = os.stat(places.copy, dir_fd=places.trash, follow_symlinks=False)
        obstacle = self._changed(places, moved)
        if obstacle is None and stat.S_ISREG(moved.st_mode):
            obstacle = open_elsewhere(places.copy, places.trash)
        if obstacle is None:
            if not places.removal.item.undoable:
                return places.removal.end(Result.REMOVED, _TO_DISCARD)
            return places.removal.end(Result.REMOVED, in_trash=allocated_bytes(moved))
        if _link_back(places):
            self._forget_copy(places)
            return places.removal.end(Result.SKIPPED, obstacle)
        # A new file has taken the name already. The old one stays in the trash, to be found.
        where = self.trash.path(places.removal)
        return places.removal.end(
            Result.FAILED, f"{obstacle}, then replaced; the old file is {where}"
        )

    def _changed(self, places: _Places, status: os.stat_result) -> str | None:
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            return "no longer a file"
        if version_of(status) != places.removal.item.version:
            return "changed since the plan was made"
        return None

    def _settle(self, places: _Places) -> Outcome:
        if places.undo_copy() is not None:
            return self._confirm(places)
        if places.original() is not None:
            return places.removal.end(Result.SKIPPED, _NOT_REACHED)
        if places.removal.item.undoable:
            return places.removal.end(Result.FAILED, "gone, and not through Holdfast")
        # Killed after the copy was deleted: it was meant to go, and it is gone.
        return places.removal.end(Result.REMOVED, freed=places.removal.item.bytes)

    def _discard(self, places: _Places) -> Outcome:
        copy = places.undo_copy()
        if copy is None:
            return places.removal.end(Result.REMOVED, "its trash copy was gone already")
        os.unlink(places.copy, dir_fd=places.trash)
        return places.removal.end(Result.REMOVED, freed=allocated_bytes(copy))

    def _name_again(self, places: _Places) -> Outcome:
        copy, original = places.undo_copy(), places.original()
        judged = places.removal.item.version
        if copy is None:
            if original is not None and same_content(version_of(original), judged):
                return places.removal.end(Result.BROUGHT_BACK)  # a killed undo had come this far
            return places.removal.end(Result.DAMAGED, "its copy is no longer in the trash")
        if not same_content(version_of(copy), judged):
            where = self.trash.path(places.removal)
            return places.removal.end(Result.DAMAGED, f"its copy in the trash was changed: {where}")
        if _link_back(places):
            return places.removal.end(Result.BROUGHT_BACK)
        return places.removal.end(Result.FAILED, "its place is taken; the copy stays in the trash")

    def _forget_copy(self, places: _Places) -> Outcome:
        if places.undo_copy() is not None:
            os.unlink(places.copy, dir_fd=places.trash)
        return places.removal.end(Result.BROUGHT_BACK)

    def _each(
        self, batch: Sequence[Removal], step: _Step, *, create_trash: bool = False
    ) -> Sequence[Outcome]:
        """Run a step for each item; one that fails does not cost the others."""
        outcomes: list[Outcome] = []
        for operation, removals in itertools.groupby(batch, key=lambda each: each.operation):
            group = list(removals)
            try:
                with self._opened(operation, create_trash) as (sessions, trash):
                    outcomes += [self._run(step, removal, sessions, trash) for removal in group]
            except OSError as error:
                done = len(outcomes)  # opening failed: none of this group was reached
                outcomes += [
                    removal.end(Result.FAILED, f"{self._folder}: {error.strerror}")
                    for removal in batch[done : done + len(group)]
                ]
        return outcomes

    def _run(self, step: _Step, removal: Removal, sessions: int, trash: int | None) -> Outcome:
        folder, _, name = removal.item.id.rpartition("/")
        parsed = self._life.parse(name)
        # A saved plan is a file that anybody may have written: only such names are ours.
        if folder != FOLDER or parsed is None or parsed.kind != removal.item.kind:
            return removal.end(Result.FAILED, "not the name of a session file")
        copy = self.trash.name(removal)
        try:
            return step(_Places(removal, parsed, sessions, name, trash, copy))
        except OSError as error:
            reason = str(error.strerror or error)
            if error.errno == errno.EXDEV:
                reason = "on another file system than the trash"
            return removal.end(Result.FAILED, reason)

    @contextlib.contextmanager
    def _opened(self, operation: str, create_trash: bool) -> Iterator[tuple[int, int | None]]:
        with (
            open_dir(self._folder) as sessions,
            self.trash.opened(operation, create=create_trash) as trash,
        ):
            yield sessions, trash
            # New names first, lost names second: a power cut may leave two, never none.
            for fd in (trash, sessions):
                if fd is not None:
                    os.fsync(fd)
        self.trash.drop_if_empty(operation)


def _link_back(places: _Places) -> bool:
    """Give the undo copy its old name, never replacing anything; False when the place is taken."""
    try:
        os.link(
            places.copy,
            places.name,
            src_dir_fd=places.trash,
            dst_dir_fd=places.sessions,
            follow_symlinks=False,
        )
    except FileExistsError:
        copy, original = places.undo_copy(), places.original()
        # The same file under both names: a killed run had come this far.
        return copy is not None and original is not None and os.path.samestat(copy, original)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if places.original() is not None:
            return False
        os.rename(places.copy, places.name, src_dir_fd=places.trash, dst_dir_fd=places.sessions)
    return True


def _lstat(name: str, dir_fd: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None

"""The check-up of a home (permissions, store, archive, checkpoints, log, trash) and its repair."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import DamageError, HoldfastError
from holdfast.homes import permissions
from holdfast.homes.checkpoints import open_store as checkpoints
from holdfast.homes.home import Ground
from holdfast.homes.kind import DATABASE, LOG, is_certain
from holdfast.homes.lost_database import PUT_IT_BACK, why_lost
from holdfast.homes.sessions.mover import bundles
from holdfast.homes.trash_check import adrift, missing_records
from holdfast.model.checkup import Finding, Repair, Severity
from holdfast.model.item import ARCHIVED_KINDS, LEFTOVER, REQUEST_DUMP, SESSION, TRANSCRIPT, VAULTED
from holdfast.model.operation import LogView, OperationState, Removal, TrashEntry
from holdfast.model.text import format_bytes, format_count
from holdfast.ports.archive import Archive, Vault
from holdfast.ports.runs import Progress
from holdfast.ports.sessions import SessionCopies, SessionEngine, SessionStore
from holdfast.stores.checkpoints import creation, repository
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.files import OTHERS, PRIVATE_DIR, storage_errors
from holdfast.stores.sqlite import checkup as store_checkup
from holdfast.stores.sqlite import repair as store_repair
from holdfast.stores.sqlite.bundle import BundleFolder
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.homes.foreign.home import FormatContents

UNFINISHED = "operations"
_CHECKPOINTS = "checkpoint store"
_PERMISSIONS = "permissions"
#: The folders of a home that only its owner may read: conversations are private.
_PRIVATE = ("sessions", "archive", "operations", "trash", "checkpoints")
_IN_TRASH_BY_NAME = (TRANSCRIPT, REQUEST_DUMP)
_UNITS = (SESSION, LEFTOVER, VAULTED)
_FORMAT = "format"
_INDEX = "index"
_STORE = "session store"
_UNSURE = (
    "This folder has nothing that only Holdfast writes, so `--repair` leaves its files alone. If "
    "it is a home, take these permissions away with chmod."
)
_BY_HAND = (
    "If you have a backup of the home, copy the missing files of its operations folder from there. "
    "Otherwise recover what you need by hand: files keep their names, `record.json` lists where "
    "the files of a session were, and `*.sessions.db` are SQLite files. Delete the rest."
)


class HomeCheckup:
    """The check-up of one home. `look` creates and changes nothing."""

    def __init__(self, ground: Ground, database: str, archive: Archive) -> None:
        """`database` is the name of the database in our own folder."""
        self._archive = archive
        self._top = ground.root
        self._root = ground.state
        self._is_own = ground.state == ground.root
        #: A folder of the user may have some of the names of a home. Nobody wants the modes of its
        #: files changed.
        self._is_sure = not self._is_own or is_certain(ground.root)
        self._database = database
        self._log = ground.log
        self._trash = ground.trash

    def look(self, progress: Progress) -> Iterator[Finding]:
        own = self._is_own and self._is_sure
        yield permissions.look(self._top, self._written, is_own=own)
        yield self._look_at_permissions()
        yield from self._look_at_store(progress)
        try:
            view = self._log.read()
        except OSError as error:
            yield _archive(self._archive, (), progress)
            yield self._look_at_checkpoints()
            yield _damage("operation log", f"it cannot be read: {error.strerror or error}")
            return
        yield _archive(self._archive, view.trash, progress)
        yield self._look_at_checkpoints()
        yield _log(view)
        yield self._in_trash(view)
        yield _unfinished(view)

    def give_access(self, findings: Sequence[Finding]) -> Iterator[Repair]:
        """Restore access before any other repair: without it the lock cannot be taken."""
        if any(each.check == permissions.CHECK and each.repairable for each in findings):
            yield permissions.mend(self._top, self._written)

    def mend(
        self, findings: Sequence[Finding], *, now: float, progress: Progress
    ) -> Iterator[Repair]:
        """Repair the repairable ones among these findings; the caller holds the home's lock."""
        wanted = {finding.check for finding in findings if finding.repairable}
        if _PERMISSIONS in wanted:
            yield self._tighten()
        yield from self._mend_store(wanted, now, progress)
        if _CHECKPOINTS in wanted:
            yield Repair(steps=(creation.mend(self._checkpoints),))

    @property
    def _written(self) -> tuple[Path, ...]:
        """The folders whose files we write, rather than only move or remove."""
        return (self._root, self._root / LOG)

    def _look_at_permissions(self) -> Finding:
        """In another agent's home, check only our own folder: that agent decides who may read its
        files, and a copy in the trash keeps its mode so that it can be restored."""
        if self._is_own:
            found = _check_permissions(self._root, self._database)
            if found.repairable and not self._is_sure:
                return replace(found, repairable=False, advice=_UNSURE)
            return found
        if is_private(self._root):
            return Finding(check=_PERMISSIONS)
        return _warning(
            _PERMISSIONS,
            f"other users of this machine can read {self._root}",
            advice="`holdfast doctor --repair` makes it private to you.",
            repairable=True,
        )

    def _look_at_store(self, progress: Progress) -> Iterator[Finding]:
        path = self._root / self._database
        if (why := why_lost(path, ours=True)) is not None:
            yield _warning(_STORE, f"{path.name} {why}", PUT_IT_BACK)
            return
        yield from store_checkup.check(path, progress)

    def _mend_store(self, wanted: set[str], now: float, progress: Progress) -> Iterator[Repair]:
        of_store = wanted.intersection(store_checkup.CHECKS)
        path = self._root / self._database
        if of_store == {store_checkup.WAL}:
            yield store_repair.fold_log(path)
        elif of_store:
            stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
            yield store_repair.repair(path, stamp=stamp, progress=progress)

    @property
    def _checkpoints(self) -> Layout:
        return Layout(folder=self._root / checkpoints.FOLDER)

    def _look_at_checkpoints(self) -> Finding:
        if not creation.is_half_made(self._checkpoints):
            return _usable(self._checkpoints)
        return _warning(
            _CHECKPOINTS,
            f"{self._checkpoints.store} is incomplete: its creation was interrupted",
            advice="The next checkpoint that is taken finishes it, and so does "
            "`holdfast doctor --repair`.",
            repairable=True,
        )

    def _tighten(self) -> Repair:
        if not self._is_own:
            with storage_errors(f"change {self._root}"):
                self._root.chmod(PRIVATE_DIR)
            return Repair(steps=(f"made {self._root} private",))
        changed, refused = _tighten(self._root, self._database)
        steps = [f"made {format_count(changed, 'file or folder', 'files and folders')} private"]
        if refused:
            steps.append(f"could not change {format_count(len(refused), 'other')}: {refused[0]}")
        return Repair(steps=tuple(steps))

    def _in_trash(self, view: LogView) -> Finding:
        missing = list(self._without_copy(view))
        if missing:
            what = format_count(len(missing), "undo copy", "undo copies")
            first = missing[0]
            return _damage(
                "trash",
                f"{what} in the log are missing or changed, first {first.item.id} of operation "
                f"{first.operation}",
                "What is missing cannot be brought back from here. If you have a backup of the "
                "home, copy its trash folder from there.",
            )
        lost = list(adrift(self._trash.root, view))
        if not lost:
            return Finding(check="trash")
        size = format_bytes(sum(each.bytes for each in lost))
        return Finding(
            check="trash",
            severity=Severity.WARNING if all(each.recorded for each in lost) else Severity.DAMAGE,
            message=f"{size} in the trash is not in the record of any operation, first "
            f"{lost[0].path}: an undo cannot restore it, and it is never emptied",
            advice=_BY_HAND,
        )

    def _copies(self, operation: str) -> SessionCopies:
        return BundleFolder(bundles(self._trash, operation))

    def _without_copy(self, view: LogView) -> Iterator[Removal]:
        sessions: dict[str, list[Removal]] = defaultdict(list)
        for entry in view.trash:
            if entry.removal.item.kind == SESSION:
                sessions[entry.removal.operation].append(entry.removal)
            elif entry.removal.item.kind in _IN_TRASH_BY_NAME and not os.path.lexists(
                self._trash.path(entry.removal)
            ):
                yield entry.removal
        for operation, removals in sessions.items():
            held = self._copies(operation).holding([removal.number for removal in removals])
            there = {number for numbers in held.values() for number in numbers}
            yield from (removal for removal in removals if removal.number not in there)


class PostgresCheckup(HomeCheckup):
    """The check-up of a home whose sessions are in PostgreSQL: the files on this machine, and
    whether the store answers. The server looks after its own files."""

    def __init__(
        self,
        ground: Ground,
        archive: Archive,
        store: Callable[[], SessionStore],
        engine: Callable[[], SessionEngine],
    ) -> None:
        super().__init__(ground, DATABASE, archive)
        self._store = store
        self._engine = engine

    def look(self, progress: Progress) -> Iterator[Finding]:
        """If the server does not answer, the log and the trash, which are stored there, cannot be
        checked; the files on this machine are checked anyway."""
        try:
            self._store().sources()
        except DamageError as error:
            yield from self._look_here(_damage(_STORE, error.message, error.hint or ""), progress)
        except HoldfastError as error:
            yield from self._look_here(_warning(_STORE, error.message, error.hint or ""), progress)
        else:
            yield from super().look(progress)

    def _look_here(self, of_store: Finding, progress: Progress) -> Iterator[Finding]:
        yield permissions.look(self._top, self._written, is_own=self._is_own)
        yield self._look_at_permissions()
        yield of_store
        yield _archive(self._archive, (), progress)
        yield self._look_at_checkpoints()

    def _look_at_store(self, progress: Progress) -> Iterator[Finding]:
        yield Finding(check=_STORE)

    def _mend_store(self, wanted: set[str], now: float, progress: Progress) -> Iterator[Repair]:
        yield from ()

    def _copies(self, operation: str) -> SessionCopies:
        return self._engine().copies(bundles(self._trash, operation))


class FormatCheckup(HomeCheckup):
    """The check-up of a home that has a format: our own files, and whether we know the version of
    the format. The agent's files are read but never repaired."""

    def __init__(self, contents: FormatContents, archive: Archive) -> None:
        super().__init__(contents.ground, "", archive)
        self._vault = contents.kept()
        self._format = contents.form
        self._mirror = contents.mirror
        self._units = contents.units

    def _look_at_store(self, progress: Progress) -> Iterator[Finding]:
        agent = self._format.facts.agent
        doubt = self._format.doubt(self._top)
        yield Finding(
            check=_FORMAT,
            severity=Severity.OK if doubt is None else Severity.WARNING,
            message=f"known; the files of {agent} are read, but never checked or repaired"
            if doubt is None
            else f"{doubt}; it can be read, but is never changed",
            advice="" if doubt is None else "A later version of Holdfast may support it.",
        )
        yield _index(store_checkup.check(self._mirror.database, progress))
        if self._vault.figures().sessions:
            yield _vault(self._vault, progress)

    def _mend_store(self, wanted: set[str], now: float, progress: Progress) -> Iterator[Repair]:
        if _INDEX in wanted:
            self._mirror.clear()
            yield Repair(steps=("removed the index; the next command that reads builds a new one",))

    def _without_copy(self, view: LogView) -> Iterator[Removal]:
        of_units = [each.removal for each in view.trash if each.removal.item.kind in _UNITS]
        yield from self._units.without_copy(of_units)


def _vault(vault: Vault, progress: Progress) -> Finding:
    """Damage here is serious: for the sessions that only the vault holds, there is no other
    copy."""
    try:
        problems = [*vault.problems(), *vault.damage(progress)]
    except HoldfastError as error:
        return _warning("vault", error.message, error.hint or "")
    if not problems:
        return Finding(check="vault")
    first = problems[0]
    return _damage(
        "vault",
        f"{format_count(len(problems), 'problem')}, first {first.path}: {first.reason}",
        "The other sessions in it are not affected. If you have a backup of the vault, copy the "
        "files of this session from there.",
    )


def _index(findings: Sequence[Finding]) -> Finding:
    """The index is a cache: if anything is wrong with it, rebuilding it only costs time."""
    wrong = next((each for each in findings if each.severity is Severity.DAMAGE), None)
    if wrong is None:
        return Finding(check=_INDEX)
    return _warning(
        _INDEX,
        f"it is damaged ({wrong.check}): {wrong.message}",
        advice="Nothing is lost: it is built from the agent's files. "
        "`holdfast doctor --repair` removes it.",
        repairable=True,
    )


def _usable(layout: Layout) -> Finding:
    try:
        if layout.exists():
            repository.check(layout)
    except HoldfastError as error:
        return _damage(_CHECKPOINTS, error.message, error.hint or "")
    return Finding(check=_CHECKPOINTS)


def _archive(archive: Archive, trash: Sequence[TrashEntry], progress: Progress) -> Finding:
    """The state of the archive. Only what earlier versions left there can be repaired."""
    try:
        archive.check()
        problems = [each for each in archive.problems() if each != archive.left_behind()]
        removed = [each.removal for each in trash if each.removal.item.kind in ARCHIVED_KINDS]
        problems += archive.damage(removed, progress)
        left = len(archive.leftovers())
        behind = archive.left_behind()
    except HoldfastError as error:
        return _warning("archive", error.message, error.hint or "")
    if len(problems) > left:
        first = next(each for each in problems if Path(each.path) not in archive.leftovers())
        return _damage(
            "archive",
            f"{format_count(len(problems) - left, 'problem')}, first {first.path}: {first.reason}",
            "The other bundles are not affected. A damaged one cannot be restored; if you have a "
            "backup of the archive, copy it from there.",
        )
    if behind is not None and not left:
        return _warning("archive", f"{behind.path} {behind.reason}")
    if not left:
        return Finding(check="archive", message=archive.remark() or "fine")
    return _warning(
        "archive",
        f"{format_count(left, 'file')} of earlier versions, first {problems[0].path}, "
        "which no command lists or removes",
        advice="Maintenance or `holdfast doctor --repair` moves them into the archive.",
        repairable=True,
    )


def _log(view: LogView) -> Finding:
    missing = missing_records(view)
    if view.problems:
        what = format_count(len(view.problems), "operation")
        return _damage(
            "operation log",
            f"the record of {what} cannot be read: {view.problems[0].reason}",
            "Other operations are not affected. Keep the file: it is a receipt.",
        )
    if missing:
        return _damage(
            "operation log",
            f"{_records(missing)} missing; an operation without its record cannot be undone",
            "If you have a backup of the home, copy its operations folder from there.",
        )
    return Finding(check="operation log")


def _records(missing: Sequence[str]) -> str:
    if len(missing) == 1:
        return f"the record of operation {missing[0]} is"
    return f"the records of {len(missing):,} operations, first {missing[0]}, are"


def _unfinished(view: LogView) -> Finding:
    unfinished = [each.id for each in view.operations if each.state is OperationState.UNFINISHED]
    if not unfinished:
        return Finding(check=UNFINISHED)
    return _warning(
        UNFINISHED,
        f"interrupted, or still running: {', '.join(unfinished)}",
        advice="The next command that changes the home settles it, and so does "
        "`holdfast doctor --repair`.",
        repairable=True,
    )


def _warning(check: str, message: str, advice: str = "", *, repairable: bool = False) -> Finding:
    return Finding(
        check=check,
        severity=Severity.WARNING,
        message=message,
        advice=advice,
        repairable=repairable,
    )


def _damage(check: str, message: str, advice: str = "") -> Finding:
    return Finding(check=check, severity=Severity.DAMAGE, message=message, advice=advice)


def _check_permissions(root: Path, database: str) -> Finding:
    """Report files and folders of a home that other users can read or enter."""
    open_to_others = [path for path, mode in _entries(root, database) if mode & OTHERS]
    if not open_to_others:
        return Finding(check=_PERMISSIONS)
    others = format_count(len(open_to_others), "file or folder", "files and folders")
    first = open_to_others[0]
    shown = str(first) if first == root else str(first.relative_to(root))
    return _warning(
        _PERMISSIONS,
        f"{others} can be read by other users of this machine, first {shown}",
        advice="`holdfast doctor --repair` makes them private to you.",
        repairable=True,
    )


def is_private(folder: Path) -> bool:
    """True if only its owner can read the folder, or if it does not exist."""
    return not any(mode & OTHERS for _, mode in _entry(folder))


def _tighten(root: Path, database: str) -> tuple[int, list[str]]:
    """Remove all permissions of other users. Return the number of changed entries, and those that
    could not be changed.

    The home itself comes first: after that no other user can replace a file with a link.
    """
    changed = 0
    refused = []
    for path, mode in _entries(root, database):
        if mode & OTHERS:
            try:
                path.chmod(mode & ~OTHERS)
            except OSError as error:
                refused.append(f"{path}: {error.strerror}")
            else:
                changed += 1
    return changed, refused


def _entries(root: Path, database: str) -> Iterator[tuple[Path, int]]:
    """Private entries of a home with their modes, top down. Links are not followed: they have no
    permissions of their own, and their targets may belong to another user."""
    yield from _entry(root)
    for path in sorted(root.glob(f"{database}*")):
        yield from _entry(path)
    for name in _PRIVATE:
        if not (root / name).is_symlink():
            for folder, folders, files in os.walk(root / name):
                yield from _entry(Path(folder))
                folders.sort()
                for file in sorted(files):
                    yield from _entry(Path(folder, file))


def _entry(path: Path) -> Iterator[tuple[Path, int]]:
    try:
        status = path.lstat()
    except OSError:
        return  # it was removed in the meantime
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        yield path, stat.S_IMODE(status.st_mode)

"""Carry out the steps of a restore on a working tree, or predict what they would leave alone.

Each step looks first. A path that matches the old tree is changed. A path that matches the new tree
was already done by a killed run. Anything else is the user's: it stays and is reported. So a run
can be repeated or reversed at any point.
"""

from __future__ import annotations

import contextlib
import errno
import stat
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from holdfast.model.checkpoint import Change, ChangeKind, NotCaptured
from holdfast.stores.checkpoints.restore_plan import Modes, NewFolder, Steps, above, new_folders
from holdfast.stores.checkpoints.working_tree import NO_WAY, ChangedError, PathState, WorkingTree
from holdfast.stores.files import PRIVATE_DIR
from holdfast.stores.flush_disk import can_flush_disk, is_quick
from holdfast.stores.git.trees import path_bytes, path_text

CHANGED = "changed since the safety checkpoint"
CHANGED_SINCE_PREVIEW = "changed since the preview"
UNCAPTURED = "ignored now, or created meanwhile: no safety checkpoint holds it"
NOT_EMPTY = "a directory that contains something that was not captured"
IN_THE_WAY = "something that was not captured is in the way"
#: Errors that concern only one path. Any other error, such as a full disk, ends the run.
_OF_ONE_PATH = {
    errno.EACCES,
    errno.EPERM,
    errno.EBUSY,
    errno.ETXTBSY,
    errno.EINVAL,
    errno.EILSEQ,
    errno.ENAMETOOLONG,
    errno.EISDIR,
    errno.EEXIST,
    errno.ENOTEMPTY,
    *NO_WAY,
}

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)

Blob = Callable[[str], bytes]

_THREADS = 32
#: Above these numbers of files there is one flush at the end: always, or only if the disk has
#: little else to write.
MANY = 64
SOME = 8


class RestoreRun:
    """One run over one working tree. `uncaptured` has the reason why the old tree lacks a path;
    `again` means that a previous run was killed."""

    def __init__(
        self,
        tree: WorkingTree,
        blob: Blob,
        uncaptured: Mapping[str, str],
        *,
        again: bool = False,
    ) -> None:
        self._tree = tree
        self._blob = blob
        self._uncaptured = uncaptured
        self._again = again
        self._stopped = False
        self._made: set[str] = set()
        self._staying: set[str] = set()
        #: The files that this run has written or deleted so far.
        self.done: set[str] = set()
        self._kept: dict[str, str] = {}

    def perform(self, steps: Steps) -> tuple[NotCaptured, ...]:
        """Perform all steps; return the paths that were left alone."""
        with self._tree.unlocked():
            if not _is_flushed_at_the_end(len(steps.written)):
                return self._perform(steps)
            with self._tree.flushed_at_the_end():
                return self._perform(steps, many=True)

    def _perform(self, steps: Steps, *, many: bool = False) -> tuple[NotCaptured, ...]:
        self._spare(steps)
        for change in _by_folder(steps.unlinked):
            with self._keeping(change.path):
                self._unlink(change)
        for path in steps.removed:
            with self._keeping(path):
                if not self._tree.remove(path_bytes(path)):
                    self._staying.add(path)
                    self._keep_directory(path)
                    if self._again:  # the killed run may have opened it
                        self._tree.close_up(path_bytes(path), steps.modes_before[path])
        if many:
            folders, rest = new_folders(self._tree, steps)
            self._make(rest.made)
            self._write_many(folders, _by_folder(rest.written))
        else:
            self._make(steps.made)
            self._write_all(_by_folder(steps.written))
        for path, modes in steps.modes.items():
            with self._keeping(path):
                self._set_mode(path, modes)
        for folder in sorted(self._tree.opened_up, reverse=True):
            path = path_text(folder)
            if path not in steps.modes or path in self._kept:
                with self._keeping(path):
                    self._tree.close_up(folder, self._tree.opened_up[folder])
        return self._told()

    def untouched(self) -> frozenset[str]:
        """Return every path that stays (or would stay) as it is, reported or not."""
        return frozenset(self._staying | self._kept.keys())

    def foresee(self, steps: Steps) -> tuple[NotCaptured, ...]:
        """Return what `perform` would leave alone. Changes nothing."""
        self._spare(steps)
        going = {each.path for each in steps.unlinked} - self._kept.keys()
        staying = self._staying
        for path in steps.removed:
            inside = {f"{path}/{name}" for name in self._names(path)}
            if inside - going:
                staying.add(path)
                self._keep_directory(path)
            else:
                going.add(path)
        self._foresee_made(steps.made, going)
        for change in steps.written:
            if any(place in self._kept for place in above(change.path)):
                self._kept[change.path] = IN_THE_WAY
            elif change.path in staying:
                self._kept[change.path] = NOT_EMPTY
            elif change.old is None and change.path not in going:
                with self._keeping(change.path):
                    self._foresee_new(change)
        for path in steps.modes.keys() - going:
            with self._keeping(path):
                self._has_mode(path, steps.modes[path])
        return self._told()

    def find_changed(self, steps: Steps) -> None:
        """Find the files that match neither tree; `perform` leaves them alone. Call this before
        `foresee` if the old tree is not from a fresh look."""
        for change in (*steps.unlinked, *steps.written):
            if change.old is None:
                continue  # `foresee` looks at these itself
            with self._keeping(change.path):
                seen = self._tree.look(path_bytes(change.path))
                if seen is None or (seen.is_directory and change.kind is ChangeKind.TYPE):
                    continue
                if not (seen.is_like(change.old) or seen.is_like(change.new)):
                    self._keep(change, seen)

    def clear(self, steps: Steps) -> None:
        """Remove the temporary files and directories of a killed run."""
        for change in (*steps.unlinked, *steps.written):
            self._tree.clear(path_bytes(change.path))
        for path in (*steps.made, *steps.removed):
            self._tree.clear_folder(path_bytes(path))

    # --- One path ---------------------------------------------------------------------------------

    def _unlink(self, change: Change) -> None:
        path = path_bytes(change.path)
        seen = self._tree.look(path)
        if seen is None or (seen.is_directory and change.kind is ChangeKind.TYPE):
            return  # already done: gone, or replaced by a directory
        if seen.is_like(change.old):
            self._tree.unlink(path, seen)
            self.done.add(change.path)
        else:
            self._keep(change, seen)

    def _make(self, paths: Sequence[str]) -> None:
        for path in paths:
            with self._keeping(path):
                if self._tree.make(path_bytes(path)) or self._again:
                    self._made.add(path)

    def _write_all(self, changes: Sequence[Change]) -> None:
        """Write files, each with an fsync before its rename. Many threads fsync at once, which
        costs little more than one fsync: ext4 writes a file anyway when it is renamed over
        another."""
        each = max(1, -(-len(changes) // _THREADS))
        some = [changes[place : place + each] for place in range(0, len(changes), each)]
        if len(some) <= 1:
            self._write_some(self._tree, changes)
            return
        try:
            with ThreadPoolExecutor(_THREADS) as pool:
                for _ in pool.map(self._write_in_thread, some):
                    continue
        except OSError as error:
            if error.errno not in _TOO_MANY_OPEN:
                raise
            # One thread needs few descriptors. Finished files cost one look each.
            self._stopped = False
            self._write_some(self._tree, changes)

    def _write_many(self, folders: Sequence[NewFolder], changes: Sequence[Change]) -> None:
        """Write all files under temporary names, flush once, then rename them. The write-order rule
        holds as for a single file; a new directory is renamed with all of its files."""
        staged: list[tuple[Change, PathState | None]] = []
        unnamed = {folder.path: folder for folder in folders}
        try:
            for folder in folders:
                self._build(folder)
            for change in changes:
                with self._keeping(change.path):
                    self._write(self._tree, change, staged)
            self._tree.flush_disk()
            for folder in folders:
                if self._tree.give_folder_name(path_bytes(folder.path)):
                    self._note_built(unnamed.pop(folder.path))
            self._give_names(staged)
        except BaseException as error:
            for change, _ in staged:
                self._tree.clear(path_bytes(change.path))
            for path in unnamed:
                self._tree.clear_folder(path_bytes(path))
            if not isinstance(error, OSError) or error.errno not in _NO_ROOM:
                raise
            # One at a time takes less room: each file frees the space of the one it replaces.
            self._write_in_thread([each for each in changes if each.path not in self.done])
        for folder in unnamed.values():
            self._write_one_by_one(folder)

    def _give_names(self, staged: Sequence[tuple[Change, PathState | None]]) -> None:
        for change, seen in staged:
            with self._keeping(change.path):
                self._tree.give_name(path_bytes(change.path), seen)
                self.done.add(change.path)

    def _build(self, folder: NewFolder) -> None:
        """Build a directory aside with everything in it. No other process works in it, so nothing
        has to be looked at."""
        with contextlib.ExitStack() as cleanup:
            try:
                aside = cleanup.enter_context(self._tree.make_aside(path_bytes(folder.path)))
            except OSError as error:
                if error.errno not in _OF_ONE_PATH:
                    raise
                return  # it is not renamed either, and then each path reports why
            for path in folder.made:
                if path != folder.path:
                    with self._keeping(path):
                        aside.make(folder.inside(path))
            for change in _by_folder(folder.written):
                if change.new is not None:
                    with self._keeping(change.path):
                        content = self._blob(change.new.oid)
                        aside.create(folder.inside(change.path), change.new, content)

    def _note_built(self, folder: NewFolder) -> None:
        self._made.update(folder.made)
        paths = (change.path for change in folder.written)
        self.done.update(path for path in paths if path not in self._kept)

    def _write_one_by_one(self, folder: NewFolder) -> None:
        """Write a folder path by path, because another process created it meanwhile or there was no
        room for all of it at once. Earlier failures of its paths are forgotten."""
        for path in (*folder.made, *(change.path for change in folder.written)):
            self._kept.pop(path, None)
        self._make(folder.made)
        self._write_in_thread(_by_folder(folder.written))

    def _write_in_thread(self, changes: Sequence[Change]) -> None:
        """Write one portion in a thread. After an error that ends the run, no other is started."""
        if self._stopped:
            return
        try:
            with self._tree.again() as tree:
                self._write_some(tree, changes)
        except BaseException:
            self._stopped = True
            raise

    def _write_some(self, tree: WorkingTree, changes: Sequence[Change]) -> None:
        for change in changes:
            with self._keeping(change.path):
                self._write(tree, change)

    def _write(
        self,
        tree: WorkingTree,
        change: Change,
        staged: list[tuple[Change, PathState | None]] | None = None,
    ) -> None:
        """Write one file; with `staged`, add it there and leave the rename for later."""
        entry = change.new
        if entry is None:
            return
        path, content = path_bytes(change.path), self._blob(entry.oid)
        seen = tree.look(path, size=len(content) if change.old is None else None)
        if seen is not None and seen.is_like(entry):
            return
        if seen is not None and not seen.is_like(change.old):
            self._keep(change, seen)
            return
        if seen is not None and not entry.is_link and seen.oid == entry.oid:
            tree.set_mode(path, entry.permissions)
        elif staged is not None:
            tree.stage(path, entry, content, seen)
            staged.append((change, seen))
            return
        else:
            tree.put(path, entry, content, seen)
        self.done.add(change.path)

    def _set_mode(self, path: str, modes: Modes) -> None:
        if self._has_mode(path, modes) is False:
            self._tree.set_directory_mode(path_bytes(path), modes.new)

    def _has_mode(self, path: str, modes: Modes) -> bool | None:
        """True if a directory has its new permissions. None if it does not exist, which is already
        reported, or if its permissions were changed by someone else, which is recorded."""
        seen = self._tree.look(path_bytes(path), size=-1)
        if seen is None or not seen.is_directory:
            return None
        now = stat.S_IMODE(seen.status.st_mode)
        if modes.old is None:
            # In a directory with the set-group-ID bit, a new directory inherits that bit.
            ours = {PRIVATE_DIR, PRIVATE_DIR | stat.S_ISGID} if path in self._made else set()
            if self._again:  # a run in the other direction was killed when it had opened it
                ours.add(modes.new | PRIVATE_DIR)
        else:  # as it was, or as a run opened it to work in it
            ours = {modes.old, modes.old | PRIVATE_DIR}
        if now != modes.new and now not in ours:
            self._kept[path] = UNCAPTURED if modes.old is None else CHANGED
            return None
        return now == modes.new

    def _foresee_made(self, paths: Sequence[str], going: Container[str]) -> None:
        for path in paths:
            seen = None if path in going else self._tree.look(path_bytes(path), size=-1)
            blocked = any(place in self._kept for place in above(path))
            if blocked or (seen is not None and not seen.is_directory):
                self._kept[path] = IN_THE_WAY
            elif self._again:
                self._made.add(path)

    def _foresee_new(self, change: Change) -> None:
        if change.new is None:
            return
        size = len(self._blob(change.new.oid))
        seen = self._tree.look(path_bytes(change.path), size=size)
        if seen is not None and not seen.is_like(change.new):
            self._keep(change, seen)

    def _names(self, path: str) -> Iterator[str]:
        return (
            name.decode("utf-8", "surrogateescape") for name in self._tree.names(path_bytes(path))
        )

    # --- What stays -------------------------------------------------------------------------------

    def _keep(self, change: Change, seen: PathState) -> None:
        why = self._uncaptured.get(change.path)
        if why is None and seen.is_directory:
            why = NOT_EMPTY
        elif why is None:
            why = UNCAPTURED if change.old is None else CHANGED
        self._kept[change.path] = why

    def _keep_directory(self, path: str) -> None:
        """Report a directory unless something in it is reported, which explains it."""
        if not any(kept.startswith(f"{path}/") for kept in self._kept):
            self._kept[path] = NOT_EMPTY

    @contextlib.contextmanager
    def _keeping(self, path: str) -> Iterator[None]:
        """An error at one path does not stop the others."""
        try:
            yield
        except ChangedError:
            self._kept[path] = CHANGED
        except OSError as error:
            if error.errno not in _OF_ONE_PATH:
                raise
            way = error.errno in NO_WAY or error.errno == errno.EEXIST
            self._kept[path] = IN_THE_WAY if way else str(error.strerror)

    def _spare(self, steps: Steps) -> None:
        self._kept |= {each.path: each.reason for each in steps.spared}

    def _told(self) -> tuple[NotCaptured, ...]:
        return tuple(NotCaptured(path=path, reason=self._kept[path]) for path in sorted(self._kept))


def _is_flushed_at_the_end(files: int) -> bool:
    return (files > MANY and can_flush_disk()) or (files > SOME and is_quick())


def _by_folder(changes: Sequence[Change]) -> list[Change]:
    """Sort by directory, so that each is opened and flushed once."""
    return sorted(changes, key=lambda change: change.path.rpartition("/"))

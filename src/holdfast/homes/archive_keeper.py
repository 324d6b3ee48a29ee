"""Sessions that go from the store into the archive, and come back when that is undone.

Write-order rule: the bundle is on the disk and was read back before the catalogue has its line,
and that is on the disk before the rows go. On the way back the rows and files come first, then the
line goes, then the bundle. What the log calls undo copy is the bundle itself: it is no trash.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Mapping, Sequence

from holdfast.errors import DamageError, HoldfastError, StorageError, UnknownSessionError
from holdfast.homes.archive_files import SessionFolder
from holdfast.homes.archive_packing import Packer
from holdfast.homes.archive_return import Returner
from holdfast.homes.archive_rows import Ended, Rows
from holdfast.model.archived import ArchivedSession, Holds
from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.archive import bundle
from holdfast.stores.archive.archive import SessionArchive

NO_ROOM = "no room left in the archive; it stays in the store"
_WAY_OUT = (
    "Without an archive: `holdfast sessions prune --now`; in another place: `folder` of [archive]"
)
_NO_STORE = "there is no session store in this home"
_NOT_REACHED = "the run ended before its turn"
_FULL = (errno.ENOSPC, errno.EDQUOT)


class ArchiveKeeper:
    """Archives sessions of a store."""

    def __init__(
        self,
        archive: SessionArchive,
        rows: Callable[[], Rows | None],
        files: SessionFolder,
        *,
        packer: Packer,
    ) -> None:
        self._archive = archive
        self._rows = rows
        self._files = files
        self._packer = packer
        self._returner = Returner(archive, rows, files)

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Lines for bundles that lost theirs. What stands in the way is said of each session."""
        with contextlib.suppress(HoldfastError, OSError):
            self._archive.make()
            self._archive.heal()

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return outcomes(batch, self._remove)

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return outcomes(batch, self._settle)

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """An archived session is no trash: emptying that leaves its bundle alone."""
        return [outcome(each, (Result.REMOVED, "")) for each in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return outcomes(batch, self._bring_back)

    # --- Out --------------------------------------------------------------------------------------

    def _remove(self, batch: Sequence[Removal]) -> Mapping[str, Ended]:
        rows = self._rows()
        if rows is None:
            return {each.item.id: (Result.FAILED, _NO_STORE) for each in batch}
        self._archive.make()
        obstacles = rows.obstacles(batch)
        ended: dict[str, Ended] = {
            name: (Result.SKIPPED, obstacle) for name, obstacle in obstacles.items()
        }
        going = [each for each in batch if each.item.id not in obstacles]
        packed = self._pack(rows, going, ended)
        try:
            self._archive.catalogue.add([*packed.values()])
        except (HoldfastError, OSError):
            self._archive.drop([made.file for made in packed.values()], batch[0].operation)
            raise
        ended |= rows.remove_if_unchanged([each for each in going if each.item.id in packed])
        self._drop_those_that_stayed(rows, packed, ended, batch[0].operation)
        return ended

    def _pack(
        self, rows: Rows, going: Sequence[Removal], ended: dict[str, Ended]
    ) -> dict[str, ArchivedSession]:
        """Make the bundles. One that fails does not cost the others, unless there is no room."""
        packed: dict[str, ArchivedSession] = {}
        ids = [each.item.id for each in going]
        sessions, files = rows.read(ids), self._files.of(ids)
        for place, each in enumerate(going):
            name = each.item.id
            if name not in sessions:
                ended[name] = Result.SKIPPED, "already gone"
                continue
            try:
                made = self._packer.session(
                    each,
                    sessions[name],
                    rows.messages(name),
                    children=rows.children(name),
                    files=files.get(name, ()),
                )
            except (UnknownSessionError, bundle.ChangedError):
                ended[name] = Result.SKIPPED, "changed while it was archived"
            except HoldfastError as error:
                ended[name] = Result.FAILED, error.message
            except OSError as error:
                if error.errno in _FULL:
                    ended[name] = Result.FAILED, f"{NO_ROOM}. {_WAY_OUT}"
                    rest = going[place + 1 :]
                    ended |= {each.item.id: (Result.FAILED, NO_ROOM) for each in rest}
                    break
                ended[name] = Result.FAILED, str(error.strerror or error)
            else:
                packed[name] = made
        return packed

    def _drop_those_that_stayed(
        self,
        rows: Rows,
        packed: Mapping[str, ArchivedSession],
        ended: dict[str, Ended],
        operation: str,
    ) -> None:
        """What kept its rows is not archived. The rows are asked: they alone can say so."""
        stayed = [name for name in packed if ended[name][0] is not Result.REMOVED]
        there = rows.read(stayed) if stayed else {}
        self._archive.drop([packed[name].file for name in stayed if name in there], operation)
        for name in stayed:
            if name not in there:
                ended[name] = Result.REMOVED, ""

    # --- After a kill -----------------------------------------------------------------------------

    def _settle(self, batch: Sequence[Removal]) -> Mapping[str, Ended]:
        rows = self._rows()
        if rows is None:
            return {each.item.id: (Result.FAILED, _NO_STORE) for each in batch}
        try:
            entries = self._of_operations()
            self._archive.clear_unfinished()
        except StorageError:  # its disk is not mounted: the rows alone must answer
            entries = None
        ended = {each.item.id: self._settled(rows, each, entries) for each in batch}
        if entries is not None:
            self._archive.heal()
        return ended

    def _settled(
        self,
        rows: Rows,
        removal: Removal,
        entries: Mapping[tuple[str, str], ArchivedSession] | None,
    ) -> Ended:
        is_there = removal.item.id in rows.read([removal.item.id])
        entry = None if entries is None else entries.get((removal.item.id, removal.operation))
        if entry is not None:
            return self._settled_bundle(rows, removal, entry, is_there=is_there)
        if is_there:
            return Result.SKIPPED, _NOT_REACHED
        if entries is None:  # rows go last: without them, bundle and line are there
            return Result.REMOVED, ""
        return Result.FAILED, "gone, and not through Holdfast"

    def _settled_bundle(
        self, rows: Rows, removal: Removal, entry: ArchivedSession, *, is_there: bool
    ) -> Ended:
        try:
            beside = self._archive.verify(entry.file)
        except DamageError as error:
            if is_there:
                return Result.SKIPPED, _NOT_REACHED
            return Result.DAMAGED, f"its bundle is damaged, {error.message}: {entry.file}"
        if rows.is_original(beside):  # killed before the rows went: as if it never began
            self._archive.drop([entry.file], removal.operation)
            return Result.SKIPPED, _NOT_REACHED
        return Result.REMOVED, ""

    # --- Back -------------------------------------------------------------------------------------

    def _bring_back(self, batch: Sequence[Removal]) -> Mapping[str, Ended]:
        entries = self._of_operations()
        ended: dict[str, Ended] = {}
        done: list[str] = []
        for each in batch:
            entry = entries.get((each.item.id, each.operation))
            if entry is None:
                ended[each.item.id] = self._without_bundle(each)
                continue
            ended[each.item.id] = self._returner.bring_back(entry.file)
            if ended[each.item.id][0] is Result.BROUGHT_BACK:
                done.append(entry.file)
        self._archive.drop(done, batch[0].operation)
        return ended

    def _without_bundle(self, removal: Removal) -> Ended:
        rows = self._rows()
        there = None if rows is None else rows.read([removal.item.id]).get(removal.item.id)
        if there is None:
            return Result.DAMAGED, "its bundle is no longer in the archive"
        if there.version == removal.item.version:
            return Result.BROUGHT_BACK, ""  # restored already, or a killed undo had come this far
        return Result.SKIPPED, "it is in the store already, and changed since"

    def _of_operations(self) -> Mapping[tuple[str, str], ArchivedSession]:
        """The bundles by session and by the operation that archived it."""
        return {
            (each.session.id, each.operation): each
            for each in self._archive.look().entries
            if each.holds is Holds.SESSION
        }


def outcomes(
    batch: Sequence[Removal], step: Callable[[Sequence[Removal]], Mapping[str, Ended]]
) -> Sequence[Outcome]:
    """What a step says of each; when it could not go on, that is said of all it did not reach."""
    failure: Ended = (Result.FAILED, "")
    ended: Mapping[str, Ended] = {}
    try:
        ended = step(batch)
    except HoldfastError as error:
        hint = f" {error.hint}" if error.hint else ""
        failure = Result.FAILED, error.message + hint
    except OSError as error:
        reason = f"{NO_ROOM}. {_WAY_OUT}" if error.errno in _FULL else str(error.strerror or error)
        failure = Result.FAILED, reason
    return [outcome(each, ended.get(each.item.id, failure)) for each in batch]


def outcome(removal: Removal, ended: Ended) -> Outcome:
    result, reason = ended
    return Outcome(kind=removal.item.kind, id=removal.item.id, result=result, reason=reason)

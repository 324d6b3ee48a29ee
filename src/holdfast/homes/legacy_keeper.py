"""Archives of older checkpoint repositories: one rename into the trash, and one back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.model.operation import Removal
from holdfast.model.plan import PlanItem
from holdfast.model.report import Outcome, Result
from holdfast.stores.checkpoints.older_layout import version_at
from holdfast.stores.checkpoints.repository import Layout, is_older_name
from holdfast.stores.files import allocated_below, make_private_dir, sync_dir
from holdfast.stores.trash_folder import TrashFolder


class LegacyKeeper:
    """Keeps folders `legacy-<timestamp>` of a checkpoint folder, and single older repositories."""

    def __init__(self, layout: Layout, trash: TrashFolder) -> None:
        self._layout = layout
        self._trash = trash

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Folders need nothing."""

    def remove(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._guarded(each, self._remove) for each in batch]

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._guarded(each, self._settle) for each in batch]

    def discard(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._guarded(each, self._discard) for each in batch]

    def bring_back(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        return [self._guarded(each, self._bring_back) for each in batch]

    def _remove(self, removal: Removal, place: Path, copy: Path) -> Outcome:
        if not place.is_dir() or place.is_symlink():
            return removal.end(Result.SKIPPED, "already gone")
        if version_at(place) != removal.item.version:
            return removal.end(Result.SKIPPED, "changed since the plan was made")
        if copy.exists():
            return removal.end(Result.FAILED, "its place in the trash is taken")
        make_private_dir(copy.parent)
        place.rename(copy)
        sync_dir(copy.parent)
        sync_dir(place.parent)
        return self._confirm(removal, place, copy)

    def _confirm(self, removal: Removal, place: Path, copy: Path) -> Outcome:
        if removal.item.undoable:
            return removal.end(Result.REMOVED, in_trash=allocated_below(copy))
        return self._discard(removal, place, copy)

    def _settle(self, removal: Removal, place: Path, copy: Path) -> Outcome:
        if copy.exists():
            return self._confirm(removal, place, copy)
        if place.exists():
            return removal.end(Result.SKIPPED, "the run ended before its turn")
        if removal.item.undoable:
            return removal.end(Result.FAILED, "gone, and not through Holdfast")
        return removal.end(Result.REMOVED, freed=removal.item.bytes)

    def _discard(self, removal: Removal, _: Path, copy: Path) -> Outcome:
        if not copy.exists():
            return removal.end(Result.REMOVED, "its trash copy was gone already")
        freed = allocated_below(copy)
        shutil.rmtree(copy)
        self._trash.drop_if_empty(removal.operation)
        return removal.end(Result.REMOVED, freed=freed)

    def _bring_back(self, removal: Removal, place: Path, copy: Path) -> Outcome:
        if place.exists():
            if not copy.exists():
                return removal.end(Result.BROUGHT_BACK)  # a killed undo had come this far
            return removal.end(Result.FAILED, "its place is taken; the copy stays in the trash")
        if not copy.exists():
            return removal.end(Result.DAMAGED, "its copy is no longer in the trash")
        copy.rename(place)
        sync_dir(place.parent)
        self._trash.drop_if_empty(removal.operation)
        return removal.end(Result.BROUGHT_BACK)

    def _guarded(self, removal: Removal, step: Callable[[Removal, Path, Path], Outcome]) -> Outcome:
        name = removal.item.id
        # A saved plan is a file that anybody may have written: only such names are ours.
        if not is_older_name(name):
            return removal.end(Result.FAILED, "not the name of an archive of older checkpoints")
        try:
            return step(removal, self._layout.folder / name, self._trash.path(removal))
        except OSError as error:
            return removal.end(Result.FAILED, str(error.strerror or error))

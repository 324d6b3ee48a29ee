"""The home of an agent: one class for every kind.

A kind of home brings its `Contents`: how its sessions are found, moved, archived and checked.
Everything else is the same for all kinds and is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import StorageError, UsageError
from holdfast.homes.home_bytes import Survey, beside_checkpoints, counted, trash_of
from holdfast.homes.options import USUAL, HomeOptions, archive_folder
from holdfast.model.item import ARCHIVED_FILES, CHECKPOINT, SESSION, Inventory, Item, Problem
from holdfast.model.plan import EDITS, Action
from holdfast.model.session import Hit, Search, SessionFilter
from holdfast.stores.counters import FileTallies
from holdfast.stores.disk import disk_room
from holdfast.stores.figures_file import FiguresFile
from holdfast.stores.files import Doubled
from holdfast.stores.operation_log import FileOperationLog
from holdfast.stores.trash_paths import TrashFolder
from holdfast.value import dataclass, replace

if TYPE_CHECKING:  # loaded on first use: a list of sessions does without them
    from holdfast.homes.archive.home_archive import HomeArchive
    from holdfast.homes.changes_by_kind import Changes, DoersByKind
    from holdfast.homes.checkup import HomeCheckup
    from holdfast.model.archive import ArchiveWeight
    from holdfast.model.checkpoint import Capturing
    from holdfast.model.figures import DiskRoom
    from holdfast.ports.archive import Archive, Vault
    from holdfast.ports.checkpoints import CheckpointStore, CheckpointUpkeep
    from holdfast.ports.runs import Clock, Doer, OperationLog, Progress, Space
    from holdfast.ports.sessions import SessionStore
    from holdfast.ports.upkeep import FigureBook, MaintenanceGate, Tallies
    from holdfast.spine.keeper import Keeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The common parts of every home. `state` is the folder of Holdfast's own files:
    configuration, operation log, trash, archive."""

    root: Path
    state: Path
    clock: Clock
    options: HomeOptions
    log: OperationLog
    trash: TrashFolder

    @property
    def archive(self) -> Path:
        """The archive folder. It need not exist."""
        return archive_folder(self.state, self.options.archive)


class HomeCheckpoints(Protocol):
    """The checkpoints of one home. `keepers`, by kind, remove items from the checkpoint folders;
    `space` reclaims their space."""

    @property
    def keepers(self) -> Mapping[str, Keeper]: ...

    @property
    def space(self) -> Space: ...

    @property
    def upkeep(self) -> CheckpointUpkeep: ...

    @property
    def own_upkeep(self) -> CheckpointUpkeep:
        """The upkeep of only those checkpoints that Holdfast itself takes here."""

    def store(self, how: Capturing | None = None) -> CheckpointStore | None: ...

    def check_writable(self) -> None:
        """Raise `SchemaError` if the checkpoints may only be read."""


class Contents(ABC):
    """The part that one kind of home provides: its sessions, and all operations on them."""

    kind: str
    #: True if everything that is not an item belongs to another agent.
    foreign = False

    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    @property
    def version(self) -> str | None:
        """The release of the other agent that wrote its state, if known."""
        return None

    @abstractmethod
    def store(self) -> SessionStore | None:
        """The session store, opened once; None if there is none."""

    def lost(self) -> Sequence[Problem]:
        """Why there is no session store although the home has one: its file is gone."""
        return ()

    @abstractmethod
    def close(self) -> None:
        """Close the store. It is reopened on the next use."""

    @abstractmethod
    def survey(
        self, now: float, wanted: SessionFilter | None, progress: Progress | None
    ) -> Survey: ...

    @abstractmethod
    def stored(self, ids: Sequence[str]) -> Collection[str]:
        """Return which of these sessions are in the home itself, not only in its archive."""

    @abstractmethod
    def changes(self) -> Changes:
        """The doers for items of this kind."""

    @abstractmethod
    def checkup(self, archive: Archive) -> HomeCheckup: ...

    def check_writable(self, kind: str) -> None:  # noqa: B027 - most kinds may be changed
        """Raise `SchemaError` if items of this kind may only be read."""

    def finish(self) -> None:  # noqa: B027 - most kinds have nothing to complete
        """Complete unfinished work of an earlier change. Called before and after every change."""

    def owed(self) -> Sequence[Item]:
        """Space that a stopped run did not give back. Most kinds cannot tell."""
        return ()

    def kept(self) -> Vault | None:
        """The vault; None for a kind whose sessions only Holdfast deletes."""
        return None

    def doubled(self) -> Doubled:
        """Files that have a second name in the vault."""
        return {}

    @property
    def written_to(self) -> Sequence[Path]:
        """The folders that the agent writes to: its home, and any outside it."""
        return (self.ground.root,)

    @property
    def programs(self) -> Sequence[str]:
        """The names of the agent's programs, as they appear in its processes."""
        return ()

    @property
    def checkpoint_folders(self) -> Sequence[Path]:
        return (self.ground.state / "checkpoints",)

    def checkpoints(self) -> HomeCheckpoints:
        from holdfast.homes.checkpoints.folder import OwnCheckpoints

        return OwnCheckpoints(self.ground)


class Home:
    """A home of any kind. Opening and scanning it create nothing in it except our index."""

    def __init__(
        self,
        root: Path,
        contents: Callable[[Ground], Contents],
        *,
        clock: Clock,
        state: Path | None = None,
        options: HomeOptions = USUAL,
    ) -> None:
        self.root = root
        self.state = root if state is None else state
        if self.state != root and self.state.is_symlink():
            raise StorageError(
                f"{self.state} is a link; Holdfast does not follow it out of the home.",
                hint="Remove the link. To keep archives elsewhere, set `folder` of [archive] in "
                "config.toml.",
            )
        trash = TrashFolder(self.state / "trash")
        #: The operations that removed and restored items here.
        self.log: OperationLog = self._own_log(trash, options)
        self.ground = Ground(
            root=root, state=self.state, clock=clock, options=options, log=self.log, trash=trash
        )
        self._contents = contents(self.ground)
        self.kind = self._contents.kind

    @property
    def version(self) -> str | None:
        return self._contents.version

    # --- Reading ----------------------------------------------------------------------------------

    def sign_of_life(self, session_id: str, now: float) -> str | None:
        found = self._contents.survey(now, SessionFilter(ids=(session_id,)), None)
        mine = (each for each in found.items if (each.kind, each.id) == (SESSION, session_id))
        return next((each.alive for each in mine), None)

    def scan(
        self,
        now: float,
        progress: Progress | None = None,
        *,
        wanted: SessionFilter | None = None,
    ) -> Inventory:
        found = self._contents.survey(now, wanted, progress)
        log = self.log.read()
        archived = self._archived()
        inventory = Inventory(
            home=str(self.root),
            items=(*found.items, *archived.files),
            trash=trash_of(log.trash),
            space=found.space,
            problems=(*found.problems, *archived.problems, *log.problems),
            archived=archived.bundles,
            rest_is_foreign=self._contents.foreign,
            read_only=found.read_only,
        )
        return counted(
            inventory,
            found,
            self.ground,
            archived.weight,
            checkpoint_folders=self._contents.checkpoint_folders,
            whole=wanted is None,
            checkpoint_trash=beside_checkpoints(log.trash),
            doubled=self._contents.doubled(),
        )

    def owed(self) -> Sequence[Item]:
        """Space that a stopped run did not give back."""
        return self._contents.owed()

    def session_store(self) -> SessionStore | None:
        """The sessions of this home; None if it has no store. Never creates one."""
        return self._contents.store()

    def lost_store(self) -> Sequence[Problem]:
        """Why there is no session store although the home has one: its file is gone."""
        return self._contents.lost()

    def make_index(self, progress: Progress | None = None) -> None:
        """Bring the search index up to date, if it is separate from the store."""

    def search_index(
        self, asked: Search
    ) -> tuple[Sequence[Hit], Sequence[str], Sequence[Problem]] | None:
        """Search the index as it was last built. Return the hits, similar words if there are no
        hits, and problems with what could not be searched. None if a search needs no separate
        index."""

    def store_of(self, units: Sequence[bytes]) -> SessionStore | None:
        """Return a session store for a caller that needs certain sessions and packed them at the
        last look. A store that must read every session to find one can use these units instead."""
        return self.session_store()

    @property
    def written_to(self) -> Sequence[Path]:
        return self._contents.written_to

    @property
    def programs(self) -> Sequence[str]:
        return self._contents.programs

    @property
    def maintenance_gate(self) -> MaintenanceGate:
        from holdfast.stores.maintenance_marker import FileMaintenanceGate

        return FileMaintenanceGate(self.state)

    def note_figures(self, inventory: Inventory) -> None:
        """Does nothing for a home that shares no store."""

    def bytes_elsewhere(self, inventory: Inventory) -> int:
        """0: most homes store everything here."""
        return 0

    def disk_room(self) -> DiskRoom | None:
        return disk_room(self.root)

    @property
    def log_fits(self) -> bool:
        from holdfast.stores.disk_reserve import log_fits

        return log_fits(self.state)

    @property
    def figures(self) -> FigureBook:
        return FiguresFile(self.state)

    @property
    def tallies(self) -> Tallies:
        return FileTallies(self.state)

    def checkup(self) -> HomeCheckup:
        """The check-up of this home, with its repairs."""
        return self._contents.checkup(self.archive)

    def close(self) -> None:
        """Close what this home has opened. It is reopened on the next use."""
        self._contents.close()

    def _archived(self) -> _Archived:
        """The contents of the archive. Archived files of sessions that are still in the home stay
        and leave together with their session, so they count as items."""
        folder, url = self.ground.archive, self.ground.options.archive.url
        is_here = folder.is_dir() and not folder.is_symlink()
        if not is_here and not url:
            return _Archived()
        # An object store takes no space here. Its folder may be left over from an earlier
        # configuration.
        weight = None if url else self.archive.weight()
        try:
            bundles = self.archive.items()
        except StorageError as error:
            problem = Problem(path=url or str(folder), reason=error.message)
            return _Archived(weight=weight, problems=(problem,))
        files = [item for item in bundles if item.kind == ARCHIVED_FILES]
        there = self._contents.stored([item.session for item in files]) if files else ()
        owned = tuple(
            replace(item, owned=True, capped_elsewhere=True)
            for item in files
            if item.session in there
        )
        return _Archived(files=owned, bundles=len(bundles) - len(owned), weight=weight)

    # --- Changing ---------------------------------------------------------------------------------

    @cached_property
    def changes(self) -> Changes:
        """The doers of this home."""
        return self._contents.changes()

    @cached_property
    def home_archive(self) -> HomeArchive:
        """The archive, with the doers that fill and empty it."""
        return self.changes.archive()

    @cached_property
    def _doers(self) -> DoersByKind:
        from holdfast.homes.changes_by_kind import DoersByKind

        return DoersByKind(
            self.ground,
            self.changes,
            archive=lambda: self.home_archive,
            checkpoints=lambda: self._checkpoints,
            sessions=self._contents.store,
        )

    def doer(self, kind: str, action: Action = Action.REMOVE) -> Doer:
        """Raises `SchemaError` for items that may only be read, `UsageError` for a kind or action
        that this home does not have."""
        if action not in EDITS:  # pins and names are ours if the agent has none
            self._contents.check_writable(kind)
            if kind == CHECKPOINT:
                self._checkpoints.check_writable()
        found = self._doers.get(kind, action)
        if found is None:
            raise UsageError(f"{self.root} has nothing of kind {kind!r} to {action.value}.")
        return found

    @property
    def archive(self) -> Archive:
        """The sessions that left the home for the archive."""
        return self.home_archive.reader

    @property
    def vault(self) -> Vault | None:
        return self._contents.kept()

    def _own_log(self, trash: TrashFolder, options: HomeOptions) -> OperationLog:
        """The log of this home alone, unless a subclass shares one."""
        return FileOperationLog(self.state / "operations", trash.root, finish=self._finish)

    def _finish(self) -> None:
        self._contents.finish()

    # --- Checkpoints ------------------------------------------------------------------------------

    @cached_property
    def _checkpoints(self) -> HomeCheckpoints:
        return self._contents.checkpoints()

    def has_checkpoints(self) -> bool:
        return any(folder.is_dir() for folder in self._contents.checkpoint_folders)

    def checkpoint_store(self, how: Capturing | None = None) -> CheckpointStore | None:
        """The checkpoint store; None if there is none."""
        return self._checkpoints.store(how) if self.has_checkpoints() else None

    @property
    def checkpoint_upkeep(self) -> CheckpointUpkeep:
        return self._checkpoints.upkeep

    @property
    def own_checkpoint_upkeep(self) -> CheckpointUpkeep:
        return self._checkpoints.own_upkeep


@dataclass(frozen=True, slots=True, kw_only=True)
class _Archived:
    """The contents of the archive: files of sessions in the home, and the number of other
    bundles."""

    files: tuple[Item, ...] = ()
    bundles: int = 0
    weight: ArchiveWeight | None = None
    problems: tuple[Problem, ...] = ()

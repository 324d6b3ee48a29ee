"""A home as a whole: its contents, what may be done to it, and its health."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.model.plan import Action

if TYPE_CHECKING:  # only for annotations: a command loads only the values that it uses
    from holdfast.model.checkpoint import Capturing
    from holdfast.model.checkup import Finding, Repair
    from holdfast.model.figures import DiskRoom
    from holdfast.model.item import Inventory, Item, Problem
    from holdfast.model.session import Hit, Search, SessionFilter
    from holdfast.ports.archive import Archive, Vault
    from holdfast.ports.checkpoints import CheckpointStore, CheckpointUpkeep
    from holdfast.ports.runs import Doer, OperationLog, Progress
    from holdfast.ports.sessions import SessionStore
    from holdfast.ports.upkeep import FigureBook, MaintenanceGate, Tallies


class Checkup(Protocol):
    """What a home knows about its own health."""

    def look(self, progress: Progress) -> Iterator[Finding]:
        """One finding for each check. Creates and changes nothing."""

    def give_access(self, findings: Sequence[Finding]) -> Iterator[Repair]:
        """Let the owner read and write everything that the findings report as inaccessible. Needs
        no lock."""

    def mend(
        self, findings: Sequence[Finding], *, now: float, progress: Progress
    ) -> Iterator[Repair]:
        """Repair what the findings report as repairable, after a backup."""


class Home(Protocol):
    """The state of one agent on disk."""

    @property
    def kind(self) -> str: ...

    @property
    def version(self) -> str | None:
        """The release of the agent that wrote this state, if it can be determined."""

    @property
    def root(self) -> Path: ...

    @property
    def state(self) -> Path:
        """The folder for Holdfast's own files: configuration, log, trash, archive. In Holdfast's
        own home this is the root, in the home of another agent a folder that the agent ignores."""

    @property
    def log(self) -> OperationLog: ...

    def scan(
        self,
        now: float,
        progress: Progress | None = None,
        *,
        wanted: SessionFilter | None = None,
    ) -> Inventory:
        """Scan everything or, with `wanted`, only these stored sessions and their files."""

    def owed(self) -> Sequence[Item]:
        """Space that an interrupted run has not given back: what it permanently removed may still
        be readable there."""

    def sign_of_life(self, session_id: str, now: float) -> str | None:
        """Why a stored session counts as in use, in words; None if it does not."""

    @property
    def archive(self) -> Archive:
        """The sessions that left the store for the archive."""

    @property
    def written_to(self) -> Sequence[Path]:
        """The folders that the agent writes to: its home, and its folders elsewhere."""

    @property
    def programs(self) -> Sequence[str]:
        """The names of the agent's programs, as its processes show them."""

    @property
    def vault(self) -> Vault | None:
        """The vault that keeps another agent's sessions from being lost; None if no other program
        deletes sessions here."""

    def has_checkpoints(self) -> bool:
        """True if there is a checkpoint folder. Cheaper than opening it."""

    def checkpoint_store(self, how: Capturing | None = None) -> CheckpointStore | None:
        """The checkpoints of this home; None if it has none. Creates nothing. `how` sets what is
        captured by checkpoints that are taken through it."""

    @property
    def checkpoint_upkeep(self) -> CheckpointUpkeep:
        """The upkeep of this home's checkpoints."""

    @property
    def own_checkpoint_upkeep(self) -> CheckpointUpkeep:
        """The same for the checkpoints that Holdfast itself takes here, without the agent's own."""

    def session_store(self) -> SessionStore | None:
        """The sessions of this home; None if it has no store. Creates nothing."""

    def lost_store(self) -> Sequence[Problem]:
        """Why there is no session store although the home has one: its file is gone."""

    def make_index(self, progress: Progress | None = None) -> None:
        """Update the search index, if there is one apart from the store."""

    def search_index(
        self, asked: Search
    ) -> tuple[Sequence[Hit], Sequence[str], Sequence[Problem]] | None:
        """The results from the existing search index: hits, similar words if there are none, and
        what could not be searched. None if a search needs no such index."""

    def store_of(self, units: Sequence[bytes]) -> SessionStore | None:
        """The store for a caller that wants certain sessions and packed them at the last look. A
        store that would have to scan every session to find one uses these instead."""

    def doer(self, kind: str, action: Action = Action.REMOVE) -> Doer:
        """The doer of this action for items of this kind; raises `UsageError` for what a home of
        this kind cannot contain."""

    @property
    def maintenance_gate(self) -> MaintenanceGate:
        """The lock for maintenance of this home, and the record of its last run."""

    def note_figures(self, inventory: Inventory) -> None:
        """Publish what this home takes to other machines, if it shares its store with them. Never
        raises."""

    def bytes_elsewhere(self, inventory: Inventory) -> int:
        """How many bytes of an inventory are not on a disk of this machine."""

    def disk_room(self) -> DiskRoom | None:
        """The disk that this home is on; None if the system does not report it."""

    @property
    def log_fits(self) -> bool:
        """False if the disk is so full that not even the log of a removal is sure to fit, whatever
        Holdfast gives up of its own."""

    @property
    def figures(self) -> FigureBook:
        """What this home took on the disk, over time."""

    @property
    def tallies(self) -> Tallies:
        """Counts of events in this home."""

    def checkup(self) -> Checkup:
        """The check-up of this home, which can also repair it."""

    def close(self) -> None:
        """Close the databases that this home has opened. It reopens them when they are used
        again."""

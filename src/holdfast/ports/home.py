"""A home as a whole: what is in it, what may be done to it, whether it is sound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from holdfast.model.plan import Action

if TYPE_CHECKING:  # named here only: a command pays for the values that it uses
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
        """Let the owner read and write what the findings say is closed to them. Needs no lock."""

    def mend(
        self, findings: Sequence[Finding], *, now: float, progress: Progress
    ) -> Iterator[Repair]:
        """Repair what the findings say can be repaired, after a backup."""


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
        """Where Holdfast keeps its own files: configuration, log, trash, archive. In its own home
        this is the root, in the home of another agent a folder that the agent ignores."""

    @property
    def log(self) -> OperationLog: ...

    def scan(
        self,
        now: float,
        progress: Progress | None = None,
        *,
        wanted: SessionFilter | None = None,
    ) -> Inventory:
        """Look at everything. With `wanted`, only at these stored sessions and their files."""

    def owed(self) -> Sequence[Item]:
        """Space that a run which was stopped has not given back: what it removed for good may
        still be read there."""

    def sign_of_life(self, session_id: str, now: float) -> str | None:
        """Why a stored session counts as in use, in words; None if it does not."""

    @property
    def archive(self) -> Archive:
        """The sessions that left the store for the archive."""

    @property
    def written_to(self) -> Sequence[Path]:
        """The folders that the agent writes to: its home, and what it has elsewhere."""

    @property
    def programs(self) -> Sequence[str]:
        """The names of the agent's programs, as its processes have them."""

    @property
    def vault(self) -> Vault | None:
        """What keeps the sessions of another agent from being lost; None where nobody else deletes
        any."""

    def has_checkpoints(self) -> bool:
        """Whether there is a checkpoint folder; costs less than to open it."""

    def checkpoint_store(self, how: Capturing | None = None) -> CheckpointStore | None:
        """The checkpoints of this home; None when it has none. Creates nothing. `how` says what is
        captured by checkpoints that are taken through it."""

    @property
    def checkpoint_upkeep(self) -> CheckpointUpkeep:
        """The bounds of this home's checkpoints."""

    @property
    def own_checkpoint_upkeep(self) -> CheckpointUpkeep:
        """The same for the checkpoints that Holdfast itself takes here, without the agent's own."""

    def session_store(self) -> SessionStore | None:
        """The sessions of this home; None when it has no store. Creates nothing."""

    def make_index(self, progress: Progress | None = None) -> None:
        """Bring the index for searches up to date, where there is one apart from the store."""

    def search_index(
        self, asked: Search
    ) -> tuple[Sequence[Hit], Sequence[str], Sequence[Problem]] | None:
        """What a search finds in the index as it was made last, similar words when that is nothing,
        and what it cannot find. None where a search needs no such index."""

    def store_of(self, units: Sequence[bytes]) -> SessionStore | None:
        """The store for whoever wants certain sessions and packed them at the last look: one that
        would have to look at every session to find one makes do with these."""

    def doer(self, kind: str, action: Action = Action.REMOVE) -> Doer:
        """Who does this to items of this kind; raises `UsageError` for what cannot be here."""

    @property
    def maintenance_gate(self) -> MaintenanceGate:
        """Who may maintain this home, and when that was done."""

    def note_figures(self, inventory: Inventory) -> None:
        """Let other machines know what this home takes, if it shares its store with them. Never
        raises."""

    def bytes_elsewhere(self, inventory: Inventory) -> int:
        """How much of an inventory does not lie on a disk of this machine."""

    def disk_room(self) -> DiskRoom | None:
        """The disk that this home lies on; None where the system does not tell."""

    @property
    def figures(self) -> FigureBook:
        """What this home took on the disk, over time."""

    @property
    def tallies(self) -> Tallies:
        """What is counted as it happens here."""

    def checkup(self) -> Checkup:
        """How to check this home, and repair it."""

    def close(self) -> None:
        """Close the databases that this home has opened. It opens them again when asked to."""

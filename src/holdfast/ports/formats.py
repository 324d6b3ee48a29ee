"""Formats of other agents, and movers for the parts of their sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # only for annotations: a command loads only the values that it uses
    from holdfast.model.part import Facts, Known, Leftover, Signs, Slot, Transcript, Unit
    from holdfast.model.part import Sight as PartSight
    from holdfast.model.session import Message


class PartMover(Protocol):
    """Takes one kind of part out of a home and brings it back; it never decides what goes.

    The slots of a batch share one container: a folder, a database, a shared file, a repository.
    Every call is safe to repeat after a kill at any point inside it. Results are returned in the
    order of the batch: None if a slot is done, otherwise why it stays.
    """

    def look(self, batch: Sequence[Slot]) -> Sequence[PartSight]: ...

    def copy(self, batch: Sequence[Slot]) -> None:
        """Make undo copies, durable on return. Does nothing if `drop` is a rename."""

    def drop(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        """Remove the originals. The stamp is checked again in the same atomic step."""

    def put_back(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        """Restore the originals from their copies; never overwrites anything."""

    def discard(self, batch: Sequence[Slot]) -> int:
        """Remove the copies of these slots and no others. Returns the bytes freed."""


class Format(Protocol):
    """How one kind of agent lays out its home. It reads and describes; it never writes."""

    @property
    def facts(self) -> Facts: ...

    def recognise(self, root: Path) -> bool:
        """True if a folder is a home of this agent. Cheap, and never raises for an unexpected
        folder."""

    def doubt(self, root: Path) -> str | None:
        """Why this home may only be read: an unknown version, an unknown table."""

    def roots(self, root: Path) -> Sequence[Path]:
        """The folders that parts may be in. A part outside these folders is refused."""

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """Every session. `known` returns what the last look made from a file that is unchanged."""

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """Everything that no session owns."""

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        """The messages of a session, in order."""

    def signs(self, root: Path, now: float) -> Signs:
        """Signs of life at this moment. Passive: it takes no lock and opens nothing for writing."""


class TranscriptReader(Protocol):
    """An optional ability of a format: to read single files of its agent outside a home. Without
    it, only whole homes of that agent can be imported."""

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        """The sessions in one file, a parent before its children; None for a file of another
        program. The content decides, not the file name."""

"""Processes, session files, maintenance, and the figures that it records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # only for annotations: a command loads only the values that it uses
    from holdfast.model.figures import HomeFigures, Tally
    from holdfast.model.maintenance import Event, Marker
    from holdfast.model.session import Json, Session
    from holdfast.model.stored_session import Holder


class Processes(Protocol):
    """Identifies this process, and reports which processes have provably ended."""

    def this_process(self) -> Holder: ...

    def is_dead(self, holder: Holder) -> bool: ...


class SessionFiles(Protocol):
    """The files that belong to sessions: transcripts and request dumps."""

    def append(
        self, session_id: str, lines: Sequence[Mapping[str, Json]], *, sync: bool
    ) -> Path: ...

    def dump_request(self, session_id: str, stamp: str, request: Mapping[str, Json]) -> Path: ...

    def archive(self, session_id: str) -> None:
        """Compress the files of an ended session into the archive and remove the originals."""

    def remove(self, session_id: str) -> Sequence[Path]:
        """Move the files of an ended session to the trash."""

    def remove_whole(self, session: Session, reason: str) -> None:
        """Move an ended session and its files to the trash."""

    def end_abandoned(self) -> Sequence[str]:
        """End the abandoned sessions of this home. Returns their ids."""


class MaintenanceGate(Protocol):
    """Lets one process at a time run maintenance, and stores when maintenance last ran."""

    def entered(self, holder: str) -> AbstractContextManager[None]:
        """Hold the maintenance lock. Raises `BusyError` at once if another process has it."""

    def watching(self, holder: str) -> AbstractContextManager[None]:
        """Hold the lock of the one process that watches the home."""

    def read(self) -> Marker:
        """The marker of the last run; an unreadable marker means never. Creates nothing."""

    def write(self, marker: Marker) -> None: ...


class FigureBook(Protocol):
    """The figures of one home; the older they are, the fewer are kept."""

    def read(self) -> Sequence[HomeFigures]:
        """All figures, oldest first. Creates nothing, and never raises."""

    def add(self, figures: HomeFigures) -> None: ...


class Tallies(Protocol):
    """Counters that many processes increment."""

    def add(self, what: Tally, agent: str = "") -> None:
        """Count one more. Never raises."""

    def read(self) -> Mapping[tuple[Tally, str], int]:
        """The counts by event and agent. Never raises."""

    def total(self, what: Tally) -> int: ...


class Notifier(Protocol):
    """Receives events. Never raises."""

    def tell(self, event: Event, stop: Callable[[], bool] = ...) -> None: ...

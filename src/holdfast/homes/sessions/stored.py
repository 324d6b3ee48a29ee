"""The contents of homes with a session database, and a folder `sessions/` with transcripts and
request dumps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.homes.home import Contents
from holdfast.homes.home_bytes import Survey
from holdfast.homes.lost_database import why_lost
from holdfast.homes.sessions import folder as session_folder
from holdfast.homes.sessions.folder import Life, SessionFileName
from holdfast.model.arguments import check_id
from holdfast.model.item import Problem
from holdfast.value import replace

if TYPE_CHECKING:  # loaded on first use: a list of sessions does without them
    from holdfast.homes.archive.session_rows import Rows
    from holdfast.homes.changes_by_kind import Changes
    from holdfast.homes.home import Ground
    from holdfast.model.item import Item
    from holdfast.model.session import SessionFilter
    from holdfast.ports.runs import Progress
    from holdfast.ports.sessions import SessionEngine
    from holdfast.stores.sessions.survey import Owner


class StoredContents(Contents):
    """The contents of such a home. A subclass defines how its database is opened, read and changed,
    and how its files are named."""

    #: The file name of the database; None if it is not a file in the home.
    database: str | None

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self.life = Life(
            idle=ground.options.idle, owners=self._owners, unknown=self._unknown, parse=self.parse
        )

    # --- For subclasses ---------------------------------------------------------------------------

    @abstractmethod
    def engine(self) -> SessionEngine | None: ...

    @abstractmethod
    def rows(self) -> Rows | None: ...

    @abstractmethod
    def sessions(self, wanted: SessionFilter | None, now: float) -> Sequence[Item]:
        """The stored sessions that match the filter."""

    def space(self) -> Sequence[Item]:
        """The space that the database could give back to this machine's disk."""
        return ()

    @abstractmethod
    def owners(self, names: Sequence[str]) -> Mapping[str, Owner]:
        """Which of the sessions that file names mention are in the database."""

    def had_database(self, path: Path) -> str | None:
        """Why a database that is not there, and left nothing next to it, must have existed. None if
        the home may never have had one."""
        return None

    def trash_bytes(self) -> int:
        """Bytes of trash inside the database."""
        return 0

    def doubts(self) -> Sequence[Problem]:
        """Why nothing here may be changed, reported before any attempt."""
        return ()

    def inside(self) -> Sequence[Path]:
        """Homes inside this one."""
        return ()

    def parse(self, name: str) -> SessionFileName | None:
        """Parse a session file's name; None if it is not one."""
        return session_folder.parse(name)

    def stems(self, session_id: str) -> Collection[str]:
        """The names of a session in file names."""
        return (session_id,)

    @property
    def check_id(self) -> Callable[[str], str]:
        return check_id

    # --- Common to all ----------------------------------------------------------------------------

    def survey(self, now: float, wanted: SessionFilter | None, progress: Progress | None) -> Survey:
        root = self.ground.root
        files = session_folder.scan(root, now, self.life, progress)
        folder = root / session_folder.FOLDER
        is_scanned = folder.is_dir() and not folder.is_symlink()
        return replace(
            files,
            items=(*self.sessions(wanted, now), *files.items),
            space=tuple(self.space()),
            problems=(*files.problems, *self.doubts(), *self.lost()),
            counted=(*([folder] if is_scanned else []), *self.inside()),
            database=None if self.database is None else root / self.database,
            stored_trash=self.trash_bytes(),
        )

    def stored(self, ids: Sequence[str]) -> Collection[str]:
        rows = self.rows()
        return () if rows is None else rows.read(ids).keys()

    def changes(self) -> Changes:
        from holdfast.homes.changes_by_kind import stored_changes

        return stored_changes(self)

    def _lost(self) -> str | None:
        """Why the database is not there although the home has one, as the rest of a sentence that
        begins with its name. A home that never had one has only its files, and they may leave."""
        if self.database is None or self.store() is not None:
            return None
        path = self.ground.root / self.database
        return why_lost(path) or self.had_database(path)

    def _unknown(self) -> str | None:
        lost = self._lost()
        if lost is None:
            return None
        return f"its session may be open or pinned, which cannot be told: {self.database} {lost}"

    def lost(self) -> Sequence[Problem]:
        lost = self._lost()
        if lost is None:
            return ()
        reason = (
            f"{lost}; no session file leaves until it is back. If its sessions are gone for good, "
            "let the agent create a new one: then their files count as left behind"
        )
        return (Problem(path=str(self.ground.root / str(self.database)), reason=reason),)

    def _owners(self, names: Sequence[str]) -> Mapping[str, Owner]:
        return self.owners(names) if names and self.store() is not None else {}

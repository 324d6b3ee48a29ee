"""The files of single sessions in a home: written, archived and removed by session.

Removal goes through the spine like any other: a plan, an operation, undo copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.homes.sessions import folder as session_folder
from holdfast.homes.sessions.folder import FOLDER
from holdfast.homes.sessions.mover import as_item
from holdfast.model.item import FILES, Item
from holdfast.model.operation import DELIVER, END_ABANDONED, RESET
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.model.session import Json, Session
from holdfast.policy.plan_by_name import plan_all
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock
from holdfast.services.edits import end_abandoned
from holdfast.spine.apply import apply
from holdfast.stores.files import allocated_bytes, version_of
from holdfast.stores.transcripts import TranscriptFolder


class HomeSessionFiles:
    """Transcripts and request dumps of the sessions in one home."""

    def __init__(self, home: Home, clock: Clock) -> None:
        self._home = home
        self._clock = clock
        self._folder = home.root / FOLDER
        self._transcripts = TranscriptFolder(self._folder)

    def append(self, session_id: str, lines: Sequence[Mapping[str, Json]], *, sync: bool) -> Path:
        return self._transcripts.append(session_id, lines, sync=sync)

    def dump_request(self, session_id: str, stamp: str, request: Mapping[str, Json]) -> Path:
        return self._transcripts.dump_request(session_id, stamp, request)

    def archive(self, session_id: str) -> None:
        """Move a session's files into the archive, as one bundle that `restore` and `undo` can
        handle."""
        found = self._of(session_id)
        if not found:
            return
        now = self._clock()
        item = PlanItem(
            kind=FILES,
            id=session_id,
            source=found[0].source,
            session=session_id,
            bytes=sum(each.bytes for each in found),
            last_active_at=now,
            version="",
            action=Action.ARCHIVE,
            reason="archived on reset",
            undoable=True,
        )
        plan = Plan(home=str(self._home.root), command=RESET, made_at=now, items=(item,))
        report = apply(plan, self._home, clock=self._clock)
        if report.failed:
            raise StorageError(report.outcomes[0].reason)

    def remove(self, session_id: str) -> Sequence[Path]:
        found = self._of(session_id)
        self._remove(found, "deleted on reset")
        return [self._home.root / item.id for item in found]

    def remove_whole(self, session: Session, reason: str) -> None:
        items = [as_item(session), *self._of(session.id)]
        self._remove(items, reason, command=DELIVER)

    def end_abandoned(self) -> Sequence[str]:
        return end_abandoned(self._home, clock=self._clock, command=END_ABANDONED)

    def _remove(self, items: Sequence[Item], reason: str, command: str = RESET) -> None:
        now = self._clock()
        plan = plan_all(
            items, str(self._home.root), now, command=command, reason=reason, undoable=True
        )
        apply(plan, self._home, clock=self._clock)

    def _of(self, session_id: str) -> list[Item]:
        """The files that belong to a session, by exact id: `a` does not own a file of `a_b`."""
        found = []
        for path in sorted(self._folder.glob("*.json*")) if self._folder.is_dir() else []:
            parsed = session_folder.parse(path.name)
            if parsed is None or parsed.session != session_id or path.is_symlink():
                continue
            status = path.lstat()
            found.append(
                Item(
                    kind=parsed.kind,
                    id=f"{FOLDER}/{path.name}",
                    session=session_id,
                    bytes=allocated_bytes(status),
                    last_active_at=status.st_mtime,
                    version=version_of(status),
                    owned=True,
                )
            )
        return found

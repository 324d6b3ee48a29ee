"""Put archived sessions back into the store: an operation of its own, which removes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.archive import ArchivedSession, Holds
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Report
from holdfast.model.session import SessionFilter
from holdfast.ports import Archive, Clock, Home, Progress
from holdfast.spine.carry_out import Silent, carry_out
from holdfast.spine.settle import settle, settle_if_needed


def chosen(archive: Archive, ids: Sequence[str]) -> Sequence[ArchivedSession]:
    """What the archive holds of the sessions that these ids or prefixes name; without any, all.

    Of a session that was archived more than once, the last one; of its files, all bundles. The last
    archived come first.
    """
    if ids:
        names = dict.fromkeys(map(archive.resolve, ids))
        wanted = [each for name in names for each in _of(archive, name)]
    else:
        wanted = list(archive.find(SessionFilter()))
    return sorted(wanted, key=lambda each: each.moment, reverse=True)


def _of(archive: Archive, name: str) -> Sequence[ArchivedSession]:
    found = archive.find(SessionFilter(ids=(name,)))
    files = [each for each in found if each.holds is Holds.FILES]
    latest = archive.get(name)
    return files if latest.holds is Holds.FILES else [latest, *files]


def restore(
    home: Home,
    sessions: Sequence[ArchivedSession],
    *,
    command: str,
    clock: Clock,
    progress: Progress | None = None,
) -> Report:
    """Bring sessions back whole; then their bundles go. One that cannot come back is named."""
    if not sessions:
        settle_if_needed(home, clock=clock)
        return Report(operation=None)
    with home.log.writing(command) as log:
        settle(log, home, clock=clock)
        with log.begin(action=OperationAction.RESTORE, command=command, at=clock()) as journal:
            return carry_out(
                journal,
                (
                    Removal(operation=journal.operation, number=number, item=_item(each))
                    for number, each in enumerate(sessions)
                ),
                lambda doer, batch: doer.undo(batch),
                home,
                total=len(sessions),
                label="restoring",
                clock=clock,
                progress=progress or Silent(),
            )


def _item(archived: ArchivedSession) -> PlanItem:
    return PlanItem(
        kind=archived.kind,
        id=archived.file,
        source=archived.session.source,
        session=archived.session.id,
        bytes=archived.archive_bytes,
        last_active_at=archived.archived_at,
        version=archived.sha256,
        action=Action.ARCHIVE,
        reason="restored on request",
    )

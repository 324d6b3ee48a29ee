"""Put archived sessions back into the store: an operation of its own, which removes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.archived import ArchivedSession
from holdfast.model.item import ARCHIVED
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Report
from holdfast.model.session import SessionFilter
from holdfast.ports import Archive, Clock, Home, Progress
from holdfast.services.carry_out import carry_out
from holdfast.services.settle import settle, settle_if_needed
from holdfast.services.silent import Silent


def chosen(archive: Archive, ids: Sequence[str]) -> Sequence[ArchivedSession]:
    """The archived sessions that these ids or prefixes name, each once; without any, all.

    The last archived first: a session then finds its children when it comes back.
    """
    if ids:
        wanted = [archive.get(name) for name in dict.fromkeys(map(archive.resolve, ids))]
    else:
        wanted = list(archive.find(SessionFilter()))
    return sorted(wanted, key=lambda each: each.moment, reverse=True)


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
                lambda keeper, batch: keeper.bring_back(batch),
                home,
                total=len(sessions),
                label="restoring",
                clock=clock,
                progress=progress or Silent(),
            )


def _item(archived: ArchivedSession) -> PlanItem:
    return PlanItem(
        kind=ARCHIVED,
        id=archived.file,
        source=archived.session.source,
        session=archived.session.id,
        bytes=archived.archive_bytes,
        last_active_at=archived.archived_at,
        version=archived.sha256,
        action=Action.ARCHIVE,
        reason="restored on request",
    )

"""Sessions that left the store: find them, and restore archived and vaulted ones.

A restore is an operation of its own, which removes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from holdfast.errors import HoldfastError, UnknownSessionError
from holdfast.model.archive import ArchivedSession, Holds
from holdfast.model.item import ARCHIVED, SESSION, VAULTED
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.path_map import MAPPED, to_texts
from holdfast.model.plan import Action, PlanItem
from holdfast.model.report import Report
from holdfast.model.session import Session, SessionFilter
from holdfast.ports.archive import Archive
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Progress
from holdfast.ports.sessions import SessionStore
from holdfast.spine.carry_out import Silent, carry_out
from holdfast.spine.settle import settle, settle_if_needed
from holdfast.value import dataclass


def chosen(archive: Archive, ids: Sequence[str]) -> Sequence[ArchivedSession]:
    """The archived sessions that these ids or prefixes name; without any, all that this home
    archived. The last archived come first.

    If a session was archived more than once, only the latest is returned, but all bundles of its
    files. A session that only another home archived is returned from there.
    """
    if ids:
        names = dict.fromkeys(map(archive.resolve, ids))
        wanted = [each for name in names for each in _of(archive, name)]
    else:
        wanted = list(archive.find(SessionFilter(), everywhere=False))
    return sorted(wanted, key=lambda each: each.moment, reverse=True)


def _of(archive: Archive, name: str) -> Sequence[ArchivedSession]:
    found = archive.find(SessionFilter(ids=(name,)))
    latest = archive.get(name)
    files = [each for each in found if each.holds is Holds.FILES and each.home == latest.home]
    return files if latest.holds is Holds.FILES else [latest, *files]


def restore(
    home: Home,
    sessions: Sequence[ArchivedSession],
    *,
    command: str,
    clock: Clock,
    progress: Progress | None = None,
    maps: Mapping[str, str] = MappingProxyType({}),
    vaulted: Sequence[Session] = (),
) -> Report:
    """Bring sessions back, then remove their bundles. The report names those that cannot return.
    With `maps`, they come back under other paths, and their bundles stay. `vaulted` are sessions to
    restore from the vault."""
    items = [*(_item(each, maps) for each in sessions), *map(_vaulted_item, vaulted)]
    if not items:
        settle_if_needed(home, clock=clock)
        return Report(operation=None)
    with home.log.writing(command) as log:
        settle(log, home, clock=clock)
        with log.begin(action=OperationAction.RESTORE, command=command, at=clock()) as journal:
            return carry_out(
                journal,
                (
                    Removal(operation=journal.operation, number=number, item=item)
                    for number, item in enumerate(items)
                ),
                lambda doer, batch: doer.undo(batch),
                home,
                label="restoring",
                clock=clock,
                progress=progress or Silent(),
            )


def _item(archived: ArchivedSession, maps: Mapping[str, str]) -> PlanItem:
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
        target=MAPPED if maps else "",
        paths=to_texts(maps),
    )


def _vaulted_item(session: Session) -> PlanItem:
    return PlanItem(
        kind=VAULTED,
        id=session.id,
        source=session.source,
        session=session.id,
        bytes=session.bytes,
        last_active_at=session.last_active_at,
        version="",
        action=Action.RESTORE,
        reason="restored on request",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """`place` completes "Session X is …"; `command` brings it back, and is written after
    `holdfast`. `operation` is the one that removed it, if it is in the trash."""

    session: str
    place: str
    command: str
    operation: str | None = None


def resolved(home: Home, store: SessionStore, prefix: str) -> str:
    """Resolve an id or prefix in the store. If the session is in the archive or in the trash, the
    error says so, and how to restore it."""
    try:
        return store.resolve(prefix)
    except UnknownSessionError as error:
        raise elsewhere(home, prefix) or error from None


def elsewhere(home: Home, prefix: str) -> UnknownSessionError | None:
    """The error that says where a session is that left the store; None if that is unknown."""
    found = whereabouts(home, prefix) if prefix else None
    if found is None:
        return None
    return UnknownSessionError(
        f"Session {found.session} is {found.place}.",
        hint=f"Bring it back: holdfast {found.command}",
    )


def whereabouts(home: Home, prefix: str) -> Whereabouts | None:
    """Find a session that left the store. None unless exactly one session in the archive or in the
    trash has an id with this prefix."""
    return _in_archive(home, prefix) or _in_trash(home, prefix)


def _in_archive(home: Home, prefix: str) -> Whereabouts | None:
    try:
        found = home.archive.get(home.archive.resolve(prefix))
    except HoldfastError:  # not found, ambiguous, or unreadable
        return None
    if found.holds is not Holds.SESSION:
        return None
    name = found.session.id
    return Whereabouts(session=name, place="in the archive", command=f"sessions restore {name}")


def _in_trash(home: Home, prefix: str) -> Whereabouts | None:
    try:
        trash = home.log.read().trash
    except HoldfastError:
        return None
    found = {
        each.removal.item.session or each.removal.item.id: each.removal.operation
        for each in trash
        if each.removal.item.kind in (SESSION, ARCHIVED)
        if (each.removal.item.session or each.removal.item.id).startswith(prefix)
    }
    if prefix in found:
        found = {prefix: found[prefix]}
    if len(found) != 1:
        return None
    [(name, operation)] = found.items()
    return Whereabouts(
        session=name,
        place=f"in the trash: operation {operation} removed it",
        command=f"undo {operation}",
        operation=operation,
    )

"""Where a session is that has left the store, and how it comes back."""

from __future__ import annotations

from holdfast.errors import HoldfastError, UnknownSessionError
from holdfast.model.archive import Holds
from holdfast.model.item import ARCHIVED, SESSION
from holdfast.ports import Home, SessionStore
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """`place` completes "Session X is …"; `command` is what brings it back, after `holdfast`.
    `operation` is the one that removed it, when it is in the trash."""

    session: str
    place: str
    command: str
    operation: str | None = None


def resolved(home: Home, store: SessionStore, prefix: str) -> str:
    """The session of the store that this names. One that is in the archive or in the trash is not
    unknown: the error says where it is and how it comes back."""
    try:
        return store.resolve(prefix)
    except UnknownSessionError:
        found = whereabouts(home, prefix)
        if found is None:
            raise
        raise UnknownSessionError(
            f"Session {found.session} is {found.place}.",
            hint=f"Bring it back: holdfast {found.command}",
        ) from None


def whereabouts(home: Home, prefix: str) -> Whereabouts | None:
    """None when neither the archive nor the trash has one session whose id begins so."""
    return _in_archive(home, prefix) or _in_trash(home, prefix)


def _in_archive(home: Home, prefix: str) -> Whereabouts | None:
    try:
        found = home.archive.get(home.archive.resolve(prefix))
    except HoldfastError:  # not there, or not the only one, or unreadable
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

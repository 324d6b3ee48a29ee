"""Find the session that an id means, in any home of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.api.agent_home import AgentHome, UnreadHome
from holdfast.api.session_view import SessionView
from holdfast.errors import UnknownSessionError, UsageError, is_there
from holdfast.model.arguments import MOST_NAMED, ambiguous, check_foreign_id, text
from holdfast.model.session import SessionFilter
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.machine_sessions import MachineSessions
    from holdfast.api.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A session by its whole id, and the home that has it."""

    home: AgentHome
    id: str


def locate(
    machine: MachineSessions, prefix: str, *, surely: bool, store: bool, archive: bool
) -> Located:
    """See `Machine.resolve`."""
    wanted = check_foreign_id(text(prefix, "A session id"))
    begin_so: list[_Candidate] = []
    total = 0
    unread: Sequence[UnreadHome] = ()
    # To restore a session, look in vaults too: their sessions are listed in the store.
    vault = archive and not store
    for has in (_in_store,) * store + (_in_vault,) * vault + (_in_archive,) * archive:
        looked = machine.look(partial(has, prefix=wanted))
        unread = looked.unread
        found = [
            _Candidate(home=home, id=each, active=active)
            for home, seen in looked.seen
            for each, active in seen.newest
        ]
        if exact := [each for each in found if each.id == wanted]:
            return _only(wanted, exact, len(exact))
        if not begin_so:
            begin_so, total = found, sum(seen.total for _, seen in looked.seen)
    if not begin_so:
        if vault:
            raise is_there(machine.resolve(wanted).id)
        raise _unknown(machine, wanted, unread)
    if surely and unread:
        raise UsageError(
            f"{wanted!r} may mean a session in {unread[0].path}, which cannot be read.",
            hint="Write the whole id, or pick the home with --home.",
        )
    return _only(wanted, begin_so, total)


def _unknown(
    machine: MachineSessions, prefix: str, unread: Sequence[UnreadHome]
) -> UnknownSessionError:
    """The error for a session that no store has: it may be in an archive or in the trash, or in a
    home that cannot be read."""
    looked = machine.look(lambda place: SessionView(place).whereabouts(prefix))
    gone = [(home, where) for home, where in looked.seen if where is not None]
    if len(gone) == 1:
        [(home, where)] = gone
        return UnknownSessionError(
            f"Session {where.session} of {home.label} is {where.place}.",
            hint=f"Bring it back: holdfast {_flag(home)}{where.command}",
        )
    if unread:
        places = ", ".join(str(each.path) for each in unread)
        return UnknownSessionError(
            f"No session in the homes that can be read has an id that begins with {prefix!r}.",
            hint=f"Not read: {places}.",
        )
    near = [hint for _, hint in machine.look(lambda place: _near(place, prefix)).seen if hint]
    return UnknownSessionError(
        f"No session in any home has an id that begins with {prefix!r}.",
        hint=near[0]
        if near
        else "`holdfast sessions list` shows them, and "
        "`holdfast sessions list --archived` those in the archive.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A session that an id may mean, and when it was last active."""

    home: AgentHome
    id: str
    active: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """The sessions of one home whose ids have the prefix: the newest, and how many there are."""

    newest: Sequence[tuple[str, float]] = ()
    total: int = 0


def _in_store(place: Place, prefix: str) -> _Begun:
    """The sessions in a home's store whose ids have the prefix, or the one with exactly this
    id."""
    store = SessionView(place).session_store
    if store is None:
        return _Begun()
    try:
        return _Begun(newest=[(store.resolve(prefix), 0.0)], total=1)
    except UnknownSessionError:
        return _Begun()
    except UsageError:  # ambiguous, or not a valid id in this store
        wanted = SessionFilter(id_prefix=prefix)
        found = store.find(wanted, limit=MOST_NAMED)
        newest = [(each.id, each.last_active_at) for each in found]
        return _Begun(newest=newest, total=store.count(wanted))


def _in_vault(place: Place, prefix: str) -> _Begun:
    """The same for sessions that only a home's vault has."""
    store = SessionView(place).session_store
    if store is None or place.home.vault is None:
        return _Begun()
    found = store.find(SessionFilter(id_prefix=prefix, vaulted=True))
    newest = [(each.id, each.last_active_at) for each in found[:MOST_NAMED]]
    return _Begun(newest=newest, total=len(found))


def _near(place: Place, prefix: str) -> str | None:
    """The store's "Did you mean" hint for the id, if it has a similar one."""
    store = SessionView(place).session_store
    try:
        _ = store and store.resolve(prefix)
    except UsageError as error:
        hint = error.hint or ""
        return hint if hint.startswith("Did you mean") else None
    return None


def _in_archive(place: Place, prefix: str) -> _Begun:
    archive = place.home.archive
    try:
        return _Begun(newest=[(archive.resolve(prefix), 0.0)], total=1)
    except UnknownSessionError:
        return _Begun()
    except UsageError:
        found = archive.find(SessionFilter(id_prefix=prefix))
        active = {each.session.id: each.session.last_active_at for each in found}
        return _Begun(newest=list(active.items()), total=len(active))


def _flag(home: AgentHome) -> str:
    return f"--home {home.name} "


def _only(prefix: str, found: Sequence[_Candidate], total: int) -> Located:
    if len(found) == 1:
        return Located(home=found[0].home, id=found[0].id)
    newest = sorted(found, key=lambda each: -each.active)
    same = all(each.id == prefix for each in found)
    raise UsageError(
        ambiguous(prefix, [f"{each.home.label} {each.id}" for each in newest], total=total),
        hint="Pick the home with --home."
        if same
        else "Use a longer prefix, or pick the home with --home.",
    )

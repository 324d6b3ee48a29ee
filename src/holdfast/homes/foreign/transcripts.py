"""Sessions of any agent to be imported: a whole home, or a single file that an agent wrote."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.errors import UnknownSessionError
from holdfast.homes.agents.json_lines import unread, whole_records
from holdfast.homes.foreign.session_figures import booked
from holdfast.homes.registry import kind_of, kinds
from holdfast.model.part import Transcript, Unit
from holdfast.model.session import AGENT_SOURCE, Relation, Session, SessionFilter, SessionOrder
from holdfast.ports.sessions import SessionStore
from holdfast.services.exchange.sessions_as_lines import WholeSession
from holdfast.stores.files import open_file
from holdfast.stores.sqlite.foreign import is_sqlite
from holdfast.stores.sqlite.mirror import IDLE
from holdfast.value import dataclass, replace

#: How our own lines begin. Such a file is not offered to other formats.
_OURS = b'{"id":'
_HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Sessions to be imported, and the name of the agent that wrote them."""

    agent: str
    sessions: Iterator[WholeSession]


def source_in(path: Path, ids: Collection[str]) -> Source | None:
    """The sessions in a file of any agent, all or those with these ids; None if no known agent
    wrote it."""
    with open_file(path) as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(_OURS) and b'"started_at":' in head:
        return None
    for kind in kinds():
        found = kind.transcripts(path)
        if found is not None:
            chosen = _chosen(found, ids, path)
            return Source(agent=kind.agent, sessions=(_whole(each, kind.name) for each in chosen))
    return None


def from_store(
    store: SessionStore, ids: Collection[str], *, agent: str | None = None
) -> Iterator[WholeSession]:
    """The sessions of a home, all or those with these ids and their delegates; oldest first. Raises
    `UnknownSessionError` before anything is read. `agent` is the short name of the other agent that
    owns the home."""
    named = [store.resolve(each) for each in ids]
    wanted = SessionFilter(ids=(*named, *store.delegates_of(named)) if named else None)
    return _stored(store, wanted, agent)


def _stored(
    store: SessionStore, wanted: SessionFilter, agent: str | None
) -> Iterator[WholeSession]:
    for each in reversed(store.find(wanted, order_by=SessionOrder.STARTED)):
        try:
            session = store.get(each.id)
        except UnknownSessionError:
            continue  # it was removed in the meantime
        named = session if agent is None else of_agent(session, agent)
        yield WholeSession(session=named, messages=store.messages(each.id))


def _chosen(found: Iterator[Transcript], ids: Collection[str], path: Path) -> list[Transcript]:
    """The transcripts with these ids, and their delegates. Messages are not read yet."""
    missing = set(ids)
    taken: dict[str, Transcript] = {}
    for each in found:
        named = {name for name in ids if each.unit.id.startswith(name)}
        if not ids or named or each.unit.parent in taken:
            taken[each.unit.id] = each
        missing -= named
    if missing:
        raise UnknownSessionError(f"There is no session {min(missing)!r} in {path}.")
    return list(taken.values())


def _whole(each: Transcript, agent: str) -> WholeSession:
    session = of_agent(_session(each.unit), agent)
    return WholeSession(session=session, messages=each.messages, notes=_notes(each.path))


def agent_of(root: Path) -> str | None:
    """The short name of the agent that owns this home, if its sessions have no sources in our
    sense."""
    kind = kind_of(root)
    return None if kind is None or kind.has_sources else kind.name


def of_agent(session: Session, agent: str) -> Session:
    """A copy of another agent's session, with that agent as its source. The source inside the agent
    (a command line, an editor, a subagent) is kept in an extra field."""
    return replace(session, source=agent, extra={**session.extra, AGENT_SOURCE: session.source})


def _notes(path: Path) -> tuple[str, ...]:
    with suppress(OSError):  # reading the messages will report the error
        return () if is_sqlite(path) or not _is_lines(path) else unread(path)
    return ()


def _is_lines(path: Path) -> bool:
    """True if a file has one JSON object per line, rather than one document over several lines, or
    prose."""
    with open_file(path) as file:
        head = file.read(_HEAD_BYTES)
    return head.lstrip().startswith(b"{") and not any(whole_records(path))


def _session(unit: Unit) -> Session:
    """An imported copy is not in use: it ended when it was last used."""
    return Session(
        id=unit.id,
        source=unit.source or "cli",
        started_at=unit.active if unit.started is None else unit.started,
        last_active_at=unit.active,
        parent_id=unit.parent or None,
        relation=(unit.relation or Relation.BRANCH) if unit.parent else None,
        title=unit.title or None,
        cwd=unit.cwd or None,
        model=unit.model or None,
        ended_at=unit.active,
        end_reason=IDLE,
        guarded=booked(unit),
    )

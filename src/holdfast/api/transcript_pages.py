"""Read a session in windows of messages, because a transcript may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.errors import UnknownSessionError
from holdfast.model.session import Message, Session, SessionFilter
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.home import Home
    from holdfast.model.plan import Action
    from holdfast.model.usage import Cost
    from holdfast.ports.sessions import SessionStore

_MOST_CHILDREN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Consecutive messages, and whether there are earlier and later ones."""

    messages: Sequence[Message]
    earlier: bool
    later: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which messages to read: after, before or around a number, at the end, or else the first."""

    size: int
    after: int | None = None
    before: int | None = None
    around: int | None = None
    at_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """The facts about a session that need not read all of it. `alive` is why it counts as in use,
    `edits` is what the user may change about it."""

    session: Session
    opening: str
    cost: Cost
    alive: str | None
    edits: frozenset[Action]
    children: Sequence[Session]


def session_facts(home: Home, session_id: str) -> SessionFacts:
    """Collect the facts. Raises `UnknownSessionError`; if the session left the store, the error
    says where it is."""
    page = home.list_sessions(SessionFilter(ids=(session_id,)), limit=1, openings=True)
    if not page.sessions:
        home.resolve(session_id)  # raises an error with more details
        raise UnknownSessionError(f"There is no session {session_id!r} in this home.")
    found = page.sessions[0]
    children = home.list_sessions(SessionFilter(parent_id=found.id), limit=_MOST_CHILDREN)
    return SessionFacts(
        session=found,
        opening=page.openings.get(found.id, ""),
        cost=page.cost(found),
        alive=None if found.ended else home.sign_of_life(found),
        edits=home.need_store().edits,
        children=children.sessions,
    )


def window(store: SessionStore, session_id: str, part: Part) -> Window:
    size, around, before, after = part.size, part.around, part.before, part.after
    if around is not None:
        half = max(1, size // 2)
        earlier = _backwards(
            store.messages(session_id, before=around, limit=half + 1, newest_first=True)
        )
        later = [*store.messages(session_id, after=around - 1, limit=size - half + 1)]
        return Window(
            messages=[*earlier[-half:], *later[: size - half]],
            earlier=len(earlier) > half,
            later=len(later) > size - half,
        )
    if part.at_end or before is not None:
        found = _backwards(
            store.messages(session_id, before=before, limit=size + 1, newest_first=True)
        )
        return Window(messages=found[-size:], earlier=len(found) > size, later=before is not None)
    # Read one more than is shown, to know whether there are more, and nothing after it.
    found = [*islice(store.messages(session_id, after=after or 0, limit=size + 1), size + 1)]
    return Window(messages=found[:size], earlier=bool(after), later=len(found) > size)


def _backwards(messages: Iterable[Message]) -> list[Message]:
    return [*messages][::-1]

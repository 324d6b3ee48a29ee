"""Reading sessions: find, count, search, and follow their lineage.

It works with every session store, including one that another agent writes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from holdfast.errors import UnknownSessionError, UsageError
from holdfast.model import arguments
from holdfast.model.arguments import StrPath
from holdfast.model.durations import Moment, epoch
from holdfast.model.session import (
    SINGULARS,
    Hit,
    Message,
    OfSession,
    Relation,
    Search,
    Session,
    SessionFilter,
    SessionOrder,
    SessionRef,
    id_of,
)
from holdfast.ports.runs import Clock
from holdfast.ports.sessions import LoopRunner, RunsOnLoop, SessionStore
from holdfast.value import replace


class SessionFilters(TypedDict, total=False):
    """The fields of a `SessionFilter` as keywords; `source` is the same as `sources`, and so on.

    A time can be written as "2d" for two days ago, "2026-03-25", a `timedelta` before now, a
    `datetime`, or epoch seconds.
    """

    id: Collection[SessionRef] | OfSession | Session
    ids: Collection[SessionRef] | OfSession | Session
    not_id: Collection[SessionRef] | OfSession | Session
    not_ids: Collection[SessionRef] | OfSession | Session
    id_prefix: str
    source: Collection[str]
    sources: Collection[str]
    not_source: Collection[str]
    not_sources: Collection[str]
    title: str
    title_is: str
    end_reason: Collection[str]
    end_reasons: Collection[str]
    cwd: StrPath
    model: str
    routing_key: str
    parent_id: SessionRef
    relation: Collection[str]
    relations: Collection[str]
    roots: bool
    ended: bool
    pinned: bool
    titled: bool
    agent_archived: bool
    vaulted: bool
    active_before: Moment | float
    active_after: Moment | float
    started_before: Moment | float
    started_after: Moment | float
    min_messages: int
    max_messages: int
    min_bytes: int
    min_tokens: int
    max_tokens: int
    min_cost: float
    max_cost: float


#: What callers write for a filter: the words of commands, and those of other libraries.
_OTHER_NAMES = {
    "older_than": "active_before",
    "newer_than": "active_after",
    "before": "active_before",
    "after": "active_after",
    "until": "active_before",
    "since": "active_after",
    "created_before": "started_before",
    "created_after": "started_after",
    "session": "ids",
    "parent": "parent_id",
    "folder": "cwd",
}
_TIMES = ("active_before", "active_after", "started_before", "started_after")
#: The options of a search that are not fields of its filter.
_OWN = ("wanted", "role", "roles", "since", "until", "limit", "offset", "substring")


class SearchOptions(SessionFilters, total=False):
    """The options of a search: its filter, roles and limits. Times are written as in a filter."""

    wanted: SessionFilter | None
    role: Collection[str] | None
    roles: Collection[str] | None
    since: Moment | float | None
    until: Moment | float | None
    limit: int
    offset: int
    substring: bool


class SessionReader:
    """Reads the sessions of a home. Every method that takes an id also takes a `Session`.

    `elsewhere` is given an id or the start of one, and returns the error that says where that
    session is now if it left the store; None if that is unknown.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        clock: Clock,
        elsewhere: Callable[[str], UnknownSessionError | None] = lambda _: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._elsewhere = elsewhere

    if not TYPE_CHECKING:  # a type checker finds missing methods itself

        def __getattr__(self, name: str) -> object:
            raise no_such_method(self, name)

    def close(self) -> None:
        self._store.close()

    def loop_runner(self) -> LoopRunner | None:
        """For `AsyncSessions`: the runner for calls on an event loop; None for a store that blocks
        and so needs a thread."""
        return self._store.loop_runner() if isinstance(self._store, RunsOnLoop) else None

    def get(self, session: SessionRef) -> Session:
        """One session, by its whole id. Raises `UnknownSessionError` if it is not stored; the error
        says so if the session is in the archive or in the trash."""
        session_id = id_of(session)
        try:
            return self._store.get(session_id)
        except UnknownSessionError as error:
            raise self._elsewhere(session_id) or error from None

    def resolve(self, prefix: SessionRef) -> str:
        """The whole id for an id or the start of one; raises `UsageError` unless one matches."""
        session_id = id_of(prefix)
        try:
            return self._store.resolve(session_id)
        except UnknownSessionError as error:
            raise self._elsewhere(session_id) or error from None

    def find(
        self,
        wanted: SessionFilter | None = None,
        *,
        order_by: SessionOrder | str = SessionOrder.LAST_ACTIVE,
        limit: int | None = None,
        offset: int = 0,
        **filters: Unpack[SessionFilters],
    ) -> Sequence[Session]:
        """The sessions that a filter selects: `find(source="cli", active_after="2d", limit=10)`.

        Times are moments: "2d" for two days ago, a date, a `timedelta`, a `datetime`, or epoch
        seconds.
        """
        return self._store.find(
            filter_of(wanted, filters, self._clock),
            order_by=SessionOrder.of(order_by),
            limit=None if limit is None else arguments.whole(limit, "`limit`"),
            offset=arguments.whole(offset, "`offset`"),
        )

    def count(self, wanted: SessionFilter | None = None, **filters: Unpack[SessionFilters]) -> int:
        """How many sessions a filter selects."""
        return self._store.count(filter_of(wanted, filters, self._clock))

    def sources(self) -> Sequence[str]:
        """Where the stored sessions came from, each source once."""
        return self._store.sources()

    def messages(
        self,
        session: SessionRef,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        last: int | None = None,
        with_replaced: bool = False,
    ) -> Iterator[Message]:
        """The messages of a session in order: those between two numbers, the first `limit` of them
        or the `last` ones. Messages that were taken back or compacted are history: they are
        returned only with `with_replaced`."""
        if limit is not None and last is not None:
            raise UsageError("`limit` asks for the first messages and `last` for the last ones.")
        arguments.flag(with_replaced, "`with_replaced`")
        most = limit if last is None else last
        what = "`limit`" if last is None else "`last`"
        most = None if most is None else arguments.whole(most, what)
        found = self._store.messages(
            id_of(session),
            after=arguments.whole(after, "`after`"),
            before=None if before is None else arguments.whole(before, "`before`"),
            limit=most if with_replaced else None,
            newest_first=last is not None,
        )
        wanted = (each for each in found if with_replaced or not each.replaced)
        some = wanted if most is None else itertools.islice(wanted, most)
        return some if last is None else reversed(list(some))

    def search(  # noqa: PLR0913 - all but one are optional, and named
        self,
        text: str,
        *,
        wanted: SessionFilter | None = None,
        role: Collection[str] | None = None,
        roles: Collection[str] | None = None,
        since: Moment | float | None = None,
        until: Moment | float | None = None,
        limit: int = 20,
        offset: int = 0,
        substring: bool = False,
        **filters: Unpack[SessionFilters],
    ) -> Sequence[Hit]:
        """Find messages by their words, the best matches first. Understands `OR`, "-word" and
        quoted phrases; with `substring`, any part of a text, which works for CJK too. `since` and
        `until` are moments, as in `find`; `role` is the same as `roles`."""
        now = self._clock()
        return self._store.search(
            Search(
                text=text,
                wanted=filter_of(wanted, filters, self._clock),
                roles=one_of_both(role, roles),
                since=None if since is None else epoch(since, now, "`since`"),
                until=None if until is None else epoch(until, now, "`until`"),
                limit=limit,
                offset=offset,
                substring=substring,
            )
        )

    def ancestors(self, session: SessionRef) -> Sequence[Session]:
        """The parent of a session, the parent of that one, and so on to the first."""
        line = [self.get(session)]
        seen = {line[0].id}
        while (parent_id := line[-1].parent_id) is not None and parent_id not in seen:
            try:
                line.append(self._store.get(parent_id))
            except UnknownSessionError:  # another agent may have deleted it
                break
            seen.add(parent_id)
        return line[1:]

    def children(
        self, session: SessionRef, *, relation: Collection[str] | None = None
    ) -> Sequence[Session]:
        """The sessions that came from this one, the oldest first."""
        wanted = SessionFilter(parent_id=self.get(session).id, relations=relation)
        return list(reversed(self._store.find(wanted, order_by=SessionOrder.STARTED)))

    def descendants(self, session: SessionRef) -> Sequence[Session]:
        """The children of a session, their children, and so on; parents before their children."""
        found: dict[str, Session] = {}
        waiting = [self.get(session).id]
        seen = set(waiting)
        while waiting:
            new = {each.id: each for each in self.children(waiting.pop(0)) if each.id not in seen}
            found |= new
            seen |= new.keys()
            waiting += new
        return list(found.values())

    def tip(self, session: SessionRef) -> Session:
        """The session in which a conversation continues: the newest continuation, then the newest
        continuation of that one, and so on. The session itself if nothing continues it."""
        newest = self.get(session)
        seen: set[str] = set()
        while newest.id not in seen:
            seen.add(newest.id)
            if follows := self.children(newest, relation=(Relation.CONTINUATION,)):
                newest = follows[-1]
        return newest


def no_such_method(sessions: object, name: str) -> AttributeError:
    """The checkpoints and the trash of a home have `list`; its sessions have `find`."""
    hint = "; `find()` lists the sessions" if name in ("all", "list") else ""
    said = f"{type(sessions).__name__!r} object has no attribute {name!r}{hint}"
    return AttributeError(said, name=name, obj=sessions)


def filter_of(wanted: SessionFilter | None, filters: SessionFilters, clock: Clock) -> SessionFilter:
    """Add the keyword filters of a call to a filter, with times in epoch seconds."""
    fields: dict[str, object] = {}
    for name, value in filters.items():
        arguments.check_known(
            name, SessionFilters.__annotations__, "a filter for sessions", meant=_OTHER_NAMES
        )
        field = SINGULARS.get(name, name)
        if field in fields:
            same = next(each for each in filters if SINGULARS.get(each, each) == field)
            raise UsageError(f"`{same}` and `{name}` are the same filter; use one of them.")
        is_moment = field in _TIMES and value is not None
        fields[field] = epoch(value, clock(), f"`{name}`") if is_moment else value
    made = SessionFilter() if wanted is None else wanted
    checked = arguments.instance(made, SessionFilter, "`wanted`")
    return replace(checked, **fields) if fields else checked  # type: ignore[arg-type]


def one_of_both(
    role: Collection[str] | None, roles: Collection[str] | None
) -> Collection[str] | None:
    """The roles of a search, by either of their two names."""
    if role is not None and roles is not None:
        raise UsageError("`role` and `roles` are the same option; use one of them.")
    return roles if role is None else role


def search_of(asked: Search | str, options: SearchOptions, clock: Clock) -> Search:
    """The search for a text with the options of a call, or the given `Search`."""
    if isinstance(asked, Search):
        if options:
            raise UsageError(f"Pass a text with {', '.join(options)}: a Search has its own.")
        return asked
    rest: dict[str, Any] = dict(options)
    own = {name: rest.pop(name) for name in _OWN if name in rest}
    wanted = own.pop("wanted", None)
    own["roles"] = one_of_both(own.pop("role", None), own.get("roles"))
    now = clock()
    for name in ("since", "until"):
        if own.get(name) is not None:
            own[name] = epoch(own[name], now, f"`{name}`")
    chosen = filter_of(wanted, cast("SessionFilters", rest), clock)
    return Search(text=asked, wanted=chosen, **own)

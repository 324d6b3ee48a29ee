"""Which scanned items a run covers, which sessions match a filter, and their order."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from holdfast.model.item import SESSION, SPACE, TRASH, Item
from holdfast.model.session import Session, SessionFilter, SessionOrder, Tokens
from holdfast.policy.prices import Prices
from holdfast.value import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which kinds (None means all) and which sessions.

    The store selects stored sessions. Their files follow them, and so does the space that they
    leave. Trash belongs to every kind, but only to the source that it came from.
    """

    kinds: frozenset[str] | None = None
    sessions: SessionFilter = field(default_factory=SessionFilter)

    def of(self, items: Iterable[Item]) -> tuple[Item, ...]:
        orphans = _could_be_wanted(self.sessions)
        return tuple(item for item in items if self._has(item, orphans=orphans))

    def _has(self, item: Item, *, orphans: bool) -> bool:
        if item.kind == TRASH:
            return self._is_of_source(item)
        if item.owned or item.kind in (SESSION, SPACE):
            return self._is_of_kind(SESSION)
        return orphans and self._is_of_kind(item.kind) and self._is_wanted(item)

    def _is_of_kind(self, kind: str) -> bool:
        return self.kinds is None or kind in self.kinds

    def _is_of_source(self, item: Item) -> bool:
        sources, others = self.sessions.sources, self.sessions.not_sources
        return _among(item.source, sources) and not _listed(item.source, others)

    def _is_wanted(self, item: Item) -> bool:
        """For a file without a row, only source and time are known. Bounds are exclusive, as they
        are for rows."""
        before, after = self.sessions.active_before, self.sessions.active_after
        return (
            self._is_of_source(item)
            and (before is None or item.last_active_at < before)
            and (after is None or item.last_active_at > after)
        )


def _could_be_wanted(wanted: SessionFilter) -> bool:
    """True if files without a row can match: title, model and end are known only from rows."""
    rest = replace(wanted, sources=None, not_sources=None, active_before=None, active_after=None)
    return rest == SessionFilter()


def unknown_sources(wanted: SessionFilter, known: Collection[str]) -> Mapping[str, str | None]:
    """Requested sources that nothing comes from, usually typos, each with the nearest one that
    exists."""
    missing = [source for source in wanted.sources or () if source not in known]
    if not missing:
        return {}
    from difflib import get_close_matches  # noqa: PLC0415 - slow to load, and typos are few

    return {source: next(iter(get_close_matches(source, known, n=1)), None) for source in missing}


# The store folds the case of these letters only.
_LOWER = {code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)}


def matches(wanted: SessionFilter, session: Session) -> bool:
    return (
        _texts_match(wanted, session) and _flags_match(wanted, session) and _within(wanted, session)
    )


def _texts_match(wanted: SessionFilter, session: Session) -> bool:
    return (
        _among(session.id, wanted.ids)
        and not _listed(session.id, wanted.not_ids)
        and session.id.startswith(wanted.id_prefix or "")
        and _among(session.source, wanted.sources)
        and not _listed(session.source, wanted.not_sources)
        and _among(session.end_reason, wanted.end_reasons)
        and _contains(session.title, wanted.title)
        and wanted.title_is in (None, session.title)
        and _contains(session.model, wanted.model)
        and wanted.routing_key in (None, session.routing_key)
        and wanted.parent_id in (None, session.parent_id)
        and _among(session.relation, wanted.relations)
        and (wanted.cwd is None or _is_below(session.cwd, os.fspath(wanted.cwd)))
    )


def _flags_match(wanted: SessionFilter, session: Session) -> bool:
    return (
        wanted.ended in (None, session.ended)
        and wanted.roots in (None, session.parent_id is None)
        and wanted.titled in (None, session.title is not None)
        and wanted.pinned in (None, session.pinned)
        and wanted.vaulted in (None, session.vaulted)
        and not wanted.agent_archived  # only the store of an agent's sessions knows that flag
    )


def _within(wanted: SessionFilter, session: Session) -> bool:
    active, tokens = session.last_active_at, session.tokens.total
    return (
        (wanted.active_before is None or active < wanted.active_before)
        and (wanted.active_after is None or active > wanted.active_after)
        and (wanted.started_before is None or session.started_at < wanted.started_before)
        and (wanted.started_after is None or session.started_at > wanted.started_after)
        and _between(session.message_count, wanted.min_messages, wanted.max_messages)
        and _between(session.bytes, wanted.min_bytes, None)
        and _between(tokens, wanted.min_tokens, wanted.max_tokens)
        and _between(session.cost, wanted.min_cost, wanted.max_cost)
        # An unknown cost is not within any maximum.
        and (wanted.max_cost is None or session.unpriced == Tokens())
    )


def _among(value: str | None, wanted: object) -> bool:
    return wanted is None or _listed(value, wanted)


def _listed(value: str | None, texts: object) -> bool:
    """True if a string is in a list of a filter, which keeps its lists as tuples."""
    return isinstance(texts, tuple) and value in texts


def _contains(value: str | None, wanted: str | None) -> bool:
    if wanted is None:
        return True
    return value is not None and wanted.translate(_LOWER) in value.translate(_LOWER)


def _is_below(value: str | None, wanted: str) -> bool:
    """True for the folder itself, and everything in it."""
    folder = wanted.rstrip("/")
    return value is not None and (value == (folder or "/") or value.startswith(folder + "/"))


def _between(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


# --- The order of a list ------------------------------------------------------------------------


def rank(session: Session, order_by: SessionOrder, prices: Prices) -> tuple[bool, bytes, float]:
    """The sort key of a session: the first in the list has the lowest."""
    if order_by.of_texts:
        text = getattr(session, order_by.value) or ""
        # As SQLite sorts: by bytes, ignoring the case of ASCII letters.
        folded = text.encode("utf-8", "surrogatepass")
        if order_by is not SessionOrder.ID:
            folded = folded.lower()
        return not text, folded, -session.last_active_at
    return False, b"", -_figure(session, order_by, prices)


def _figure(session: Session, order_by: SessionOrder, prices: Prices) -> float:
    match order_by:
        case SessionOrder.STARTED:
            return session.started_at
        case SessionOrder.MESSAGES:
            return session.message_count
        case SessionOrder.TOKENS:
            return session.tokens.total
        case SessionOrder.COST:
            cost = prices.cost_of_session(session)
            return session.cost if cost is None else cost  # an order has no place for unknown costs
        case SessionOrder.BYTES:
            return session.bytes
        case _:
            return session.last_active_at

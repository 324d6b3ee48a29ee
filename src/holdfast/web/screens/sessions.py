"""Sessions of all agents, page by page, with a search in their messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from markupsafe import Markup, escape
from starlette.responses import Response

from holdfast.api.catalogue import search_indexes
from holdfast.errors import QueryError
from holdfast.model.session import Hit, Search, SessionFilter, SessionOrder
from holdfast.model.text import printable
from holdfast.value import dataclass, replace
from holdfast.web.site import Form, Screen, Site, get

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.catalogue import Catalogue
    from holdfast.api.machine import Machine
    from holdfast.api.machine_sessions import FoundSession, MachineSearch

PAGE = 50
_HITS = 30
_TITLES = 5
_DAY = 86_400.0
#: The largest offset that is passed to a store.
_MOST_OFFSET = 10**9
STATES = {
    "": "All",
    "open": "Alive or open",
    "ended": "Ended",
    "pinned": "Pinned",
    "vaulted": "Vaulted",
}
PERIODS = {
    "": "Any time",
    "1d": "Last 24 hours",
    "7d": "Last 7 days",
    "30d": "Last 30 days",
    "90d": "Last 90 days",
    "old": "Older than 90 days",
}
#: The end of a word that may still be being typed.
_GOES_ON = re.compile(r"[^\W_]\Z")
_OPERATORS = ("AND", "OR", "NOT", "NEAR")
_DAYS = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}
ORDERS = {
    "active": "Last active",
    "started": "Started",
    "size": "Size",
    "messages": "Messages",
    "tokens": "Tokens",
    "cost": "Cost",
    "title": "Title",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The content of the address, which can be bookmarked, or sent to another user of this
    machine."""

    text: str = ""
    home: str = ""
    state: str = ""
    period: str = ""
    project: str = ""
    sort: str = "active"
    offset: int = 0

    @classmethod
    def of(cls, query: Form) -> Asked:
        """Unknown values become the default: an old link still shows a list."""
        sort, state, period = query.one("sort"), query.one("state"), query.one("period")
        offset = query.one("offset")
        return cls(
            text=query.one("q").strip(),
            home=query.one("home"),
            state=state if state in STATES else "",
            period=period if period in PERIODS else "",
            project=query.one("project").strip(),
            sort=sort if sort in ORDERS else "active",
            offset=min(int(offset), _MOST_OFFSET) if offset.isdecimal() else 0,
        )

    def address(self, path: str = "/sessions", **changes: Any) -> str:
        """The address of the same list, with these changes."""
        changed = replace(self, **{"offset": 0, **changes})
        said = {
            "q": changed.text,
            "home": changed.home,
            "state": changed.state,
            "period": changed.period,
            "project": changed.project,
            "sort": "" if changed.sort == "active" else changed.sort,
            "offset": str(changed.offset) if changed.offset else "",
        }
        query = urlencode({k: v for k, v in said.items() if v}, errors="surrogateescape")
        return f"{path}?{query}" if query else path

    def at(self, offset: int) -> str:
        return self.address(offset=offset)

    def by(self, sort: str) -> str:
        return self.address(sort=sort)

    def wanted(self, now: float) -> SessionFilter:
        days = _DAYS.get(self.period)
        return SessionFilter(
            ended={"open": False, "ended": True}.get(self.state),
            pinned=True if self.state == "pinned" else None,
            vaulted=True if self.state == "vaulted" else None,
            cwd=self.project or None,
            active_after=None if days is None else now - days * _DAY,
            active_before=now - _DAYS["90d"] * _DAY if self.period == "old" else None,
        )

    @property
    def narrows(self) -> bool:
        return bool(self.home or self.state or self.period or self.project)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A session in a list. `title` may contain marks."""

    found: FoundSession
    slug: str
    title: str | Markup
    untitled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRow:
    """A message that matches."""

    home: AgentHome
    slug: str
    hit: Hit
    title: str
    text: Markup


async def show(site: Site, request: Request) -> Response:
    """The whole page."""
    asked = Asked.of(site.query(request))
    homes = await site.lists.homes()
    return site.page(
        request,
        "sessions/list.html",
        title="Sessions",
        homes=[(site.slug(each), each) for each in homes],
        states=STATES,
        periods=PERIODS,
        orders=ORDERS,
        **await _results(site, asked),
    )


async def results(site: Site, request: Request) -> Response:
    """Only the results, for the page that is open."""
    asked = Asked.of(site.query(request))
    return site.fragment("sessions/_results.html", **await _results(site, asked))


async def indexing(site: Site, request: Request) -> Response:
    """The progress of the index, for a page that waits for it."""
    if site.index.is_made():
        return Response(status_code=204)  # a search now finds everything, or reports why not
    label, done, total = site.index.step
    return site.fragment("sessions/_indexing.html", label=label, done=done, total=total)


async def _results(site: Site, asked: Asked) -> dict[str, Any]:
    return await (_found(site, asked) if asked.text else _listed(site, asked))


async def _listed(site: Site, asked: Asked) -> dict[str, Any]:
    page = await site.lists.page(
        asked.wanted(site.clock()),
        order_by=SessionOrder(asked.sort),
        limit=PAGE,
        offset=asked.offset,
        home=await site.home(asked.home) if asked.home else None,
    )
    return {
        "asked": asked,
        "rows": [_row(site, each, "") for each in page.found],
        "total": page.total,
        "limit": PAGE,
        "unread": page.looked.unread,
        "problems": [each for _, part in page.looked.seen for each in part.problems],
        "hits": None,
        "error": None,
        "indexing": None,
    }


async def _found(site: Site, asked: Asked) -> dict[str, Any]:
    """Sessions by title, then messages by content."""
    wanted = asked.wanted(site.clock())
    home = await site.home(asked.home) if asked.home else None
    search = Search(text=as_typed(asked.text), wanted=wanted, limit=_HITS + 1, offset=asked.offset)

    def look(machine: Machine) -> tuple[MachineSearch, Collection[Path]]:
        return search_indexes(machine, search, homes=None if home is None else [home])

    ready = await site.index.ready()
    try:
        messages, indexed = await site.threads.search(look)
    except QueryError as error:  # an incomplete query, while it is typed
        return {**_NOTHING, "asked": asked, "error": error}
    titles = await site.lists.page(
        replace(wanted, title=asked.text),
        order_by=SessionOrder.LAST_ACTIVE,
        limit=_TITLES,
        home=home,
    )
    hits = await site.lists.ask(lambda listed: _hit_rows(site, listed, messages, indexed))
    results = [result for _, result in messages.looked.seen]
    return {
        **_NOTHING,
        "asked": asked,
        "rows": [] if asked.offset else [_row(site, each, asked.text) for each in titles.found],
        "total": titles.total,
        "limit": _HITS,
        "unread": messages.looked.unread,
        "problems": [each for result in results for each in result.problems],
        "hits": hits,
        "indexing": None if ready else site.index.step,
        "more": len(messages.hits) > _HITS,
        "close_words": list(dict.fromkeys(w for each in results for w in each.close_words)),
        "archive_unread": any(each.archive_unread for each in results),
    }


_NOTHING: dict[str, Any] = {
    "rows": (),
    "total": 0,
    "limit": PAGE,
    "unread": (),
    "problems": (),
    "hits": (),
    "more": False,
    "close_words": (),
    "archive_unread": False,
    "error": None,
    "indexing": None,
}


def _hit_rows(
    site: Site, listed: Catalogue, found: MachineSearch, indexed: Collection[Path]
) -> Sequence[HitRow]:
    """An index may still contain removed sessions, and has outdated titles: the list is current."""
    rows = []
    for home, hit in found.hits[:_HITS]:
        known = listed.sessions(home, [hit.session.id]).get(hit.session.id)
        if known is not None:
            rows.append(_hit_row(site, home, replace(hit, session=known)))
        elif home.path not in indexed:
            rows.append(_hit_row(site, home, hit))
    return rows


def _row(site: Site, found: FoundSession, words: str) -> Row:
    title = found.session.title or found.opening
    return Row(
        found=found,
        slug=site.slug(found.home),
        title=marked_title(title, words) if words and title else title or found.session.id,
        untitled=not found.session.title,
    )


def _hit_row(site: Site, home: AgentHome, hit: Hit) -> HitRow:
    return HitRow(
        home=home,
        slug=site.slug(home),
        hit=hit,
        title=hit.session.title or hit.session.id,
        text=marked(hit),
    )


# --- What a search found, marked ------------------------------------------------------------------


def marked(hit: Hit) -> Markup:
    """The snippet of a match with the match marked, and without the added brackets."""
    made, done = Markup(""), 0
    for start, end in hit.matches:
        made += _shown(hit.snippet[done : start - 1])
        made += Markup("<mark>{}</mark>").format(_shown(hit.snippet[start:end]))
        done = end + 1
    return made + _shown(hit.snippet[done:])


def _shown(text: str) -> str:
    return printable(re.sub(r"\s+", " ", text))


def marked_title(title: str, words: str) -> Markup:
    """A title with the search words marked."""
    wanted = sorted({*re.findall(r"\w+", words)} - {*_OPERATORS}, key=len, reverse=True)
    shown = printable(title)
    if not wanted:
        return escape(shown)
    pieces = re.split(f"({'|'.join(map(re.escape, wanted))})", shown, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if number % 2 else escape(piece)
        for number, piece in enumerate(pieces)
    )


def as_typed(words: str) -> str:
    """A query while it is typed: the last word matches as a prefix."""
    text = words.strip()
    last = text.split()[-1] if text else ""
    if not text or text.count('"') % 2 or last in _OPERATORS or not _GOES_ON.search(text):
        return text
    return f"{text}*"


SCREEN = Screen(
    title="Sessions",
    path="/sessions",
    icon="sessions",
    order=10,
    routes=(
        get("/sessions", show),
        get("/sessions/results", results),
        get("/sessions/indexing", indexing),
    ),
)

"""One session: its facts, its messages, and what can be done with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from starlette.responses import PlainTextResponse

from holdfast.api.catalogue import read_session
from holdfast.api.transcript_pages import Part, SessionFacts, Window
from holdfast.errors import UsageError
from holdfast.model.plan import Action
from holdfast.web.conversation import said
from holdfast.web.site import Form, Screen, Site, get

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine

#: How many messages are shown at once.
_WINDOW = 60
_FORMS = {"jsonl": "application/x-ndjson", "markdown": "text/markdown"}
_ENDINGS = {"jsonl": "jsonl", "markdown": "md"}
_MOST_DIGITS = 18
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def _asked(query: Form) -> tuple[str, Part]:
    """The session in an address, and the place in it."""
    if not (wanted := query.one("id")):
        raise UsageError("The address names no session.")
    return wanted, Part(
        size=_WINDOW,
        after=_number(query.one("after")),
        before=_number(query.one("before")),
        around=_number(query.one("at")),
        at_end=query.flag("end"),
    )


async def read(site: Site, request: Request) -> Response:
    """The session, and a window of its messages."""
    (wanted, part), slug = _asked(site.query(request)), request.path_params["home"]
    home = await site.home(slug)
    facts, shown = await _read(site, home, wanted, part)
    return site.page(
        request,
        "sessions/read.html",
        title=facts.session.title or facts.opening or facts.session.id,
        home=home,
        slug=slug,
        facts=facts,
        session=facts.session,
        session_id=wanted,
        part=part,
        window=shown,
        messages=[said(each) for each in shown.messages],
        may_rename=Action.RENAME in facts.edits,
        may_pin=Action.PIN in facts.edits,
    )


async def messages(site: Site, request: Request) -> Response:
    """More messages, for the page that is open."""
    (wanted, part), slug = _asked(site.query(request)), request.path_params["home"]
    _, shown = await _read(site, await site.home(slug), wanted, part)
    return site.fragment(
        "sessions/_messages.html",
        slug=slug,
        session_id=wanted,
        part=part,
        window=shown,
        messages=[said(each) for each in shown.messages],
    )


async def message(site: Site, request: Request) -> Response:
    """A long message in full, as plain text."""
    query, slug = site.query(request), request.path_params["home"]
    (wanted, _), number = _asked(query), _number(query.one("number")) or 0
    part = Part(size=1, after=number - 1)
    _, shown = await _read(site, await site.home(slug), wanted, part)
    found = shown.messages
    if not found or found[0].number != number:
        raise UsageError("There is no such message in this session any more.")
    whole = said(found[0], most=10**12)
    return PlainTextResponse(
        "\n\n".join(
            f"{each.title}\n{each.text}" if each.title else each.text for each in whole.blocks
        ).encode("utf-8", "replace")
    )


async def export(site: Site, request: Request) -> Response:
    """The session as a file."""
    query, slug = site.query(request), request.path_params["home"]
    (wanted, _), form = _asked(query), query.one("form", "jsonl")
    if form not in _FORMS:
        raise UsageError(
            f"{form!r} is not an export format.", hint=f"Choose {' or '.join(_FORMS)}."
        )

    def write(machine: Machine, file: BinaryIO) -> None:
        home = machine.open(site.home_of(machine, slug))
        home.export(file, [wanted], form=form, redact=query.flag("redact"))

    name = f"{_NOT_IN_NAMES.sub('_', wanted)[:100]}.{_ENDINGS[form]}"
    return await site.download(write, name, _FORMS[form])


async def _read(
    site: Site, home: AgentHome, wanted: str, part: Part
) -> tuple[SessionFacts, Window]:
    known = await site.lists.known(home, wanted)
    return await site.threads.read(lambda machine: read_session(machine, home, wanted, known, part))


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


SCREEN = Screen(
    routes=(
        get("/sessions/{home}/read", read),
        get("/sessions/{home}/messages", messages),
        get("/sessions/{home}/message", message),
        get("/sessions/{home}/export", export),
    ),
)

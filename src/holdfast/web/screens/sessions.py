"""Sessions of all agents, page by page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from holdfast.model.session import SessionFilter, SessionOrder
from holdfast.web.site import Screen, Site, get

_PAGE = 50


async def show(site: Site, request: Request) -> Response:
    page = await site.read(
        lambda machine: machine.list_sessions(
            SessionFilter(), order_by=SessionOrder.LAST_ACTIVE, limit=_PAGE, openings=True
        )
    )
    return site.page(request, "sessions/list.html", title="Sessions", found=page, slug=site.slug)


SCREEN = Screen(
    title="Sessions", path="/sessions", icon="sessions", order=10, routes=(get("/sessions", show),)
)

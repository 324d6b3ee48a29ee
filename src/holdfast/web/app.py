"""The application: every address of every screen, and errors as pages."""

from __future__ import annotations

import logging
from urllib.parse import unquote, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, compile_path
from starlette.types import ASGIApp

from holdfast.errors import COMMAND_FLAG, HoldfastError
from holdfast.web.apart import internal_error
from holdfast.web.rendering import STATIC_FOLDER
from holdfast.web.site import Address, Site, status_of

_LOG = logging.getLogger("holdfast.web")
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_NOT_FOUND = 404
#: Whoever gets these sees nothing of the page.
_STRANGERS = (401, 403, 421)


def application(site: Site) -> ASGIApp:
    """What a server runs: all screens, behind the gate."""
    routes = [_route(site, address) for screen in site.screens for address in screen.routes]
    routes.append(Route("/static/{version}/{name}", _static))

    async def refuse(request: Request, status: int, message: str, hint: str) -> Response:
        return _error_page(site, request, status, message, hint)

    async def failed(request: Request, error: Exception) -> Response:
        return _failed(site, request, error)

    app = Starlette(
        routes=routes,
        exception_handlers={HoldfastError: failed, HTTPException: failed, Exception: failed},
    )
    return site.gate.around(app, refuse)


async def _static(request: Request) -> Response:
    """A file of ours. Its name is looked up, and is never a path."""
    name = request.path_params["name"]
    found = next((each for each in STATIC_FOLDER.iterdir() if each.name == name), None)
    if found is None or found.suffix not in _TYPES:
        raise HTTPException(_NOT_FOUND)
    return Response(found.read_bytes(), media_type=_TYPES[found.suffix])


def _route(site: Site, address: Address) -> Route:
    async def answer(request: Request) -> Response:
        COMMAND_FLAG.set("")  # hints name commands
        try:
            if address.method == "POST":
                await site.form(request)  # no handler runs for a form that is not ours
            return await address.handler(site, request)
        except Exception as error:  # noqa: BLE001 - a bug of one screen is told on that screen
            return _failed(site, request, error)
        finally:
            site.uploads.let_go(request)

    return Route(address.path, answer, methods=[address.method])


def _failed(site: Site, request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        if error.status_code == _NOT_FOUND:
            return _error_page(site, request, _NOT_FOUND, "There is no such page.", "")
        return _error_page(site, request, error.status_code, error.detail, "")
    if not isinstance(error, HoldfastError):
        _LOG.error("Cannot show %s", request.url.path, exc_info=error)
        error = internal_error(error)
    return _error_page(site, request, status_of(error), error.message, error.hint or "")


def _error_page(site: Site, request: Request, status: int, message: str, hint: str) -> Response:
    return site.page(
        request,
        "error.html",
        status=status,
        message=message,
        hint=hint,
        is_stranger=status in _STRANGERS,
        back=_way_back(site, request),
    )


def _way_back(site: Site, request: Request) -> str:
    """The page of ours that somebody came from, "" when it cannot be shown again; after a form that
    came from nowhere, the screen that it belongs to."""
    came = urlsplit(request.headers.get("referer", ""))
    shown = [
        compile_path(each.path)[0]
        for screen in site.screens
        for each in screen.routes
        if each.method == "GET"
    ]
    path = unquote(came.path, errors="surrogateescape")
    from_here = came.scheme == "http" and came.netloc == request.headers.get("host")
    if from_here and path != request.url.path and any(each.match(path) for each in shown):
        return f"{came.path}?{came.query}" if came.query else came.path
    here = [
        each.path for each in site.screens if f"{request.url.path}/".startswith(f"{each.path}/")
    ]
    return max(here, key=len, default="") if request.method == "POST" else ""

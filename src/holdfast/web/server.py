"""The server: a socket and the application on it, with the routes of all screens and pages for
errors."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, compile_path
from starlette.types import ASGIApp

from holdfast.errors import COMMAND_FLAG, HoldfastError, UsageError
from holdfast.web.child_process import internal_error
from holdfast.web.gate import Gate, Keys, OpenedOnce
from holdfast.web.jobs import Jobs
from holdfast.web.lists import Index, Lists
from holdfast.web.query_threads import QueryThreads
from holdfast.web.rendering import STATIC_FOLDER, Templates
from holdfast.web.screens import SCREENS
from holdfast.web.screens.jobs import result_of
from holdfast.web.site import Address, Site, status_of

_LOG = logging.getLogger("holdfast.web")
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_NOT_FOUND = 404
#: A response with one of these statuses contains nothing of the page.
_STRANGERS = (401, 403, 421)
#: The default port. If it is taken, one of the next is used.
USUAL_PORT = 7877
_MORE_PORTS = 20


def listening(host: str, port: int | None) -> socket.socket:
    """A socket at this port; without a port, at the usual one or the next that is free."""
    ports = range(USUAL_PORT, USUAL_PORT + _MORE_PORTS) if port is None else (port,)
    for each in ports:
        try:
            return _bound(host, each)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise _cannot_listen(host, each, error) from error
    if port is None:
        return _bound(host, 0)
    raise UsageError(
        f"Another program is listening on port {port}.",
        hint="Choose another with --port, or leave it out.",
    )


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # On Linux this only lets a new server use the port of one that has just ended.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except BaseException:
        made.close()
        raise
    return made


def _cannot_listen(host: str, port: int, error: OSError) -> UsageError:
    return UsageError(
        f"Cannot listen on {host}, port {port}: {error.strerror or error}.",
        hint="--host takes an address of this machine.",
    )


def site(
    threads: QueryThreads,
    gate: Gate,
    *,
    clock: Callable[[], float],
    version: str,
    user_home: Path,
) -> Site:
    return Site(
        threads=threads,
        gate=gate,
        templates=Templates(version, user_home),
        jobs=Jobs(threads.changed, threads.children, result_of),
        lists=Lists(threads, lambda home, slug: Site.slug(home) == slug),
        index=Index(threads),
        clock=clock,
        screens=SCREENS,
    )


def serve(app: ASGIApp, at: socket.socket) -> None:
    """Serve until Ctrl-C; after that, uvicorn sends itself the signal again."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_level="critical",  # errors of a screen are shown on that screen
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[at])


# --- The application ------------------------------------------------------------------------------


def application(site: Site) -> ASGIApp:
    """The application of a server: all screens, behind the gate."""
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
    """A static file. Its name is looked up and never used as a path."""
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
        except Exception as error:  # noqa: BLE001 - a bug of one screen is shown on it
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
    """The page of ours that the user came from, "" if it cannot be shown again; after a form
    without a referrer, the screen that it belongs to."""
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


__all__ = ["Gate", "Keys", "OpenedOnce", "application", "listening", "serve", "site"]

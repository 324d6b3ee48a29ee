"""The server: a socket, a process, an end."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from holdfast.errors import UsageError
from holdfast.web.app import application
from holdfast.web.desk import Desk
from holdfast.web.gate import Gate, Keys, OpenedOnce
from holdfast.web.jobs import Jobs
from holdfast.web.lists import Index, Lists
from holdfast.web.rendering import Templates
from holdfast.web.running import result_of
from holdfast.web.screens import SCREENS
from holdfast.web.site import Site

#: Where the page is unless somebody says otherwise. When that is taken, one of the next.
USUAL_PORT = 7877
_MORE_PORTS = 20


def listening(host: str, port: int | None) -> socket.socket:
    """A socket at this port; without one, at the usual port or the next that is free."""
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
        f"Something else listens on port {port}.",
        hint="Choose another with --port, or leave it out.",
    )


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # On Linux this only lets a new server have the port of one that has just ended.
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
    desk: Desk,
    gate: Gate,
    *,
    clock: Callable[[], float],
    version: str,
    user_home: Path,
) -> Site:
    return Site(
        desk=desk,
        gate=gate,
        templates=Templates(version, user_home),
        jobs=Jobs(desk.changed, desk.children, result_of),
        lists=Lists(desk, lambda home, slug: Site.slug(home) == slug),
        index=Index(desk),
        clock=clock,
        screens=SCREENS,
    )


def serve(app: ASGIApp, at: socket.socket) -> None:
    """Answer until Ctrl-C; once it has ended, uvicorn sends itself the signal again."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_level="critical",  # what a screen cannot do is told on that screen
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[at])


__all__ = ["Gate", "Keys", "OpenedOnce", "application", "listening", "serve", "site"]

"""`holdfast web`: the page."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from holdfast import __version__
from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation
from holdfast.cli.numbers import WholeNumber
from holdfast.cli.output import note, print_json, say, say_command
from holdfast.errors import UsageError, to_install_extra

if TYPE_CHECKING:
    from holdfast.web.gate import Gate

_HOST = "127.0.0.1"


@command(example="holdfast web\nholdfast web --read-only --no-open --port 8080")
@click.option(
    "--port",
    type=WholeNumber(0, 65_535),
    metavar="N",
    help="Listen on this port; 0 is any that is free [7877, or the next that is free].",
)
@click.option(
    "--host",
    default=_HOST,
    show_default=True,
    metavar="ADDRESS",
    help="Listen on this address. Any other than the default lets other machines in.",
)
@click.option("--no-open", is_flag=True, help="Print the address and open no browser.")
@click.option("--read-only", is_flag=True, help="Show everything and change nothing.")
def web(
    invocation: Invocation, /, *, port: int | None, host: str, no_open: bool, read_only: bool
) -> None:
    """Open Holdfast as a page in your browser, until Ctrl-C.

    It shows every home on this machine: what fills the disk, what can be freed, and all sessions to
    search and read. It shows each change before making it, and undo reverts it, as with the
    commands.

    Only this machine can reach it, and only with the address that is printed: it has a token that
    changes with every start.
    """
    if invocation.home is not None:
        raise UsageError(
            "The page shows every home of this machine; --home does not fit.",
            hint="Choose a home on the page, or start it with --agent NAME.",
        )
    try:
        from holdfast.web import server
    except ImportError as error:
        raise UsageError(
            f"`holdfast web` needs the package {error.name}, which isn't installed.",
            hint=to_install_extra("web"),
        ) from error
    from holdfast.web.query_threads import QueryThreads

    beyond = not _is_loopback(host)
    listening = server.listening(host, port)
    chosen = listening.getsockname()[1]
    gate = server.Gate(
        keys=server.Keys(),
        opened=server.OpenedOnce(),
        port=chosen,
        names=(host, socket.gethostname().lower()) if beyond else (),
        beyond=beyond,
        read_only=read_only,
    )

    site = server.site(
        QueryThreads(lambda command: invocation.make_machine(command=command), invocation.clock),
        gate,
        clock=invocation.clock,
        version=__version__,
        user_home=invocation.user_home,
    )
    address = f"http://{_shown(host)}:{chosen}/"
    try:
        with listening, suppress(KeyboardInterrupt):  # Ctrl-C is how it ends
            _tell(invocation, f"{address}?token={gate.keys.link}", gate)
            if not no_open and _has_screen():
                _open(f"{address}?token={gate.opened.key}")
            server.serve(server.application(site), listening)
    finally:
        site.close()


def _tell(invocation: Invocation, link: str, gate: Gate) -> None:
    """Print the address, with a warning if other machines can reach the page. It is flushed, so
    that a program reading a pipe gets it at once."""
    if gate.beyond:
        note(
            "warning: other machines can reach this page. Whoever has the address can read and "
            "remove your sessions, and nothing encrypts what is sent. Through an SSH tunnel the "
            f"usual address is enough: ssh -L {gate.port}:127.0.0.1:{gate.port} HOST"
        )
    if invocation.json:
        print_json({"url": link, "port": gate.port, "read_only": gate.read_only})
    else:
        say("Holdfast is open at this address, until Ctrl-C:")
        say_command(link)
    sys.stdout.flush()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(host: str) -> str:
    """The host for an address that works from here."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _has_screen() -> bool:
    """True if there is a graphical screen. Without one, a text browser would open in the terminal,
    over the printed address."""
    named = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    return sys.platform != "linux" or any(os.environ.get(each) for each in named)


def _open(link: str) -> None:
    """Open the browser, in a thread, because that may take long. If there is none, the user has the
    printed address."""
    threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()

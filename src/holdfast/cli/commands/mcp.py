"""`holdfast mcp`: sessions and checkpoints as tools for an agent."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.api.place import Place
from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation, quoted
from holdfast.cli.output import note
from holdfast.errors import UsageError, to_install_extra

if TYPE_CHECKING:
    from holdfast.api.machine import Machine


@command(
    example="holdfast mcp\nclaude mcp add holdfast -- holdfast mcp\n"
    "codex mcp add holdfast -- holdfast mcp"
)
def mcp(invocation: Invocation, /) -> None:
    """Serve sessions and checkpoints to an agent, over the Model Context Protocol.

    The agent starts this command and talks to it on stdin and stdout. It can search and read past
    sessions of every agent here, with secrets blanked out; list, compare and take checkpoints; and
    see budgets. Before a restore the user is asked; [mcp] in config.toml can allow or refuse it.
    """
    try:
        from holdfast.mcp.server import server
    except ImportError as error:
        raise UsageError(
            f"`holdfast mcp` needs the package {error.name}, which isn't installed.",
            hint=to_install_extra("mcp"),
        ) from error
    from holdfast.mcp.tools import Tools

    place = invocation.checked_place(invocation.home_path)

    def machine(agents: Sequence[str] | None) -> Machine:
        return invocation.make_machine(command="holdfast mcp", agents=agents)

    if sys.stdin.isatty():
        note("This is a server, which an agent starts and talks to. Ctrl-C ends it.")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # it waits for input in a thread
    # Most machines with an agent have several homes, but undo works on one.
    named = "holdfast" if invocation.home is None else quoted(place.root.absolute())
    tools = Tools(
        home=place.root,
        command=f"holdfast --home {named}",
        machine=machine,
        clock=invocation.clock,
    )

    def changes() -> str:
        now = Place(place.root, environ=os.environ)
        now.check_settings()
        return now.settings.mcp.changes

    server(tools, changes=changes).run("stdio")

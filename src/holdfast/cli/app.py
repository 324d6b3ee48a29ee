"""The outermost layer of all commands: the root group, and error handling."""

from __future__ import annotations

import click

from holdfast import __version__
from holdfast.cli.frame import Group, Lazy
from holdfast.cli.invocation import Invocation
from holdfast.cli.report_error import exit_code
from holdfast.errors import UsageError

COMMANDS = {
    "status": Lazy(
        "holdfast.cli.commands.status", "Show what is here, what it costs and what would be freed."
    ),
    "sessions": Lazy("holdfast.cli.commands.sessions", "List, search and limit sessions."),
    "checkpoints": Lazy("holdfast.cli.commands.checkpoints", "Take, list and restore checkpoints."),
    "run": Lazy("holdfast.cli.commands.run", "Run an agent with checkpoints and limits."),
    "mcp": Lazy("holdfast.cli.commands.mcp", "Serve sessions and checkpoints to an agent."),
    "vault": Lazy("holdfast.cli.commands.vault", "Keep sessions that an agent deletes."),
    "web": Lazy("holdfast.cli.commands.web", "Open Holdfast as a page in your browser."),
    "maintain": Lazy("holdfast.cli.commands.maintain", "Run maintenance, once or continuously."),
    "apply": Lazy("holdfast.cli.commands.apply", "Apply a saved plan."),
    "log": Lazy("holdfast.cli.commands.log", "List what was done to a home."),
    "undo": Lazy("holdfast.cli.commands.undo", "Bring back what an operation removed."),
    "redo": Lazy("holdfast.cli.commands.redo", "Repeat an operation that was undone."),
    "trash": Lazy("holdfast.cli.commands.trash", "List or empty what undo can bring back."),
    "metrics": Lazy("holdfast.cli.commands.metrics", "Export metrics for Prometheus."),
    "connect": Lazy("holdfast.cli.commands.connect", "Connect Holdfast to an agent."),
    "disconnect": Lazy("holdfast.cli.commands.connect", "Disconnect Holdfast from an agent."),
    "config": Lazy("holdfast.cli.commands.config", "See, check or change the configuration."),
    "store": Lazy("holdfast.cli.commands.store", "Keep sessions in a shared database."),
    "fleet": Lazy("holdfast.cli.commands.store", "List the machines that share a database."),
    "doctor": Lazy("holdfast.cli.commands.doctor", "Check a home, and repair it."),
    "demo": Lazy("holdfast.cli.commands.demo", "Show what Holdfast does, on a sample home."),
    "completion": Lazy("holdfast.cli.commands.completion", "Print a shell completion script."),
    "help": Lazy("holdfast.cli.commands.help", "Show the help page of a command.", "help_"),
}


@click.group(
    cls=Group,
    lazy=COMMANDS,
    default="status",
    example="holdfast                                        # what is on this machine\n"
    "holdfast sessions prune --all-homes --dry-run   # what would go, and why\n"
    "holdfast undo --all-homes                       # bring the last removal back",
)
@click.version_option(__version__, message="holdfast %(version)s")
def root() -> None:
    """Keep what AI agents made, and limit what they leave behind.

    Without a command, this is `holdfast status`.
    """


def invoke(args: list[str]) -> int:
    """Run a command line; every error becomes a message and an exit code."""
    invocation = Invocation(args=tuple(args))

    def command() -> object:
        try:
            return root.main(args, prog_name="holdfast", standalone_mode=False, obj=invocation)
        except click.Abort:
            raise KeyboardInterrupt from None
        except click.UsageError as error:
            usage = f"See `{error.ctx.command_path} --help`." if error.ctx else None
            raise UsageError(error.format_message(), hint=usage) from error
        except click.ClickException as error:
            raise UsageError(error.format_message()) from error

    return exit_code(invocation, command)

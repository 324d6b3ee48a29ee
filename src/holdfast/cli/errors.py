"""From any exception to a message, a hint and an exit code."""

from __future__ import annotations

import json
from typing import Any

import click

from holdfast.cli.streams import colour_wanted, write, write_error
from holdfast.errors import HoldfastError, StorageError, UsageError
from holdfast.model.text import printable


def as_holdfast_error(error: Exception) -> HoldfastError:
    """What the user is told. A bug is told as one, with the way to see more."""
    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, click.UsageError):
        usage = f"See `{error.ctx.command_path} --help`." if error.ctx else None
        return UsageError(error.format_message(), hint=usage)
    if isinstance(error, click.ClickException):
        return UsageError(error.format_message())
    if isinstance(error, OSError):
        place = f" {error.filename}" if error.filename else ""
        return StorageError(f"The system refused{place}: {error.strerror or error}")
    if isinstance(error, MemoryError):
        return HoldfastError("Out of memory.")
    return HoldfastError(
        f"Internal error: {type(error).__name__}: {error}",
        hint="This is a bug in Holdfast. Run the command again with --debug and report it.",
    )


def error_document(error: HoldfastError) -> dict[str, Any]:
    return {"error": {"kind": error.kind, "message": error.message, "hint": error.hint}}


def print_error(error: HoldfastError, *, as_json: bool) -> None:
    """The message goes to stderr; with --json a document goes to stdout as well."""
    if as_json:
        write(json.dumps(error_document(error), indent=2) + "\n")
    try:
        label = click.style("error:", fg="red", bold=True)
        click.echo(f"{label} {printable(error.message)}", err=True, color=colour_wanted())
        if error.hint:
            click.echo(f"  {printable(error.hint)}", err=True)
    except OSError:
        write_error("")  # nobody listens; the exit code says it as well

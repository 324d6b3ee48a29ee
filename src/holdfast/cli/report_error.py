"""Converts any exception to a message, a hint and an exit code. Nothing here needs click."""

from __future__ import annotations

import json
import sys

from holdfast.cli.streams import OutputError, colour_wanted, write, write_error
from holdfast.errors import COMMAND_FLAG, HoldfastError, StorageError, whose_bug
from holdfast.model.text import printable

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.cli.invocation import Invocation

_RED, _USUAL = "\x1b[31m\x1b[1m", "\x1b[0m"


def exit_code(invocation: Invocation, command: Callable[[], object]) -> int:
    """Run a command; every error becomes a message and an exit code."""
    # From here on, hints name commands; click may determine later which home they need.
    voice = COMMAND_FLAG.set(invocation.home_flag)
    try:
        result = command()
    except OutputError:
        raise
    except Exception as error:  # noqa: BLE001 - the edge: a user never sees a stack trace
        if invocation.debug or "--debug" in invocation.args:
            import traceback

            sys.stderr.write(printable(traceback.format_exc()))
        failure = as_holdfast_error(error)
        COMMAND_FLAG.set(_flag_of(invocation, failure))
        print_error(failure, as_json=invocation.json or "--json" in invocation.args)
        return failure.exit_code
    finally:
        invocation.close()
        COMMAND_FLAG.reset(voice)
    return result if isinstance(result, int) else 0


def _flag_of(invocation: Invocation, failure: HoldfastError) -> str:
    """The flag for the home that commands in a hint have to name."""
    if failure.hint is None:
        return ""
    try:
        return invocation.one_home_flag
    except (HoldfastError, OSError):  # report the failure, not this
        return invocation.home_flag


def as_holdfast_error(error: Exception) -> HoldfastError:
    """The error to show to the user. A bug is reported as a bug, with the way to see details."""
    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, OSError):
        where = f"Cannot access {error.filename}" if error.filename else "The system failed"
        return StorageError(f"{where}: {error.strerror or error}")
    if isinstance(error, MemoryError):
        return HoldfastError("Out of memory.")
    package = whose_bug(error)
    if package is not None:
        return HoldfastError(
            f"Error in {package}: {type(error).__name__}: {error}",
            hint="This is a bug in that package, not in Holdfast. --debug shows where.",
        )
    return HoldfastError(
        f"Internal error: {type(error).__name__}: {error}",
        hint="This is a bug in Holdfast. Run the command again with --debug and report it.",
    )


def error_document(error: HoldfastError) -> dict[str, Any]:
    return {"error": {"kind": error.kind, "message": error.message, "hint": error.hint}}


def print_error(error: HoldfastError, *, as_json: bool) -> None:
    """Print an error: the message to stderr; with --json a document to stdout as well."""
    if as_json:
        write(json.dumps(error_document(error), indent=2) + "\n")
    shows_colours = colour_wanted() is None and sys.stderr.isatty()
    label = f"{_RED}error:{_USUAL}" if shows_colours else "error:"
    hint = f"  {printable(error.hint)}\n" if error.hint else ""
    write_error(f"{label} {printable(error.message)}\n{hint}")

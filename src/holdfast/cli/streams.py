"""The standard streams: output that cannot be written, and whether colours are wanted."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator


class _State:
    """The state of a command, for deciding how it ends on Ctrl-C or when its reader exits."""

    #: The command continues when its reader exits; further output is discarded.
    outlives_reader = False
    #: This command cannot change anything, so Ctrl-C leaves everything as it was.
    only_reads = True
    #: An interrupt may leave something half done, which the log has recorded.
    change_begun = False
    #: Work that changes nothing is running.
    looking = False
    #: Ctrl-C requested an end after the current batch; a command over several homes does not start
    #: another one.
    stop_asked = False
    #: There is an unanswered question between this command and its change.
    will_ask = False
    #: The question is on the screen right now.
    asking = False
    quiet = False
    #: Empty lines that --quiet shows only if something follows.
    blank = 0
    #: Output that --quiet holds back, to be shown if something fails.
    held: list[str] | None = None


state = _State()


class OutputError(Exception):
    """Standard output cannot be written: full, closed, or its reader has exited.

    Not an OSError, so that no caller mistakes it for a failure of the work itself.
    """

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextlib.contextmanager
def output_errors() -> Iterator[None]:
    """An OSError in this context is an error of standard output."""
    try:
        yield
    except OSError as error:
        _failed(error)
    except OutputError as error:
        _failed(error.cause)


def _failed(error: OSError) -> None:
    if not (state.outlives_reader and isinstance(error, BrokenPipeError)):
        raise OutputError(error) from error
    discard_output()


@contextlib.contextmanager
def looking() -> Iterator[None]:
    """While a command only reads, an interrupt leaves nothing changed."""
    state.looking = True
    yield
    state.looking = False


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """While a question is on the screen, an interrupt means no."""
    state.asking = True
    yield
    state.asking = False


def agreed() -> None:
    """The user has seen the facts and said yes: from now on, the command continues if its reader
    exits."""
    state.will_ask, state.outlives_reader = False, True


def interrupted_words(home_flag: str = "") -> str:
    """The message after Ctrl-C: what was done, and how to continue."""
    if state.change_begun:
        return (
            "Interrupted while changing this home. Nothing is lost: the next command that changes "
            "it finishes what it began, or rolls it back.\n"
            f"  `holdfast {home_flag}log` shows what was done. "
            "To continue, run the same command again.\n"
        )
    harmless = state.only_reads or state.asking or state.looking
    return "Interrupted. Nothing was changed.\n" if harmless else "Interrupted.\n"


def be_quiet(*, silent: bool) -> None:
    """From now on, show no notes, hints or progress; if `silent`, no report of success either."""
    state.quiet = True
    state.held = [] if silent else None


def tell_held(code: object) -> None:
    """At the end of a silent command: if it failed, write the held-back output to standard
    error."""
    held, state.held = state.held, None
    if held and isinstance(code, int) and code:
        write_error("".join(held))


def write(text: str) -> None:
    """Write text to standard output unchanged."""
    with output_errors():
        sys.stdout.write(text)


def write_path(path: str | os.PathLike[str]) -> None:
    """Write a path and a newline: byte for byte to another program, escaped on a terminal."""
    if sys.stdout.isatty():
        from holdfast.model.text import one_line

        write(one_line(os.fspath(path)) + "\n")
        return
    with output_errors():
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(path) + b"\n")


def write_error(text: str) -> None:
    """Write text to standard error. If it cannot be written, the work continues without it."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr.fileno())


def prepare() -> None:
    """Replace closed streams with /dev/null, so that a file of ours does not get their descriptors.

    A character that the terminal's encoding lacks is shown as an escape instead of raising an
    error.
    """
    vars(state).clear()  # from an earlier command in the same process
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Discard all further output to standard output, even at exit."""
    _discard(sys.stdout.fileno())


def _discard(stream: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream)
    os.close(nowhere)


def colour_wanted() -> bool | None:
    """False if the user wants none (no-color.org); None leaves it to the terminal."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    return False if plain else None

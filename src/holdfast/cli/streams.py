"""The standard streams: output that cannot be written, and whether colours are welcome."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator


class _State:
    """What a command has said of itself, for whoever ends it: Ctrl-C, a reader that left."""

    #: A reader that goes away ends nothing; what it would have read is thrown away.
    outlives_reader = False
    #: This command can change nothing, so Ctrl-C leaves everything as it was.
    only_reads = True
    #: An interrupt may leave something half done, which the log knows.
    change_begun = False
    #: Work that changes nothing is under way.
    looking = False
    #: Ctrl-C asked work to end after its batch; a command over several homes begins no other.
    stop_asked = False
    #: A question that nobody answered stands between this command and its change.
    will_ask = False
    #: It is on the screen right now.
    asking = False
    quiet = False
    #: Empty lines that --quiet shows only if something follows.
    blank = 0
    #: What --quiet holds back, to be told if something fails.
    held: list[str] | None = None


state = _State()


class OutputError(Exception):
    """Standard output does not take what we write: full, closed, or its reader has gone.

    Not an OSError, so that no caller mistakes it for a failure of the work itself.
    """

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextlib.contextmanager
def output_errors() -> Iterator[None]:
    """What fails in here fails on standard output."""
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
    """While a command only looks; an interrupt then leaves nothing changed."""
    state.looking = True
    yield
    state.looking = False


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """While a question is on the screen; an interrupt then is a no."""
    state.asking = True
    yield
    state.asking = False


def agreed() -> None:
    """The user has seen what it is about and said yes: from now on the reader may go."""
    state.will_ask, state.outlives_reader = False, True


def interrupted_words(home_flag: str = "") -> str:
    """What to say after Ctrl-C: what was done, and how to go on."""
    if state.change_begun:
        return (
            "Interrupted while changing this home. Nothing is lost: the next command that changes "
            "it finishes what it began, or rolls it back.\n"
            f"  `holdfast {home_flag}log` shows what was done. "
            "To go on, run the same command again.\n"
        )
    harmless = state.only_reads or state.asking or state.looking
    return "Interrupted. Nothing was changed.\n" if harmless else "Interrupted.\n"


def be_quiet(*, silent: bool) -> None:
    """From now on no notes, hints and progress; if `silent`, no report of success either."""
    state.quiet = True
    state.held = [] if silent else None


def tell_held(code: object) -> None:
    """The end of a silent command. One that failed says on standard error what it would have
    said."""
    held, state.held = state.held, None
    if held and isinstance(code, int) and code:
        write_error("".join(held))


def write(text: str) -> None:
    """Write text to standard output as it is."""
    with output_errors():
        sys.stdout.write(text)


def write_path(path: str | os.PathLike[str]) -> None:
    """Write a path and a newline: byte for byte for another program, safe to see on a terminal."""
    if sys.stdout.isatty():
        from holdfast.model.text import one_line

        write(one_line(os.fspath(path)) + "\n")
        return
    with output_errors():
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(path) + b"\n")


def write_error(text: str) -> None:
    """Write text to standard error. If it cannot be written, the work goes on without it."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr.fileno())


def prepare() -> None:
    """A stream that was closed goes nowhere, and its number is not given to a file of ours.

    A character that the terminal's encoding lacks is shown as an escape, and ends nothing.
    """
    vars(state).clear()  # of an earlier command in the same process
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Let nothing more be written to standard output, not even at exit."""
    _discard(sys.stdout.fileno())


def _discard(stream: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream)
    os.close(nowhere)


def colour_wanted() -> bool | None:
    """False when the user wants none (no-color.org); None leaves it to the terminal."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    return False if plain else None

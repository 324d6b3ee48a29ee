"""The standard streams: output that cannot be written, and whether colours are welcome."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator


class _State:
    outlives_reader = False
    #: What Ctrl-C leaves: nothing for a command that reads, unknown before a change begins.
    only_reads = True
    change_begun = False
    #: Work that changes nothing is under way.
    looking = False
    #: Ctrl-C asked work that stops between two batches to do so.
    stop_asked = False
    #: A question stands between this command and its change, or is on the screen right now.
    will_ask = asking = False
    quiet = False
    #: What --quiet holds back, to be told if something fails.
    held: list[str] | None = None


_state = _State()


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
    if not (_state.outlives_reader and isinstance(error, BrokenPipeError)):
        raise OutputError(error) from error
    discard_output()


def outlive_reader() -> None:
    """From now on a reader that goes away ends nothing; what it would have read is thrown away."""
    _state.outlives_reader = True


def may_change() -> None:
    """This command can change something, even where it shows no progress."""
    _state.only_reads = False


def change_begins() -> None:
    """From now on an interrupt may leave something half done, which the log knows."""
    _state.change_begun = True


@contextlib.contextmanager
def looking() -> Iterator[None]:
    """While a command only looks; an interrupt then leaves nothing changed."""
    _state.looking = True
    yield
    _state.looking = False


def will_ask() -> None:
    """This command changes something after a question only."""
    _state.will_ask = True


def is_unanswered() -> bool:
    """Whether the question of this command was not answered, so that it did nothing."""
    return _state.will_ask


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """While a question is on the screen; an interrupt then is a no."""
    _state.asking = True
    yield
    _state.asking = False


def agreed() -> None:
    """The user has seen what it is about and said yes: from now on the reader may go."""
    _state.will_ask = False
    outlive_reader()


def ask_to_stop() -> None:
    """The work at hand ends after its batch, and a command over several homes begins no other."""
    _state.stop_asked = True


def stop_was_asked() -> bool:
    return _state.stop_asked


def interrupted_words(home_flag: str = "") -> str:
    """What to say after Ctrl-C: what was done, and how to go on."""
    if _state.change_begun:
        return (
            "Interrupted while changing this home. Nothing is lost: the next command that changes "
            "it finishes what it began, or rolls it back.\n"
            f"  `holdfast {home_flag}log` shows what was done. "
            "To go on, run the same command again.\n"
        )
    harmless = _state.only_reads or _state.asking or _state.looking
    return "Interrupted. Nothing was changed.\n" if harmless else "Interrupted.\n"


def be_quiet(*, silent: bool) -> None:
    """From now on no notes, hints and progress; if `silent`, no report of success either."""
    _state.quiet = True
    _state.held = [] if silent else None


def is_quiet() -> bool:
    return _state.quiet


def is_silent() -> bool:
    return _state.held is not None


def hold(text: str) -> None:
    """Keep what a silent command would print."""
    if _state.held is not None:
        _state.held.append(text)


def tell_held(code: object) -> None:
    """The end of a silent command. One that failed says on standard error what it would have
    said."""
    held, _state.held = _state.held, None
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
    _state.outlives_reader = _state.quiet = False
    _state.only_reads, _state.change_begun = True, False
    _state.stop_asked = False
    _state.will_ask = _state.asking = False
    _state.held = None
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

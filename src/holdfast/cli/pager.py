"""Long text on a terminal goes through the user's pager, in colours if the pager shows them."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

from holdfast.cli.output import console, showing_on
from holdfast.cli.streams import OutputError, colour_wanted

#: Like git: exit if one screen is enough, show colours, leave the text on the screen at the end.
_LESS = "FRX"
#: Pagers that show colours, or pass them on to a terminal that does.
_COLOURFUL = ("bat", "cat", "delta", "lv", "moar", "moor")
#: A word without special meaning in any shell.
_PLAIN = re.compile(r"[\w./+-]+")


@contextlib.contextmanager
def paged(*, wanted: bool) -> Iterator[None]:
    """Show everything said in this context through the pager, if that is `wanted` and there is a
    terminal. If the user leaves the pager early, the rest is not shown, and nothing has failed."""
    command = _pager() if wanted and sys.stdout.isatty() else None
    if command is None:
        yield
        return
    from holdfast.cli.console import written_to

    shown = console()
    environment = {"LESS": _LESS, **os.environ}
    # The variable contains a command line: words, quotes, sometimes a pipe.
    process = subprocess.Popen(  # noqa: S602 - the user's own command, as git and man run it
        command, shell=True, stdin=subprocess.PIPE, env=environment, text=True, errors="replace"
    )
    assert process.stdin is not None  # noqa: S101 - for the type checker
    colours = shows_colours(command, environment["LESS"])
    try:
        with showing_on(written_to(process.stdin, width=shown.width, colours=colours)):
            yield
    except OutputError as error:
        if not isinstance(error.cause, BrokenPipeError):
            raise
    finally:
        _wait_for(process)


def _wait_for(process: subprocess.Popen[str]) -> None:
    """Wait until the user leaves the pager. Ctrl-C is for the pager, which may continue."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with contextlib.suppress(BrokenPipeError):
            process.communicate()
    finally:
        signal.signal(signal.SIGINT, before)


def _pager() -> str | None:
    """The command line of the pager; None without a pager, or if it would do nothing."""
    if os.environ.get("TERM") in ("dumb", "unknown"):
        return None
    wanted = os.environ.get("PAGER")
    if wanted is None:
        wanted = next((each for each in ("less", "more") if shutil.which(each)), "")
    return None if wanted.strip() in ("", "cat") or is_missing(wanted) else wanted


def is_missing(command: str) -> bool:
    """True if a pager is certainly not installed, in which case its input would be lost."""
    try:
        words = [each for each in shlex.split(command) if "=" not in each]  # A=b less
    except ValueError:
        return False
    if not words or not _PLAIN.fullmatch(words[0]) or shutil.which(words[0]) is not None:
        return False
    # It may be a builtin of the shell, such as `exec`.
    with contextlib.suppress(OSError):
        asked = ["/bin/sh", "-c", f"command -v {words[0]}"]
        return subprocess.run(asked, check=False, stdout=subprocess.DEVNULL).returncode != 0
    return False


def shows_colours(command: str, less: str) -> bool:
    """True if a pager renders colours instead of showing the escape codes. `less` is the value of
    $LESS."""
    if colour_wanted() is False:
        return False
    try:
        program, *words = shlex.split(command)
    except ValueError:
        return False
    if os.path.basename(program) != "less":  # noqa: PTH119 - a word, not a path
        return os.path.basename(program) in _COLOURFUL  # noqa: PTH119 - as above
    return any(map(_is_raw, (*less.split(), *words)))


def _is_raw(flags: str) -> bool:
    if flags.startswith("--"):
        return flags.lower() == "--raw-control-chars"
    return "r" in flags.lower()

"""Long text on a terminal goes through the pager of the user, in colours if that one shows them."""

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

#: Like git: stay on the screen if one is enough, show colours, leave the text there at the end.
_LESS = "FRX"
#: They show colours, or pass them on to a terminal that does.
_COLOURFUL = ("bat", "cat", "delta", "lv", "moar", "moor")
#: A word that means the same to every shell.
_PLAIN = re.compile(r"[\w./+-]+")


@contextlib.contextmanager
def paged(*, wanted: bool) -> Iterator[None]:
    """Show what is said in here through the pager, if that is `wanted` and there is a terminal. A
    user who leaves the pager early has seen enough: the rest is not shown, and nothing failed."""
    command = _pager() if wanted and sys.stdout.isatty() else None
    if command is None:
        yield
        return
    from holdfast.cli.console import written_to

    shown = console()
    environment = {"LESS": _LESS, **os.environ}
    # The variable holds a command line: words, quotes, sometimes a pipe.
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
    """Until the user leaves the pager. Ctrl-C is for the pager, which may go on."""
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
    """Whether a pager is surely not installed: what it was to show would be lost."""
    try:
        words = [each for each in shlex.split(command) if "=" not in each]  # A=b less
    except ValueError:
        return False
    if not words or not _PLAIN.fullmatch(words[0]) or shutil.which(words[0]) is not None:
        return False
    # The shell may know it by itself, as it knows `exec`.
    with contextlib.suppress(OSError):
        asked = ["/bin/sh", "-c", f"command -v {words[0]}"]
        return subprocess.run(asked, check=False, stdout=subprocess.DEVNULL).returncode != 0
    return False


def shows_colours(command: str, less: str) -> bool:
    """Whether a pager shows colours, and not the escapes that stand for them. `less` is what $LESS
    says."""
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

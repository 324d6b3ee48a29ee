"""`holdfast checkpoints take` through the helper of the hooks, if one runs: it has everything
loaded.

Only a plain command line whose output does not go to a terminal is handled here, and only success
is reported here. Everything else is left to the normal implementation, which prints the same text:
a test compares both. This module imports nothing that the interpreter has not loaded anyway.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in `typing`, which would cost too much
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WORDS = ["checkpoints", "take"]
_VALUES = ("--reason", "--session", "--turn", "--path")
_DEFAULT_HOME = "/.holdfast"
_BY_HAND = "by hand"
#: Characters that need neither quotes in a shell nor an escape in a line.
_PLAIN = frozenset("@%+=:,./-_")
#: If one of these is set, the user wants output as on a terminal.
_SCREEN = ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
_ANSWER = 3
_SHORT_ID = 12


def take(args: Sequence[str], begins: Callable[[], None]) -> int | None:
    """Return the exit code, or None if the normal implementation has to do it. `begins` is called
    before anything can change. Raises `OSError` if the output cannot be written."""
    asked = _asked(args) if _may_have_helper() else None
    if asked is None:
        return None
    home, flag, workdir, raw = asked
    from holdfast.hooks import client

    begins()
    answer = client.ask(client.TAKE, "open", home, raw)
    if answer is None:
        return None
    if answer[1].startswith(b"{"):
        from holdfast.cli.take import tell_answer

        return tell_answer(args, answer[1])
    words = answer[1].decode("ascii", "replace").split()
    if len(words) != _ANSWER:
        return None
    outcome, checkpoint, excluded = words[0], words[1][:_SHORT_ID], int(words[2])
    if outcome == "unchanged":
        text = f"Nothing changed in {workdir} since checkpoint {checkpoint}.\n"
    else:
        text = (
            f"Took checkpoint {checkpoint} of {workdir}. Go back to it with:\n"
            f"  holdfast {flag}checkpoints restore {checkpoint}\n"
        )
    _write(1, text)
    if excluded:
        left = "1 file or folder" if excluded == 1 else f"{excluded:,} files and folders"
        _write(2, f"{left} left out by default: `holdfast {flag}checkpoints excluded` lists them\n")
    return 0


def _may_have_helper() -> bool:
    """True if a helper may be listening. `client` checks which one, and whether it can be
    trusted."""
    run = os.environ.get("XDG_RUNTIME_DIR")
    folder = f"{run}/holdfast" if run else f"/tmp/holdfast-{os.getuid()}"  # noqa: S108 - as in `client`
    try:
        return any(name.endswith(".sock") for name in os.listdir(folder))  # noqa: PTH208 - no paths
    except OSError:
        return False


def _asked(args: Sequence[str]) -> tuple[str, str, str, bytes] | None:
    """The home, the flag that names it, the directory, and the request for the helper."""
    given = _read(args)
    if given is None or os.isatty(1) or os.isatty(2):
        return None
    if any(name.startswith("HOLDFAST_") or name in _SCREEN for name in os.environ):
        return None  # a variable of ours may change any setting
    words, values, paths = given
    home = values.get("--home") or os.environ.get("HOME", "") + _DEFAULT_HOME
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib is slow to import
        workdir = os.path.realpath(words[2] if len(words) > len(_WORDS) else here)
    except OSError:
        return None
    start = here if f"{here}/".startswith(f"{workdir}/") else workdir
    if not home.startswith("/") or not _is_plain(home) or not _is_plain(workdir):
        return None
    flag = f"--home {home} " if "--home" in values else ""
    said = [values.get(name, "") for name in ("--session", "--turn")]
    fields = [workdir, values.get("--reason", _BY_HAND), *said]
    fields += [os.path.join(start, path) for path in paths]  # noqa: PTH118 - as above
    try:
        return home, flag, workdir, "\0".join(fields).encode()
    except UnicodeEncodeError:
        return None


def _read(args: Sequence[str]) -> tuple[list[str], dict[str, str], list[str]] | None:
    """The words of a plain line, the last value of each flag, and the paths."""
    words: list[str] = []
    values: dict[str, str] = {}
    paths: list[str] = []
    rest = iter(args)
    for word in rest:
        if not word.startswith("-"):
            words.append(word)
            continue
        name, is_joined, value = word.partition("=")
        if name != "--home" and (name not in _VALUES or len(words) < len(_WORDS)):
            return None
        value = value if is_joined else next(rest, "-")
        if not value or value.startswith(("-", "~")):
            return None
        values[name] = value
        if name == "--path":
            paths.append(value)
    is_ours = words[: len(_WORDS)] == _WORDS and len(words) <= len(_WORDS) + 1
    return (words, values, paths) if is_ours and all(words) else None


def _is_plain(text: str) -> bool:
    return text.isascii() and all(each.isalnum() or each in _PLAIN for each in text)


def _write(stream: int, text: str) -> None:
    data = text.encode("ascii")
    try:
        while data:
            data = data[os.write(stream, data) :]
    except BrokenPipeError:
        return  # the reader exited early

"""`holdfast checkpoints diff`: coloured on a terminal, byte for byte in a pipe."""

from __future__ import annotations

import re
import stat
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import plain
from holdfast.cli.checkpoint_options import first_id, hash_option, second_id
from holdfast.cli.frame import command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import console, note, print_json, say_unfolded, styled, width
from holdfast.cli.pager import paged
from holdfast.cli.progress import progress
from holdfast.cli.streams import output_errors
from holdfast.cli.take import short
from holdfast.model.text import printable

if TYPE_CHECKING:
    from holdfast.api.checkpoints import Difference
    from holdfast.cli.plain import Line
    from holdfast.model.checkpoint import Change

_HEADERS = (
    "diff --git",
    "index ",
    "--- ",
    "+++ ",
    "old mode",
    "new mode",
    "new file",
    "deleted file",
    "similarity ",
    "rename ",
    "Binary files",
)
_BAR = re.compile(r"\| +\d+ (\+*)(-*)$")
_TAB = 8


@command(
    example="holdfast checkpoints diff\n"
    "holdfast checkpoints diff src/main.py\n"
    "holdfast checkpoints diff 3f2a1b9c\n"
    "holdfast checkpoints diff 3f2a1b9c 77e0d2aa src --stat\n"
    "holdfast checkpoints diff 3f2a1b9c src/main.py | git apply --reverse"
)
@click.argument("words", nargs=-1, metavar="[ID] [PATH]...", type=click.Path())
@hash_option
@click.option("--stat", is_flag=True, help="Only how much changed, file by file.")
def diff(
    invocation: Invocation,
    words: tuple[str, ...],
    *,
    hash_all: bool,
    stat: bool,
) -> None:
    """Show what changed since a checkpoint: until now, or until another one.

    Usage: diff [ID] [ID2] [PATH]...  Without an id it compares with the newest checkpoint of the
    current directory, or of the first path. The output has git's format, and `git apply` accepts
    it. A path that looks like the id of a checkpoint is taken for that id; write ./path to mean the
    path.
    """
    checkpoints = invocation.checkpoints()
    old, follows = first_id(checkpoints, words)
    # If the first word was a path, all words are paths.
    is_named = len(follows) < len(words)
    other, rest = second_id(checkpoints, follows) if is_named else (None, follows)
    with progress("comparing"):
        found = checkpoints.diff(old, other, rest, hash_all=hash_all)
    if invocation.json:
        print_json(_document(found))
        return

    if not found.changes:
        note(_unchanged(found))
        return
    lines = found.statistics(width=width()) if stat else found.patch()
    show_diff(lines, found.changes)


def _unchanged(found: Difference) -> str:
    """A message for the user instead of an empty screen; a pipe stays empty."""
    where = f" in {', '.join(found.paths)}" if any(found.paths) else ""
    if found.new is not None:
        both = f"{short(found.old.known_id)} and {short(found.new.known_id)}"
        return f"No changes{where} between checkpoints {both}."
    return f"No changes{where} since checkpoint {short(found.old.known_id)}."


def _document(found: Difference) -> dict[str, Any]:
    return {
        "from": found.old.known_id,
        "to": found.new.known_id if found.new else None,
        "workdir": found.old.workdir,
        "changes": [
            {
                "path": each.path,
                "kind": each.kind.value,
                "old_mode": f"{each.old.mode:06o}" if each.old else None,
                "new_mode": f"{each.new.mode:06o}" if each.new else None,
            }
            for each in found.changes
        ],
    }


def show_diff(lines: Iterable[bytes], changes: Sequence[Change]) -> None:
    """Show git's output, and below it what git cannot express."""
    try:
        _show(lines, changes)
    finally:
        # A reader that exits early cuts this short. Python would close the generator too late for
        # the temporary file behind it, and warn about that.
        if isinstance(lines, Generator):
            lines.close()


def _show(lines: Iterable[bytes], changes: Sequence[Change]) -> None:
    also = [f"{line}\n".encode("utf-8", "surrogateescape") for line in beyond_git(changes)]
    if plain.is_enough() or not console().is_terminal:
        _pass_on(lines)
        _pass_on(also)
        return
    shown = iter(lines)
    # A diff that fits on one screen stays on it; a longer one goes to the pager.
    first = list(islice(shown, console().height))
    with paged(wanted=len(first) == console().height):
        for line in _chain(first, shown, also):
            say_unfolded(line)


def _pass_on(lines: Iterable[bytes]) -> None:
    with output_errors():
        sys.stdout.flush()
        sys.stdout.buffer.writelines(lines)


def _chain(*parts: Iterable[bytes]) -> Iterator[Line]:
    in_header = True
    for part in parts:
        for line in part:
            # Git's own text is ASCII: other bytes come from the files, in whatever encoding.
            text = line.decode("utf-8", "surrogateescape").rstrip("\n").expandtabs(_TAB)
            if text.startswith("diff --git"):
                in_header = True
            elif text.startswith("@@"):
                in_header = False
            yield _coloured(printable(text), in_header=in_header)


def _coloured(text: str, *, in_header: bool) -> Line:
    if in_header and text.startswith(_HEADERS):
        return styled(text, "bold")
    if in_header and (bar := _BAR.search(text)):
        start, end = bar.span(1)
        return styled(text[:start]).append(text[start:end], "green").append(text[end:], "red")
    if text.startswith("@@"):
        return styled(text, "cyan")
    if not in_header and text.startswith("+"):
        return styled(text, "green")
    if not in_header and text.startswith("-"):
        return styled(text, "red")
    return styled(text)


def beyond_git(changes: Iterable[Change]) -> Iterator[str]:
    """Permissions and empty directories, worded like git's summary; `git apply` skips them."""
    for change in changes:
        old, new = change.old, change.new
        path = _quoted(change.path)
        if (old and old.is_directory) and not new:
            yield f" delete directory {path}"
        elif (new and new.is_directory) and not old:
            yield f" create directory {new.mode:06o} {path}"
        elif old and new and _only_permissions(old.mode, new.mode):
            yield f" mode change {old.mode:06o} => {new.mode:06o} {path}"


def _only_permissions(old: int, new: int) -> bool:
    """True if git cannot express the difference: of a mode it only stores whether the owner may
    execute the file."""
    if old == new or stat.S_IFMT(old) != stat.S_IFMT(new):
        return False
    return stat.S_ISDIR(old) or bool(old & stat.S_IXUSR) == bool(new & stat.S_IXUSR)


def _quoted(path: str) -> str:
    """Quote a name like git: plain names unchanged, odd bytes as octal escapes."""
    data = path.encode("utf-8", "surrogateescape")
    if path.isascii() and path.isprintable() and not set(path) & {'"', "\\"}:
        return path
    return '"' + "".join(_octal(byte) for byte in data) + '"'


def _octal(byte: int) -> str:
    character = chr(byte)
    if character in '"\\':
        return f"\\{character}"
    names = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    if character in names:
        return names[character]
    plain = character.isascii() and character.isprintable()
    return character if plain else f"\\{byte:03o}"

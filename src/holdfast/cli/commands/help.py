"""`holdfast help`: the help page of a command, which can also be named by a foreign name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli.completing import command_words
from holdfast.cli.frame import HELP, Command, Group
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import print_json
from holdfast.cli.streams import write
from holdfast.cli.suggestions import COMMANDS, command_error

if TYPE_CHECKING:
    from typing import Any


@click.command(
    HELP,
    cls=Command,
    example="holdfast help\nholdfast help sessions prune\nholdfast help prune",
)
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=command_words)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> int:
    """Show the help page of a command: the same as its --help.

    The name of a command is enough without its group. Where several groups have one of that name,
    the page ends with the others.
    """
    assert ctx.parent is not None  # noqa: S101 - it is a member of a group
    page, *others = _found(ctx.parent, words)
    return show(page, others)


def show(ctx: click.Context, others: Sequence[click.Context] = ()) -> int:
    """Print the page of the command that a context is for."""
    text = ctx.get_help()
    for other in others:
        text += f"\n\nThere is also `{other.command_path}`."
    if ctx.find_root().ensure_object(Invocation).json:
        print_json(_document(ctx, text))
    else:
        write(f"{text}\n")
    return 0


def _document(ctx: click.Context, text: str) -> dict[str, Any]:
    rows = ctx.command.members(ctx) if isinstance(ctx.command, Group) else []
    members = [{"name": name, "help": text} for name, text in rows]
    return {"command": ctx.command_path, "text": text, "commands": members}


def _found(ctx: click.Context, words: Sequence[str]) -> list[click.Context]:
    """The command that the words name, starting here, then others with the same name."""
    page = ctx
    for number, word in enumerate(words):
        if not isinstance(page.command, click.Group):
            return [page]
        if word not in page.command.list_commands(page):
            if number or page.parent is not None:
                raise command_error(word, page.command.list_commands(page), page)
            return _elsewhere(page, word)
        page = _member(page, word)
    return [page]


def _elsewhere(top: click.Context, word: str) -> list[click.Context]:
    """A command by its own name, without its group, or by a foreign name."""
    meant = COMMANDS[""].get(word, "").partition(" --")[0]
    paths = [tuple(meant.split())] if meant else []
    paths += [path for path in _paths(top) if path[-1] == word and path not in paths]
    if not paths:
        raise command_error(word, top.command.list_commands(top), top)  # type: ignore[attr-defined]
    return [_at(top, path) for path in paths]


def _paths(top: click.Context) -> Iterator[tuple[str, str]]:
    """Every command of every group."""
    root = top.command
    assert isinstance(root, click.Group)  # noqa: S101 - the top is one
    for name in root.list_commands(top):
        group = _member(top, name)
        if isinstance(group.command, click.Group):
            yield from ((name, each) for each in group.command.list_commands(group))


def _at(top: click.Context, path: Sequence[str]) -> click.Context:
    for word in path:
        top = _member(top, word)
    return top


def _member(ctx: click.Context, name: str) -> click.Context:
    assert isinstance(ctx.command, click.Group)  # noqa: S101 - its list has this name
    command = ctx.command.get_command(ctx, name)
    assert command is not None  # noqa: S101
    return click.Context(command, info_name=name, parent=ctx)

"""What a mistyped or foreign name is answered with: its name here, or the nearest one.

Never a name that means the opposite, and never one that drops a safeguard unless it is clearly
what was meant: whoever mistypes an age must not be told to pass --yes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

import click

from holdfast.cli import old_names

_NOT = ("no-", "not-", "non-", "without-", "skip-", "exclude-")
_REMOVE = ("delete-", "remove-", "drop-", "prune-")
_KEEP = "keep-"
_UN = "un"
_SAME = 0.8
#: They skip the question, the trash, or a check.
_DARING = frozenset({"--yes", "--now", "--force"})


def option_error(error: click.NoSuchOption, ctx: click.Context) -> click.UsageError:
    """The error for an option that a command does not have."""
    known = [name for param in ctx.command.get_params(ctx) for name in param.opts]
    named = _named(error.option_name, _path(ctx), known)
    if named is not None:
        return click.UsageError(f"No such option '{error.option_name}'. Here it is {named}.", ctx)
    if error.option_name in old_names.OPTIONS[""]:  # a known word, for what this command lacks
        return click.NoSuchOption(error.option_name, ctx=ctx)
    left = [
        each
        for each in _without_opposites(error.option_name, known)
        if each not in _DARING or is_slip(error.option_name, each)
    ]
    return click.NoSuchOption(error.option_name, possibilities=left, ctx=ctx)


def command_error(name: str, known: Collection[str], ctx: click.Context) -> click.UsageError:
    """The error for a command that a group does not have."""
    new = old_names.COMMANDS.get(_path(ctx), {}).get(name)
    if new is not None:
        return click.UsageError(f"No such command '{name}'. Here it is `holdfast {new}`.", ctx)
    return click.NoSuchCommand(name, possibilities=_without_opposites(name, known), ctx=ctx)


def are_opposites(one: str, other: str) -> bool:
    """Whether one of two names says no to what the other says yes to."""
    bare, other_bare = (name.lstrip("-").replace("_", "-") for name in (one, other))
    return _denies(bare, other_bare) or _denies(other_bare, bare)


def is_slip(typed: str, meant: str) -> bool:
    """Whether a name is surely another one mistyped: it begins alike, is no shorter, and differs by
    a letter or so. `--no` is no slip for `--now`."""
    bare, other = typed.lstrip("-"), meant.lstrip("-")
    if bare[:1] != other[:1] or len(bare) < len(other):
        return False
    return SequenceMatcher(None, bare, other).ratio() >= _SAME


def _denies(no: str, yes: str) -> bool:
    if no == _UN + yes:
        return True
    if no.startswith(_KEEP):
        return yes.startswith(_REMOVE) and _ends_alike(yes, no.removeprefix(_KEEP))
    prefix = next((each for each in _NOT if no.startswith(each)), None)
    if prefix is None or yes.startswith(_NOT):
        return False
    return _ends_alike(yes, no.removeprefix(prefix))


def _ends_alike(name: str, stem: str) -> bool:
    """By its end: what stands before it may be a word for yes that nobody knows, or mistyped."""
    return SequenceMatcher(None, name[-len(stem) :], stem).ratio() >= _SAME


def _without_opposites(name: str, known: Iterable[str]) -> list[str]:
    return [each for each in known if not are_opposites(name, each)]


def _named(old: str, path: str, known: Collection[str]) -> str | None:
    """What an option is called here, if this command has it."""
    for table in (old_names.OPTIONS.get(path, {}), old_names.OPTIONS[""]):
        new = table.get(old)
        if new is not None and new.split()[0] in known:
            return new
    return None


def _path(ctx: click.Context) -> str:
    return ctx.command_path.partition(" ")[2]

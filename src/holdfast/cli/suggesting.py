"""What a mistyped or foreign name is answered with: its name here, or the nearest one; never a name
that means the opposite."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

import click

from holdfast.config import old_names

_FOR = ("include-", "with-", "only-", "delete-", "remove-", "drop-", "prune-")
_AGAINST = ("no-", "not-", "non-", "without-", "skip-", "exclude-", "keep-", "un")
_SAME = 0.8


def option_error(error: click.NoSuchOption, ctx: click.Context) -> click.UsageError:
    """The error for an option that a command does not have."""
    known = [name for param in ctx.command.get_params(ctx) for name in param.opts]
    named = _named(error.option_name, _path(ctx), known)
    if named is not None:
        return click.UsageError(f"No such option '{error.option_name}'. Here it is {named}.", ctx)
    left = _without_opposites(error.option_name, known)
    return click.NoSuchOption(error.option_name, possibilities=left, ctx=ctx)


def command_error(name: str, known: Collection[str], ctx: click.Context) -> click.UsageError:
    """The error for a command that a group does not have."""
    new = old_names.COMMANDS.get(_path(ctx), {}).get(name)
    if new is not None:
        return click.UsageError(f"No such command '{name}'. Here it is `holdfast {new}`.", ctx)
    return click.NoSuchCommand(name, possibilities=_without_opposites(name, known), ctx=ctx)


def are_opposites(one: str, other: str) -> bool:
    """Whether two names differ in that one says no to what the other says yes to."""
    (sign, stem), (other_sign, other_stem) = _parted(one), _parted(other)
    return sign != other_sign and SequenceMatcher(None, stem, other_stem).ratio() >= _SAME


def _parted(name: str) -> tuple[bool, str]:
    """Whether a name is for something, and for what."""
    bare = name.lstrip("-").replace("_", "-")
    for prefix in _FOR:
        if bare.startswith(prefix):
            return True, bare.removeprefix(prefix)
    for prefix in _AGAINST:
        if bare.startswith(prefix) and len(bare) > len(prefix) + 1:
            return False, bare.removeprefix(prefix)
    return True, bare


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

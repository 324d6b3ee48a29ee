"""The answer to a mistyped or foreign name of a command or option: its name here, or the nearest.

Never a name that means the opposite, and never one that drops a safeguard unless it is clearly
what was meant: a user who mistypes an age must not be told to pass --yes.

The tables name commands and options that people know from older documents, Hermes, restic, docker
and git. Keys of the configuration declare their own (`was`). docs/old-names.md shows both, and a
test compares them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

import click

#: By the group that the command was looked for in; "" is the top.
COMMANDS: dict[str, dict[str, str]] = {
    "": {
        "session": "sessions",
        "checkpoint": "checkpoints",
        "list": "sessions list",
        "ls": "sessions list",
        "show": "sessions show",
        "search": "sessions search",
        "stats": "sessions stats",
        "df": "status",
        "prune": "sessions prune",
        "forget": "sessions prune",
        "gc": "sessions gc",
        "clean": "sessions gc",
        "cleanup": "maintain",
        "archive": "sessions archive",
        "restore": "sessions restore",
        "export": "sessions export",
        "import": "sessions import",
        "delete": "sessions delete",
        "rm": "sessions delete",
        "rollback": "checkpoints restore",
        "snapshot": "checkpoints take",
        "snapshots": "checkpoints list",
        "backup": "checkpoints take",
        "take": "checkpoints take",
        "diff": "checkpoints diff",
        "verify": "checkpoints verify",
        "fsck": "checkpoints verify",
        "check": "doctor",
        "repair": "doctor --repair",
        "history": "log",
        "revert": "undo",
        "optimize": "maintain",
        "vacuum": "maintain",
    },
    "sessions": {
        "ls": "sessions list",
        "browse": "sessions list",
        "rm": "sessions delete",
        "remove": "sessions delete",
        "clean": "sessions gc",
        "cleanup": "sessions gc",
        "purge": "sessions prune",
        "forget": "sessions prune",
        "optimize": "maintain",
        "unpin": "sessions pin --off",
        "unarchive": "sessions restore",
        "title": "sessions rename",
    },
    "checkpoints": {
        "ls": "checkpoints list",
        "snapshots": "checkpoints list",
        "create": "checkpoints take",
        "save": "checkpoints take",
        "snapshot": "checkpoints take",
        "rollback": "checkpoints restore",
        "revert": "checkpoints restore",
        "gc": "checkpoints prune",
        "cleanup": "checkpoints prune",
        "forget": "checkpoints prune",
        "check": "checkpoints verify",
        "fsck": "checkpoints verify",
        "rename": "checkpoints name",
        "unpin": "checkpoints pin --off",
    },
    "trash": {"clear": "trash empty", "ls": "trash list", "restore": "undo"},
    "config": {"validate": "config check", "print": "config show", "create": "config init"},
}

#: By command; "" is any. A name of this table that is an option of the command is that option.
OPTIONS: dict[str, dict[str, str]] = {
    "sessions prune": {
        "--keep": "--keep-last",
        "--max-size-mb": "--max-total-size 500MB",
        "--max-total-size-mb": "--max-total-size 500MB",
        "--db-only": "--no-files",
        "--sessions-only": "--no-files",
    },
    "sessions gc": {
        "--days": "--trivial-days",
        "--older-than": "--trivial-days",
        "--min-messages": "--trivial-max",
        "--max-messages": "--trivial-max",
    },
    "checkpoints prune": {
        "--days": "--retention-days",
        "--older-than": "--retention-days",
        "--max-total-size-mb": "--max-total-size 500MB",
        "--max-checkpoints": "--max-snapshots",
        "--no-delete-orphans": "--keep-orphans",
    },
    "checkpoints take": {"--message": "--reason", "-m": "--reason"},
    "": {
        "--days": "--older-than 30d",
        "--older-than-days": "--older-than 30d",
        "--retention-days": "--older-than 30d",
        "--before": "--older-than",
        "--force": "--yes",
        "-f": "--yes",
        "--assume-yes": "--yes",
        "--no-confirm": "--yes",
        "--preview": "--dry-run",
        "--simulate": "--dry-run",
        "--what-if": "--dry-run",
        "--hermes-home": "--home",
        "--root": "--home",
        "--permanent": "--now",
        "--verbose": "--debug",
    },
}


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
    if error.option_name in OPTIONS[""]:  # a known word, for what this command lacks
        return click.NoSuchOption(error.option_name, ctx=ctx)
    left = [
        each
        for each in _without_opposites(error.option_name, known)
        if each not in _DARING or is_slip(error.option_name, each)
    ]
    return click.NoSuchOption(error.option_name, possibilities=left, ctx=ctx)


def command_error(name: str, known: Collection[str], ctx: click.Context) -> click.UsageError:
    """The error for a command that a group does not have."""
    new = COMMANDS.get(_path(ctx), {}).get(name)
    if new is not None:
        return click.UsageError(f"No such command '{name}'. Here it is `holdfast {new}`.", ctx)
    return click.NoSuchCommand(name, possibilities=_without_opposites(name, known), ctx=ctx)


def are_opposites(one: str, other: str) -> bool:
    """Whether one of two names says no to what the other says yes to."""
    bare, other_bare = (name.lstrip("-").replace("_", "-") for name in (one, other))
    return _denies(bare, other_bare) or _denies(other_bare, bare)


def is_slip(typed: str, meant: str) -> bool:
    """Whether a name is surely a typo of another one: same beginning, no shorter, and
    about one letter different. `--no` is not a typo of `--now`."""
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
    """By its end: the part before it may be an unknown or mistyped word for yes."""
    return SequenceMatcher(None, name[-len(stem) :], stem).ratio() >= _SAME


def _without_opposites(name: str, known: Iterable[str]) -> list[str]:
    return [each for each in known if not are_opposites(name, each)]


def _named(old: str, path: str, known: Collection[str]) -> str | None:
    """What an option is called here, if this command has it."""
    for table in (OPTIONS.get(path, {}), OPTIONS[""]):
        new = table.get(old)
        if new is not None and new.split()[0] in known:
            return new
    return None


def _path(ctx: click.Context) -> str:
    return ctx.command_path.partition(" ")[2]

"""Suggestions for a mistyped or foreign name of a command or option: its name here, or the nearest.

Never a name that means the opposite, and never one that drops a safeguard unless it is clearly what
was meant: a user who mistypes an age must not be told to pass --yes.

The tables contain commands and options that people know from older documents, Hermes, restic,
docker and git. Keys of the configuration declare their own (`was`). docs/old-names.md shows both,
and a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches

import click


def _by_name(tables: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Invert tables of foreign names: from each foreign name to its name here."""
    return {
        where: {name: here for here, names in table.items() for name in names.split()}
        for where, table in tables.items()
    }


#: By the group in which the command was looked up; "" is the top.
COMMANDS = _by_name(
    {
        "": {
            "sessions": "session",
            "checkpoints": "checkpoint",
            "sessions list": "list ls ps",
            "sessions show": "show cat inspect",
            "sessions search": "search find grep",
            "sessions stats": "stats usage",
            "status": "df du system",
            "sessions prune": "prune forget purge",
            "sessions gc": "gc clean",
            "maintain": "cleanup optimize vacuum",
            "sessions archive": "archive",
            "sessions restore": "restore",
            "sessions export": "export dump",
            "sessions import": "import",
            "sessions delete": "delete remove rm",
            "sessions rename": "rename",
            "sessions pin": "pin",
            "sessions unpin": "unpin",
            "sessions end": "end",
            "checkpoints restore": "rollback",
            "checkpoints take": "snapshot backup take",
            "checkpoints list": "snapshots",
            "checkpoints diff": "diff",
            "checkpoints verify": "verify fsck",
            "checkpoints watch": "watch",
            "doctor": "check",
            "doctor --repair": "repair rebuild-index",
            "log": "history reflog",
            "undo": "revert rewind",
            "config init": "init",
            "config set": "set",
            "config get": "get",
            "config show": "settings",
        },
        "sessions": {
            "sessions list": "ls browse",
            "sessions show": "view cat inspect",
            "sessions search": "find grep",
            "sessions stats": "usage",
            "sessions delete": "rm remove",
            "sessions gc": "clean cleanup",
            "sessions prune": "purge forget",
            "maintain": "optimize",
            "sessions restore": "unarchive",
            "sessions rename": "title name",
            "sessions end": "stop close",
            "sessions export": "dump",
            "sessions import": "load",
        },
        "checkpoints": {
            "checkpoints list": "ls snapshots history",
            "checkpoints take": "create save snapshot backup",
            "checkpoints restore": "rollback revert rewind checkout",
            "checkpoints delete": "rm remove drop",
            "checkpoints prune": "gc cleanup clean purge forget",
            "checkpoints verify": "check fsck",
            "checkpoints status": "stats df",
            "checkpoints diff": "compare",
            "checkpoints excluded": "ignored",
            "checkpoints rename": "name tag label",
        },
        "trash": {"trash empty": "clear prune purge", "trash list": "ls show", "undo": "restore"},
        "config": {
            "config check": "validate",
            "config show": "print list view",
            "config init": "create",
            "config edit": "open",
        },
    }
)

# For a list, a number of days means the last days; for a removal, anything older.
_OF_A_LIST = {"--limit": "-n --last", "--newer-than 30d": "--days --max-age"}
#: By command; "" is any. A name in this table that is an option of the command means that option. A
#: value without a leading dash is another command.
OPTIONS = _by_name(
    {
        "sessions list": _OF_A_LIST,
        "sessions search": _OF_A_LIST,
        "sessions show": {"--last": "-n --limit --tail", "--whole": "--full"},
        "sessions pin": {"sessions unpin": "--off --remove"},
        "sessions prune": {
            "--keep-last": "--keep",
            "--keep-within 14d": "--keep-days",
            "--max-total-size": "--max-size",
            "--max-total-size 500MB": "--max-size-mb --max-total-size-mb",
            "--no-files": "--db-only --sessions-only",
            "--include-files": "--delete-files --with-files",
            "--kind": "--type",
        },
        "sessions gc": {"--trivial-max": "--min-messages --max-messages"},
        "sessions export": {"--output": "--file --out"},
        "checkpoints list": {"--limit": "-n --last"},
        "checkpoints pin": {"checkpoints unpin": "--off --remove"},
        "checkpoints prune": {
            "--keep-last": "--keep",
            "--keep-within 14d": "--keep-days",
            "--max-total-size": "--max-size",
            "--max-total-size 500MB": "--max-total-size-mb",
            "--max-snapshots": "--max-checkpoints --max-count",
            "--keep-orphans": "--no-delete-orphans",
        },
        "checkpoints take": {"--reason": "--message -m"},
        "log": {"--limit": "-n --last"},
        "run": {
            "--budget": "--max-tokens --max-cost --tokens --cost --limit",
            "--max-time": "--timeout --time",
            "--path": "--cwd --dir --workdir",
        },
        "doctor": {"--repair": "--fix"},
        "": {
            "--older-than 30d": "--days --max-age --older-than-days --retention-days",
            "--older-than": "--before --until",
            "--newer-than": "--since --after",
            "--sort": "--order-by --sort-by",
            "--source": "--platform",
            "--not-source": "--exclude-source",
            "--cwd": "--dir --workdir",
            "--limit": "--count --top",
            "--yes": "--force -f --assume-yes --no-confirm --no-prompt",
            "--dry-run": "--preview --pretend --simulate --what-if",
            "--home": "--hermes-home --root --repo",
            "--now": "--permanent --no-trash",
            "--json": "--format",
            "--quiet": "--silent",
            "--debug": "--verbose",
        },
    }
)

#: Foreign words for values of options, by command.
VALUES = _by_name(
    {
        "sessions list": {
            "active": "last-active updated newest date",
            "started": "created",
            "messages": "msgs",
            "size": "bytes largest",
            "title": "name",
        },
        "checkpoints list": {"age": "time date newest", "why": "reason name"},
        "log": {"when": "time date", "id": "operation newest"},
        "trash list": {"size": "bytes largest", "operation": "id", "kept-until": "expires"},
    }
)

#: Options for what these commands do anyway.
_WITH_FILES = dict.fromkeys(
    ("--include-files", "--delete-files", "--with-files"), "Files go with their sessions anyway"
)
_ALL_HOMES = {"--all-homes": "Without --home it covers all homes"}
NEEDLESS = {
    **dict.fromkeys(
        ("sessions list", "sessions search", "sessions stats", "log", "trash list"), _ALL_HOMES
    ),
    **dict.fromkeys(("sessions gc", "sessions delete", "sessions archive"), _WITH_FILES),
    "sessions prune": {"--prune": "It prunes anyway"},
    "checkpoints prune": {"--prune": "It prunes anyway"},
}
#: Commands and options that have no single equivalent; by group or command, "" is the top.
_FILTERS = "Each filter is an option of its own, such as --source cli or --older-than 7d."
ANSWERS: dict[str, dict[str, str]] = {
    "": {"version": "Here it is `holdfast --version`.", "-V": "Here it is --version."},
    "config": {
        "unset": "Remove its line with `holdfast config edit`; the default then applies.",
    },
    "sessions list": {
        "--all": "--limit N shows that many, and --json all of them.",
        "--filter": _FILTERS,
    },
    "sessions search": {"--filter": _FILTERS},
    "sessions export": {"--filter": _FILTERS},
    "sessions stats": {
        "--since": "Usage is listed by day; --json has every day.",
    },
    "log": {"--since": "--limit N shows the latest N, and --json the time of each."},
    "sessions prune": {
        "--filter": _FILTERS,
        "--limit": "There is no limit on how many are removed: --keep-last N is the fewest that "
        "stay, --max-count N the most.",
    },
    "checkpoints prune": {
        "--since": "No option removes only the newer ones: `holdfast checkpoints delete ID` "
        "removes those that you name.",
    },
}


#: Commands that exist for both sessions and checkpoints.
_IN_BOTH = frozenset(
    {"list", "show", "prune", "delete", "restore", "import", "rename", "pin", "unpin"}
)
_NOT = ("no-", "not-", "non-", "without-", "skip-", "exclude-")
_REMOVE = ("delete-", "remove-", "drop-", "prune-")
_KEEP = "keep-"
_UN = "un"
_SAME = 0.8
#: Options that skip the question, the trash, or a check.
_DARING = frozenset({"--yes", "--now", "--force"})


def option_error(error: click.NoSuchOption, ctx: click.Context) -> click.UsageError:
    """The error for an option that a command does not have."""
    if error.option_name[1:].isdecimal():  # click parses -17 as the options -1 and -7
        words = getattr(ctx.find_root().obj, "args", ())
        number = next((each for each in words if each.startswith(error.option_name)), "")
        given = number or error.option_name
        return click.UsageError(f"'{given}' looks like an option; if not, write -- before it.", ctx)
    known = [name for param in ctx.command.get_params(ctx) for name in param.opts]
    named = _named(error.option_name, _path(ctx), known)
    if named is not None:
        named = _with_own_number(named, error.option_name, ctx)
        return click.UsageError(f"No such option '{error.option_name}'. Use {named}.", ctx)
    if why := NEEDLESS.get(_path(ctx), {}).get(error.option_name):
        return click.UsageError(f"No such option '{error.option_name}'. {why}: leave it out.", ctx)
    if answer := ANSWERS.get(_path(ctx), {}).get(error.option_name):
        return click.UsageError(f"No such option '{error.option_name}'. {answer}", ctx)
    if any(error.option_name in table for table in OPTIONS.values()):
        # A known word for something that this command lacks: similarly spelled options mean
        # something else.
        return click.NoSuchOption(error.option_name, ctx=ctx)
    left = [
        each
        for each in _without_opposites(error.option_name, known)
        if each not in _DARING or is_slip(error.option_name, each)
    ]
    surely = [each for each in left if is_slip(error.option_name, each)]
    near = surely if len(surely) == 1 else left
    return click.NoSuchOption(error.option_name, possibilities=near, ctx=ctx)


def _with_own_number(named: str, option: str, ctx: click.Context) -> str:
    """Answer `--days 7` with `--older-than 7d`, and not with another number."""
    words = list(getattr(ctx.find_root().obj, "args", ()))
    given = next((word.partition("=")[2] for word in words if word.startswith(f"{option}=")), "")
    if option in words[:-1]:
        given = words[words.index(option) + 1]
    return re.sub(r"(?<= )\d+(?=[a-zA-Z]+$)", given, named) if given.isdecimal() else named


def value_named(value: str, ctx: click.Context | None) -> str | None:
    """The name here for a value that an option takes."""
    return None if ctx is None else VALUES.get(_path(ctx), {}).get(value)


def command_error(name: str, known: Collection[str], ctx: click.Context) -> click.UsageError:
    """The error for a command that a group does not have."""
    new = COMMANDS.get(_path(ctx), {}).get(name)
    if new is not None:
        # Inside a group it is clear which of the two is meant.
        other = () if _path(ctx) else _also(new)
        also = "".join(f" There is also `holdfast {each}`." for each in other)
        text = f"No such command '{name}'. Use `holdfast {new}`.{also}"
        return click.UsageError(text, ctx)
    if answer := ANSWERS.get(_path(ctx), {}).get(name):
        return click.UsageError(f"No such command '{name}'. {answer}", ctx)
    left = _without_opposites(name, known)
    if meant := _mistyped(name, left, ctx):
        text = f"No such command '{name}'. Did you mean `holdfast {meant}`?"
        return click.UsageError(text, ctx)
    return click.NoSuchCommand(name, possibilities=left, ctx=ctx)


def _mistyped(name: str, known: Collection[str], ctx: click.Context) -> str | None:
    """The equivalent of a foreign name, if the typed name is closer to that foreign name than to
    any command: `prun` is `prune`, and not `run`. Two swapped letters do not make it another
    word."""
    if any(sorted(name) == sorted(each) for each in known):
        return None
    table = COMMANDS.get(_path(ctx), {})
    words = [*known, *_without_opposites(name, table)]
    nearest = get_close_matches(name, words, n=1, cutoff=_SAME)
    return table.get(nearest[0]) if nearest else None


def _also(new: str) -> Iterable[str]:
    """Commands of the same name in the other group: `prune` may mean checkpoints."""
    group, _, member = new.partition(" ")
    if group == "sessions" and member in _IN_BOTH:
        yield f"checkpoints {member}"


def are_opposites(one: str, other: str) -> bool:
    """True if one of two names negates the other."""
    bare, other_bare = (name.lstrip("-").replace("_", "-") for name in (one, other))
    return _denies(bare, other_bare) or _denies(other_bare, bare)


def is_slip(typed: str, meant: str) -> bool:
    """True if a name is certainly a typo of another one: same beginning, not shorter, and about one
    letter different. `--no` is not a typo of `--now`."""
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
    """Compare the ends only: the part before may be an unknown or mistyped affirmative."""
    return SequenceMatcher(None, name[-len(stem) :], stem).ratio() >= _SAME


def _without_opposites(name: str, known: Iterable[str]) -> list[str]:
    return [each for each in known if not are_opposites(name, each)]


def _named(old: str, path: str, known: Collection[str]) -> str | None:
    """The name of an option here, if this command has it."""
    for table in (OPTIONS.get(path, {}), OPTIONS[""]):
        new = table.get(old)
        if new is not None and not new.startswith("-"):
            return f"`holdfast {new}`"
        if new is not None and new.split()[0] in known:
            return new
    return None


def _path(ctx: click.Context) -> str:
    return ctx.command_path.partition(" ")[2]

"""Everything Holdfast raises on purpose: one tree, each class with an exit code and a hint.

The command line turns these into a message and an exit code. A library user catches
`HoldfastError`, or the narrower class.

A hint is written once, in terms of the command line: "`holdfast log` lists them." A command shows
it as written. A library user sees the same hint with methods: "`home.log.read()` lists them."
The advice of a check-up and the reasons in a report are converted the same way.
"""

from __future__ import annotations

import re
import struct
from contextvars import ContextVar

#: Set while a command runs: hints then name commands, not methods. The string is the flag that a
#: suggested command line needs to work on the same home, or "".
COMMAND_FLAG: ContextVar[str | None] = ContextVar("holdfast_command_flag", default=None)

#: The method for each command. `{}` is replaced with the id or the agent that the hint names.
_METHODS = {
    "checkpoints clear-legacy": "home.checkpoints.clear_legacy()",
    "checkpoints import PATH": "home.import_checkpoints(path)",
    "checkpoints import": "home.import_checkpoints()",
    "checkpoints list": "home.checkpoints.list()",
    "checkpoints prune --dry-run": "home.checkpoints.plan_prune()",
    "checkpoints prune": "home.checkpoints.prune()",
    "checkpoints remote add NAME URL": "home.checkpoints.add_remote(name, url)",
    "checkpoints remote remove": "home.checkpoints.remove_remote({})",
    "checkpoints show": "home.checkpoints.show({})",
    "checkpoints status": "home.checkpoints.status()",
    "checkpoints take": "home.checkpoints.take(path)",
    "checkpoints verify": "home.checkpoints.verify()",
    "config check": "holdfast.open(path)",
    "config edit": "home.config_file",
    "config init": "holdfast.open(path, create=True)",
    "config path": "home.config_file",
    "config show": "home.settings",
    "connect": "machine.plan_connect({})",
    "demo": "holdfast.open(path, create=True)",
    "disconnect": "machine.plan_disconnect({})",
    "doctor --repair": "home.repair()",
    "doctor": "home.doctor()",
    "fleet status": "holdfast.api.store.fleet_status(path)",
    "log": "home.log.read()",
    "maintain --force": "home.maintain(force=True)",
    "redo": "home.redo({})",
    "sessions archive": "home.archive_sessions({})",
    "sessions delete": "home.delete({})",
    "sessions import": "home.import_(file)",
    "sessions list --archived": "home.archive.find()",
    "sessions list": "home.sessions.find()",
    "sessions prune --now": "home.prune(use_trash=False)",
    "sessions restore": "home.restore_sessions({})",
    "status": "holdfast.machine().status()",
    "store init --print-sql": "holdfast.api.store.store_sql(path)",
    "store init": "holdfast.api.store.init_store(path)",
    "trash empty": "home.trash.empty()",
    "trash list": "home.trash.list()",
    "undo": "home.undo({})",
    "vault status": "holdfast.machine().vaults()",
    "vault": "holdfast.machine().vaults()",
}
#: Flags of the command line in hints, and what a Python caller passes instead.
_FLAGS = (
    (r"Pick its home with --home (\S+), or", r"Open that home: `holdfast.open('\1')`, or"),
    (r"holdfast --home \S+ ", "holdfast "),
    (r"pick the home with --home\b", "open its home with `machine.open(home)`"),
    (r"Pick the home with --home\b", "Open its home with `machine.open(home)`"),
    (r" with --home\b", ""),
    (r" for --plan-out\b", ""),
    (r"with --plan-out FILE", "with `plan.save(path)`"),
    (r"It ran with --now\.", "It ran with `use_trash=False`."),
    (r"without undo copies: --now\.", "without undo copies: `use_trash=False`."),
    (r"With --use-trash,", "With `caps_use_trash=True`,"),
    (r"--files-only and --no-files", "`files`"),
    (r"or use --part\b", "or pass `substring=True`"),
    (r"or pass --own-remote\b", "or pass `own_remote=True`"),
    (r"with --machine\b", "with `machine`"),
    (r" with --scope project\b", " with `scope='project'`"),
    (r"--map (.+?)=(?:DIR|NEW)\b", r"`maps={'\1': path}`"),
    (r"see `holdfast demo` for a sample", "make one with `holdfast demo`"),
)

#: What parsing damaged or foreign bytes may raise: a number that no system call accepts, text that
#: is not valid, a size that exceeds any memory. The cause is in those bytes, not in this machine.
#: So the item that they belong to is damaged, and the run goes on with the others.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


def to_install(packages: str) -> str:
    """The hint for a missing package."""
    return (
        "Install it into the same environment as Holdfast: "
        f"pip install {packages}, or after pipx: pipx inject holdfast {packages}"
    )


def to_install_extra(extra: str) -> str:
    """The same hint for all packages of one of our extras, read from the package metadata. It names
    the packages and never the extra: on PyPI the name of this project belongs to somebody else."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - slow, and rare

    try:
        lines = [each.partition(";") for each in requires("holdfast") or ()]
    except PackageNotFoundError:  # it runs from a folder, and was never installed
        return f"Install what pyproject.toml lists under `{extra}`."
    found = [name.strip() for name, _, when in lines if f"extra == '{extra}'" in when]
    return to_install(" ".join(f"'{_newest_last(each)}'" for each in found))


def _newest_last(requirement: str) -> str:
    """`starlette<2,>=1.3`, as metadata has it, in the order in which people write it."""
    versions = re.search(r"[<>=!~].*", requirement)
    if versions is None:
        return requirement
    in_order = ",".join(sorted(versions[0].split(","), reverse=True))
    return requirement[: versions.start()] + in_order


def in_words(error: Exception) -> str:
    """What went wrong while reading, with the type of an exception that has no message."""
    return f"it cannot be read: {str(error) or type(error).__name__}"


def in_methods(hint: str) -> str:
    """A hint with methods instead of commands and flags."""
    for flag, words in _FLAGS:
        hint = re.sub(flag, words, hint)
    hint = re.sub(r"--([a-z-]+) (\d\w*)", _argument, hint)
    # A word after a command is an id if it has a digit in it, or ends the hint; ID… stands for any
    # id. A full stop ends the sentence, not the id.
    named = r"[\w.:/-]*\d(?:[\w.:/-]*\w)?|ID…|[\w.:/-]*\w(?=`|$)"
    command = rf"`?holdfast ({_names()})(?: ({named}))?`?(?![\w-])"
    return re.sub(command, _method, hint)


def _argument(found: re.Match[str]) -> str:
    """A flag with its value as an argument: --older-than 90d becomes `older_than='90d'`."""
    name, value = found.groups()
    return f"`{name.replace('-', '_')}={value if value.isdecimal() else repr(value)}`"


def _names() -> str:
    return "|".join(map(re.escape, sorted(_METHODS, key=len, reverse=True)))


def _method(found: re.Match[str]) -> str:
    name, named = found.groups()
    any_ = "agent" if name.endswith("connect") else "id"
    given = "ids" if named == "ID…" else any_ if named is None else repr(named)
    return f"`{_METHODS[name].format(given)}`"


def _with_flag(hint: str, flag: str) -> str:
    """A hint whose commands work on the same home when they are copied. The demo has its own, and a
    command that "lists the homes" is about all of them."""
    of_none = r"demo|[a-z ]+` lists the homes"
    names = rf"holdfast (?=(?!{of_none})(?:{_names()}))"
    return re.sub(names, f"holdfast {flag}", hint) if flag else hint


def reason_in_voice(reason: str) -> str:
    """A reason in a report for its reader. What a command shows stays as it was written."""
    return reason if COMMAND_FLAG.get() is not None else in_methods(reason)


def in_voice(hint: str) -> str:
    """A hint for the reader: with commands while a command runs, otherwise with methods."""
    flag = COMMAND_FLAG.get()
    return in_methods(hint) if flag is None else _with_flag(hint, flag)


class HoldfastError(Exception):
    """An expected failure: what failed, on what, and the next step."""

    exit_code = 1
    kind = "failed"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self._hint = hint
        self._notes: list[str] = []

    @property
    def __notes__(self) -> list[str]:
        """What a traceback shows below the error: the hint, and notes of the caller. A command
        prints its hints itself. Derived here, because most errors are caught and never shown."""
        hint = self.hint if COMMAND_FLAG.get() is None else None
        return [*([] if hint is None else [hint]), *self._notes]

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self._notes = [*notes]

    def add_note(self, note: str, /) -> None:
        self._notes.append(note)

    @property
    def hint(self) -> str | None:
        """The next step: with commands while a command runs, otherwise with methods."""
        return None if self._hint is None else in_voice(self._hint)

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint = hint


class UsageError(HoldfastError):
    """The request itself makes no sense: a bad flag, id, time or plan file."""

    exit_code = 2
    kind = "usage"


class ConfigError(UsageError):
    """The configuration is wrong; nothing ran."""

    kind = "config"


class EmptyPolicyError(UsageError):
    """A policy without a single rule must never read as "remove everything"."""

    kind = "empty_policy"


class EmptyWindowError(UsageError):
    """A run was limited to sessions active after a moment, but the rules remove only older ones.
    `age` is the minimum age of those, in seconds."""

    def __init__(self, message: str, *, hint: str | None = None, age: float) -> None:
        super().__init__(message, hint=hint)
        self.age = age


class PlanFileError(UsageError):
    """A saved plan that is incomplete, or does not belong to this home."""

    kind = "plan_file"


class NotAHomeError(UsageError):
    """The path is not the home of an agent that Holdfast knows."""

    kind = "not_a_home"


class ClosedError(UsageError):
    """The home, or the machine, was closed by its `close`. Open it again."""

    kind = "closed"


class StalePlanError(HoldfastError):
    """What the user agreed to is no longer what would be done."""

    kind = "stale_plan"


class DeclinedError(HoldfastError):
    """The user did not confirm."""

    exit_code = 3
    kind = "declined"


class BusyError(HoldfastError):
    """Another process is changing this home."""

    exit_code = 4
    kind = "busy"


class DamageError(HoldfastError):
    """Something that Holdfast wrote was changed or damaged."""

    exit_code = 5
    kind = "damage"


class StorageError(HoldfastError):
    """The file system reported an error: full, read-only, not permitted, gone."""

    kind = "storage"


class MissingHomeError(StorageError):
    """The configuration lists a home that is not there: its disk may not be mounted."""


class ClosedStoreError(ClosedError, StorageError):
    """The store was closed together with its home, while a caller still holds `home.sessions`."""


class UnreachableError(StorageError):
    """A store on another machine does not answer, or its answers are unusable, after repeated
    attempts. Any further request would wait just as long."""

    kind = "unreachable"


class FullDiskError(StorageError):
    """The disk is full. What is already on it is undamaged."""


class CannotUndoError(HoldfastError):
    """The operation is known, but there is nothing left to bring back."""

    kind = "cannot_undo"


class NothingToUndoError(CannotUndoError):
    """No operation was named, and the home has none that could be undone or redone."""


class UnknownSessionError(UsageError):
    """No session has this id."""

    kind = "unknown_session"


class SessionExistsError(UsageError):
    """The id is taken, perhaps by a session whose id differs only in case."""

    kind = "session_exists"


def is_there(session_id: str) -> SessionExistsError:
    """The error for restoring a session that never left."""
    return SessionExistsError(f"Session {session_id} is already here; there is nothing to restore.")


class SessionEndedError(HoldfastError):
    """The session has ended; it takes messages again once it is reopened."""

    kind = "session_ended"


class QueryError(UsageError):
    """The search query cannot be understood; the message points at the place."""

    kind = "query"


class SchemaError(HoldfastError):
    """A database of a newer version, or not one of ours: refused, and left unchanged."""

    kind = "schema"


class GitFailedError(StorageError):
    """A git command failed. `said` is what it wrote about it."""

    kind = "git"

    def __init__(self, message: str, *, said: str = "") -> None:
        # The second is git's message when it writes a pack.
        full = ("No space left on device", "Out of diskspace")
        self.said = said
        self.disk_full = any(words in said for words in full)
        super().__init__(
            message,
            hint="The disk is full. Free some space and try again; nothing was changed."
            if self.disk_full
            else "Run `holdfast checkpoints verify` to see whether the store is whole.",
        )


class RemoteError(HoldfastError):
    """A git remote could not be reached, or rejected a request. `said` is git's output, without
    passwords."""

    kind = "remote"

    def __init__(self, message: str, *, hint: str | None = None, said: str = "") -> None:
        super().__init__(message, hint=hint)
        self.said = said


class UnknownCheckpointError(UsageError):
    """No checkpoint has this id, or several begin with it."""

    kind = "unknown_checkpoint"


class BudgetExceededError(HoldfastError):
    """A call would exceed a budget of its session: it was not made, and the session has ended.

    `budget` is its name in `Budgets`; `used` includes what is in flight.
    """

    kind = "budget"

    def __init__(
        self, message: str, *, session_id: str, budget: str, used: float, limit: float
    ) -> None:
        super().__init__(
            message,
            hint="Raise the budget and reopen the session, or continue in a new one.",
        )
        self.session_id = session_id
        self.budget = budget
        self.used = used
        self.limit = limit


class UnknownCostError(UsageError):
    """A cost budget cannot be enforced: the cost of something that was used is unknown."""

    kind = "unknown_cost"


def whose_bug(error: BaseException) -> str | None:
    """The package at fault if an exception was raised in a format that another package provides."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        module = str(frame.f_globals.get("__name__", ""))
        agent = getattr(getattr(frame.f_locals.get("self"), "facts", None), "agent", None)
        if agent is not None and module.partition(".")[0] != "holdfast":
            return f"{module}, the format of {agent}"
        trace = trace.tb_next
    return None

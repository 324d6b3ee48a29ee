"""Checks for what a host or a user passes in: values, paths and session ids.

A host without a type checker may pass a number as an id, or None as a string. It gets a
`UsageError` that names the mistake instead of an error from the database.
"""

from __future__ import annotations

import os
import re
import reprlib
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from holdfast.errors import HoldfastError, UnknownSessionError, UsageError

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeGuard, TypeVar

    _T = TypeVar("_T")

#: The largest number that SQLite can store.
_MOST = 2**63 - 1


def text(value: object, what: str) -> str:
    """Text that can be stored. `what` names the argument in the message."""
    if not isinstance(value, str):
        raise UsageError(f"{what} must be text, not {shown(value)}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} contains an unpaired surrogate: {shown(value)}.") from None
    return value


def whole(value: object, what: str) -> int:
    """A whole number of 0 or more. A number larger than the store can hold becomes the largest
    one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{what} must be a whole number of 0 or more, not {shown(value)}.")
    return min(value, _MOST)


def number(value: object, what: str) -> float:
    """A number of 0 or more. NaN is refused, because it compares false with everything."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{what} must be a number of 0 or more, not {shown(value)}.")
    return value


def amount(value: object, what: str) -> float:
    """A number of 0 or more, small enough to calculate with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{what} must be a number, not {shown(value)}.")
    if not 0 <= value <= _MOST:  # also false for NaN
        raise UsageError(f"{what} must be 0 or more, not {shown(value)}.")
    return value


def checked_clock(clock: Callable[[], float]) -> Callable[[], float]:
    """A clock of a host, which may return anything: `UsageError` for what is not epoch seconds."""

    def now() -> float:
        told: object = clock()
        # Not so for infinity and NaN, either.
        if isinstance(told, bool) or not isinstance(told, int | float) or not -_MOST < told < _MOST:
            raise UsageError(
                f"The clock returned {shown(told)}, which is not a time in epoch seconds.",
                hint="A clock is a function like `time.time`.",
            )
        return told

    return now


def flag(value: object, what: str) -> bool:
    """True or False. A string is refused: "no" would count as true."""
    if not isinstance(value, bool):
        raise UsageError(f"{what} must be True or False, not {shown(value)}.")
    return value


def instance(value: object, kind: type[_T], what: str) -> _T:
    if not isinstance(value, kind):
        raise UsageError(f"{what} must be of type {kind.__name__}, not {shown(value)}.")
    return value


def mapping(value: object, what: str) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise UsageError(f"{what} must be a mapping of names to values, not {shown(value)}.")


def shown(value: object) -> str:
    """A value for a message, shortened when it is long."""
    return reprlib.repr(value)


StrPath: TypeAlias = str | os.PathLike[str]


def folder_text(path: StrPath) -> str:
    """The folder of a session as it is stored: absolute, without `.`, `..` or a slash at its end,
    so that a filter finds it however it was written. Symbolic links stay. What is no folder of this
    system, such as ssh://host/folder or C:\\folder, stays as it is."""
    text = without_tilde(path)
    if not text or "://" in text or text[1:2] == ":":
        return text
    try:
        return os.path.abspath(text)  # noqa: PTH100 - it takes links out of nothing
    except OSError:  # the current directory was removed
        return text


def without_tilde(path: StrPath) -> str:
    """The path with `~` and `~user` expanded, as a shell does it. A name that starts with `~` but
    names no user is left unchanged. A folder that is really called `~` is `./~`."""
    # Such a path means the home directory of the user this process runs as.
    return os.path.expanduser(os.fspath(path))  # noqa: PTH111, TID251


def expanded(path: StrPath) -> Path:
    return Path(without_tilde(path))


def is_path(value: object) -> TypeGuard[StrPath]:
    """True for a path given as text. Bytes are refused: paths are text here."""
    return isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)


def several(given: object) -> tuple[Any, ...]:
    """One value or several, as a tuple. A string is one value, not its characters."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return tuple(given)
    return (given,)


def paths_of(given: object, what: str) -> tuple[str, ...]:
    """One path or several, as text."""
    found = several(given)
    for each in found:
        if not is_path(each):
            raise UsageError(f"{what} must be one path or several, not {shown(each)}.")
    return tuple(os.fspath(each) for each in found)


def real(path: StrPath) -> Path:
    """The same path without symlinks, whether it exists or not."""
    return Path(os.path.realpath(expanded(path)))


def named_place(home: object) -> Path:
    """The folder that a host names as its home. Raises `UsageError` for anything but a path."""
    text = os.fspath(home) if isinstance(home, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError(f"A home must be the path of a folder, not {shown(home)}.")
    # Not with `Path`, which turns "./~name" into "~name".
    place = without_tilde(text)
    if place.startswith("~"):
        raise UsageError(
            f"{text}: no such user, or the home directory is unknown.",
            hint="Write the full path, or ./~name for a folder of that name.",
        )
    return Path(place)


LONGEST_ID = 128
#: For ids that other agents made up.
LONGEST_FOREIGN_ID = 300
_LONGEST_STEM = 96
_DIGITS = 12
#: How many candidates an error message lists.
MOST_NAMED = 5
_ID = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_NO_NAMES: Mapping[str, str] = {}
_JOB = r"[A-Za-z0-9][A-Za-z0-9.-]*(?:_[A-Za-z0-9.-]+)*"


def new_id(now: float, random_hex: str) -> str:
    """`20260325_112518_6995d1`: the moment in UTC, and six random hex digits."""
    return f"{_stamp(now)}_{random_hex}"


def new_cron_id(job: str, now: float) -> str:
    """`cron_{job}_{timestamp}`."""
    if not re.fullmatch(_JOB, job):
        raise UsageError(f"{job!r} cannot be the name of a job: letters, digits and . - _ only.")
    return check_id(f"cron_{job}_{_stamp(now)}")


def check_id(text: str) -> str:
    """Return the id if it is valid; raise `UsageError` otherwise."""
    if not text:
        raise UsageError("A session id cannot be empty.")
    if len(text) > LONGEST_ID:
        raise UsageError(f"A session id has at most {LONGEST_ID} characters, not {len(text)}.")
    if not re.fullmatch(_ID, text) or ".." in text or text.endswith("."):
        raise UsageError(
            f"{text!r} is not a session id.",
            hint="An id starts with a letter or digit and goes on with letters, digits and . _ -",
        )
    return text


def check_foreign_id(text: str) -> str:
    """Like `check_id` for a session of another agent. Its id may be any string that can be stored,
    even one with a newline. Such an id is never used in a path unchanged: see `file_stem`."""
    is_stored = "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)
    if not text or len(text) > LONGEST_FOREIGN_ID or not is_stored:
        raise UsageError(f"{text[:LONGEST_FOREIGN_ID]!r} is not a session id.")
    return text


def file_stem(session_id: str) -> str:
    """The name for a session in file names: its id if that is a safe name, otherwise the safe
    characters of the id and a part of its checksum. No two ids share a stem."""
    try:
        return check_id(session_id)
    except UsageError:
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", session_id).strip("_")[:_LONGEST_STEM]
        import hashlib  # noqa: PLC0415 - few ids need it, and it is slow to load

        checksum = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{safe or 'session'}_{checksum[:_DIGITS]}"


def _stamp(now: float) -> str:
    return time.strftime("%Y%m%d_%H%M%S", time.gmtime(now))


def named(
    prefix: str,
    found: Sequence[str],
    unknown: HoldfastError,
    *,
    what: str = "sessions",
    total: int | None = None,
) -> str:
    """Return the one id in `found` that `prefix` means: an exact match, or the only candidate.
    Raises `unknown` if there are no candidates, and a `UsageError` that lists them if there are
    several. `found` has the newest first; `total` is how many there are if `found` has only some of
    them."""
    if prefix in found:
        return prefix
    if not found:
        raise unknown
    if len(found) == 1:
        return found[0]
    several = ambiguous(prefix, found, what=what, total=total)
    raise UsageError(several, hint="Use a longer prefix.")


def unknown_session(
    session_id: str, beginning: Callable[[str], Sequence[str]]
) -> UnknownSessionError:
    """The error for an id that no session has; its hint names a similar one. `beginning` finds the
    first two stored ids that begin with a prefix."""
    begun = beginning(session_id)
    near = begun or beginning(session_id[: max(8, len(session_id) - 4)])
    if not near:
        hint = "`holdfast sessions list` shows them."
    elif begun and all(each.startswith(session_id) for each in begun):
        meant = begun[0] if len(begun) == 1 else "several ids"
        hint = f"This is the start of {meant}, and the whole id is needed. `resolve` takes a start."
    else:
        hint = f"Did you mean {near[0]}?"
    return UnknownSessionError(f"There is no session {session_id!r}.", hint=hint)


def ambiguous(
    prefix: str, newest: Sequence[str], *, what: str = "sessions", total: int | None = None
) -> str:
    """The message for an ambiguous prefix: the newest candidates, one per line, and how many
    more."""
    count = len(newest) if total is None else total
    shown = newest[:MOST_NAMED]
    begin = f"{prefix!r} could be any of {count:,} {what}"
    if count == len(shown):
        return "\n  ".join([f"{begin}:", *shown])
    return "\n  ".join([f"{begin}. The newest:", *shown, f"… and {count - len(shown):,} more"])


def check_known(
    name: object, names: Iterable[str], what: str, *, meant: Mapping[str, str] = _NO_NAMES
) -> None:
    """Raise `UsageError` for a name that is not among `names`, suggesting the one that it stands
    for in `meant`, or else the closest known name."""
    among = sorted(names)
    if name in among:
        return
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    other = meant.get(str(name))
    near = get_close_matches(str(name), among, n=1) if other is None else [other]
    hint = f"Did you mean `{near[0]}`?" if near else f"Known names: {', '.join(among)}."
    raise UsageError(f"{shown(name)} is not {what}.", hint=hint)

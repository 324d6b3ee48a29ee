"""Session ids: created here, and checked before they are used in a path, a glob or SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast.errors import HoldfastError, UsageError

LONGEST_ID = 128
#: Ids that other agents made up.
LONGEST_FOREIGN_ID = 300
_LONGEST_STEM = 96
_DIGITS = 12
_MOST_NAMED = 10
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?:_[A-Za-z0-9.-]+)*", re.ASCII)


def new_id(now: float, random_hex: str) -> str:
    """`20260325_112518_6995d1`: the moment in UTC, and six random hex digits."""
    return f"{_stamp(now)}_{random_hex}"


def new_cron_id(job: str, now: float) -> str:
    """`cron_{job}_{timestamp}`."""
    if not _JOB.fullmatch(job):
        raise UsageError(f"{job!r} cannot be the name of a job: letters, digits and . - _ only.")
    return check_id(f"cron_{job}_{_stamp(now)}")


def check_id(text: str) -> str:
    """Return the id if it is valid; raise `UsageError` otherwise."""
    if not text:
        raise UsageError("A session id cannot be empty.")
    if len(text) > LONGEST_ID:
        raise UsageError(f"A session id has at most {LONGEST_ID} characters, not {len(text)}.")
    if not _ID.fullmatch(text) or ".." in text or text.endswith("."):
        raise UsageError(
            f"{text!r} is not a session id.",
            hint="An id starts with a letter or digit and goes on with letters, digits and . _ -",
        )
    return text


def check_foreign_id(text: str) -> str:
    """The same for a session of another agent, whose id may be any printable text. Such an id is
    never used in a path unchanged: see `file_stem`."""
    if not text or len(text) > LONGEST_FOREIGN_ID or not text.isprintable():
        raise UsageError(f"{text[:LONGEST_FOREIGN_ID]!r} is not a session id.")
    return text


def file_stem(session_id: str) -> str:
    """How file names refer to a session: by its id if that is a safe name, else by its safe
    characters and a part of its checksum. No two ids share a stem."""
    try:
        return check_id(session_id)
    except UsageError:
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", session_id).strip("_")[:_LONGEST_STEM]
        import hashlib  # noqa: PLC0415 - few ids need it, and it is slow to load

        checksum = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{safe or 'session'}_{checksum[:_DIGITS]}"


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%d_%H%M%S")


def named(prefix: str, found: Sequence[str], unknown: HoldfastError, what: str = "sessions") -> str:
    """The one id in `found` that `prefix` means: an exact match, or the only candidate. Raises
    `unknown` without candidates, and lists them when there are several."""
    if prefix in found:
        return prefix
    if not found:
        raise unknown
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"{prefix!r} could be any of several {what}: {', '.join(found[:_MOST_NAMED])}",
        hint="Add a character or more.",
    )

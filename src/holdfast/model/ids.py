"""Session ids: made here, and checked before they ever meet a path, a glob or SQL."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from holdfast.errors import UsageError

LONGEST_ID = 128
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
    """The id itself, when it is one; raises `UsageError` otherwise."""
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


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%d_%H%M%S")

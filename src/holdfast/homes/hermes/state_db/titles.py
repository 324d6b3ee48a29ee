"""Titles as Hermes itself would store them: it lists, resumes and looks up sessions by title."""

from __future__ import annotations

import re

from holdfast.errors import UsageError

LONGEST = 100
#: Controls, what has no width, and what turns the direction of text. Tab, line feed and carriage
#: return are blanks.
_DROPPED = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffc]"
)
_HALF = re.compile("[\ud800-\udfff]")


def cleaned(title: str | None) -> str | None:
    """What is left of a title: on one line, with single blanks; None when nothing is.

    Raises `UsageError` for one that is too long even so.
    """
    if title is None:
        return None
    left = " ".join(_DROPPED.sub("", _HALF.sub("\ufffd", title)).split())
    if len(left) > LONGEST:
        raise UsageError(
            f"The title has {len(left)} characters, and Hermes takes at most {LONGEST}.",
            hint="Use a shorter title.",
        )
    return left or None

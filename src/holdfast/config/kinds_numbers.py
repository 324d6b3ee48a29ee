"""Several numbers in one value: shares of a limit, steps of an escalation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.config.kinds import Value, WrongValueError
from holdfast.config.shown import found

_WHOLE = re.compile(r"[0-9]{1,9}")
_HIGHEST_PERCENT = 99
_STEPS = 3
_MOST_CALLS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Percents:
    """One share of a limit or several, or none at all; comma-separated in a variable."""

    def read(self, value: object) -> Value:
        given = value if isinstance(value, list | tuple) else [value]
        if not all(_is_whole(each, 1, _HIGHEST_PERCENT) for each in given):
            raise WrongValueError(
                f"expected a whole number from 1 to {_HIGHEST_PERCENT}, or a list of them, "
                f"found {_shown(value)}"
            )
        return tuple(sorted(set(given)))

    def parse(self, text: str) -> object:
        return _numbers(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """After how many calls there is a nudge, a strong nudge and a stop; 0 leaves one out."""

    def read(self, value: object) -> Value:
        if (
            not isinstance(value, list | tuple)
            or len(value) != _STEPS
            or not all(_is_whole(each, 0, _MOST_CALLS) for each in value)
        ):
            raise WrongValueError(
                f"expected three whole numbers from 0 to {_MOST_CALLS}, as in [3, 6, 9], "
                f"found {_shown(value)}"
            )
        rising = [each for each in value if each]
        if rising != sorted(set(rising)):
            raise WrongValueError(
                f"expected numbers that rise, but for those that are 0, found {_shown(value)}"
            )
        return tuple(value)

    def parse(self, text: str) -> object:
        return _numbers(text)


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _numbers(text: str) -> object:
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    return [int(part) if _WHOLE.fullmatch(part) else part for part in parts if part]


def _shown(value: object) -> str:
    """Short lists are shown as they are: it is their numbers that are wrong."""
    if isinstance(value, list | tuple) and 0 < len(value) <= _STEPS + 1:
        return "[" + ", ".join(map(found, value)) + "]"
    return found(value)

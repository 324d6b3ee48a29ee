"""Checks of the values that a host passes in.

A host without a type checker may pass a number as an id, or None as a text. It gets a `UsageError`
that says so, not an error of the database.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import TypeVar

from holdfast.errors import UsageError

_T = TypeVar("_T")
#: The largest number that SQLite knows. More rows than that nobody has.
_MOST = 2**63 - 1


def text(value: object, what: str) -> str:
    """Text that can be stored. `what` names the argument in the message."""
    if not isinstance(value, str):
        raise UsageError(f"{what} must be text, not {shown(value)}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} has half a character in it: {shown(value)}.") from None
    return value


def whole(value: object, what: str) -> int:
    """A whole number of 0 or more. A larger one than the store can hold is cut to the largest."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{what} must be a whole number of 0 or more, not {shown(value)}.")
    return min(value, _MOST)


def number(value: object, what: str) -> float:
    """A number of 0 or more. NaN is refused, because it compares false with everything."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise UsageError(f"{what} must be a number of 0 or more, not {shown(value)}.")
    return value


def instance(value: object, kind: type[_T], what: str) -> _T:
    if not isinstance(value, kind):
        raise UsageError(f"{what} must be of type {kind.__name__}, not {shown(value)}.")
    return value


def mapping(value: object, what: str) -> None:
    if not isinstance(value, Mapping):
        raise UsageError(f"{what} must be a mapping of names to values, not {shown(value)}.")


def shown(value: object) -> str:
    """A value for a message, shortened when it is long."""
    return reprlib.repr(value)

"""SQLite connections that were thrown away without being closed.

Python 3.13 warns about them and earlier versions do not, so we count them ourselves: a leak fails
the test on every version.
"""

from __future__ import annotations

import functools
import gc
import sqlite3
import sys
import traceback
from typing import Any

_CALLERS = 8
_connect = sqlite3.connect
_left_open: list[str] = []


class _Tracked(sqlite3.Connection):
    """Knows who opened it, and tells when it is collected without a call to `close`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._is_open = False
        self._callers = _callers(sys._getframe(2))
        super().__init__(*args, **options)
        self._is_open = True

    def close(self) -> None:
        super().close()
        self._is_open = False

    def __del__(self) -> None:
        if self._is_open:
            _left_open.append(self._callers)


def _callers(frame: Any) -> str:
    summary = traceback.StackSummary.extract(
        traceback.walk_stack(frame), limit=_CALLERS, lookup_lines=False
    )
    return " < ".join(f"{each.filename}:{each.lineno}" for each in summary)


def track() -> None:
    """From now on, watch every connection that does not bring a class of its own."""

    @functools.wraps(_connect)
    def connect(*args: Any, factory: type[sqlite3.Connection] = _Tracked, **options: Any) -> Any:
        return _connect(*args, factory=factory, **options)

    sqlite3.connect = connect


def left_open(*, thorough: bool) -> list[str]:
    """Who opened the connections that were lost since the last call. The thorough look also finds
    those that are held by a cycle; it takes a moment."""
    if thorough:
        gc.collect()
    found, _left_open[:] = list(_left_open), []
    return found

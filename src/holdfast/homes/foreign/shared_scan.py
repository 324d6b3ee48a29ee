"""One look at the machine that all of a reading command shares: its processes, and what is in each
home. Whoever removes something looks again, outside of this.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

_T = TypeVar("_T")
_seen: ContextVar[dict[Hashable, Any] | None] = ContextVar("holdfast_one_look", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """Inside, what `once` has looked at is not looked at again. Only for code that changes
    nothing."""
    token = _seen.set({} if (known := _seen.get()) is None else known)
    try:
        yield
    finally:
        _seen.reset(token)


def once(what: Hashable, look: Callable[[], _T]) -> _T:
    """What `look` finds. Inside `one_look`, what the first call found is given again."""
    known = _seen.get()
    if known is None:
        return look()
    if what not in known:
        known[what] = look()
    found: _T = known[what]
    return found

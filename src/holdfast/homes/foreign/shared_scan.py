"""One look at the machine, shared by the steps of a read-only command: the processes, and the
contents of each home. Code that removes something must look again, outside `one_look`.
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
    """Within this context, `once` runs each look only once. Only for code that changes nothing."""
    token = _seen.set({} if (known := _seen.get()) is None else known)
    try:
        yield
    finally:
        _seen.reset(token)


def once(what: Hashable, look: Callable[[], _T]) -> _T:
    """Return the result of `look`; inside `one_look`, that of the first call for `what`."""
    known = _seen.get()
    if known is None:
        return look()
    if what not in known:
        known[what] = look()
    found: _T = known[what]
    return found

"""Memory that goes back to the system after a look at many sessions.

The C library keeps what was freed, for each thread apart, in case that thread wants it again. A
page that stays open all day wants it once.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

#: `M_ARENA_MAX` of glibc's mallopt.
_ARENAS = -8


def share() -> None:
    """One heap for all threads: what one gave up, the next uses. Before there are threads."""
    with suppress(OSError, AttributeError):  # another C library does as it likes
        ctypes.CDLL(None).mallopt(_ARENAS, 1)


def give_back() -> None:
    """What a scan left in circles, too. For a thread that nobody waits for now."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)

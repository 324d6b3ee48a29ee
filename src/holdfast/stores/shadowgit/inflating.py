"""Decompress what may be damaged: never more than it says that it is."""

from __future__ import annotations

import zlib
from collections.abc import Callable


class NotWholeError(ValueError):
    """Bytes that are not what was written. Whoever knows what they are of says so."""


def inflated(first: bytes, more: Callable[[], bytes], size: int) -> bytes:
    """The `size` bytes that a stream has; `more` gives what follows in it.

    A size that is wrong costs no memory: what is made is what is there, and no more than that.
    """
    stream = zlib.decompressobj()
    parts: list[bytes] = []
    left, chunk = size, first
    try:
        while not stream.eof:
            # One more than there may be, which also lets it come to its end.
            part = stream.decompress(chunk, left + 1)
            left -= len(part)
            parts.append(part)
            if left < 0:
                raise NotWholeError("more than its size")
            chunk = stream.unconsumed_tail
            if not chunk and not stream.eof:
                chunk = more()
                if not chunk:
                    raise NotWholeError("cut short")
    except zlib.error as error:
        raise NotWholeError(str(error)) from error
    if left:
        raise NotWholeError("less than its size")
    return parts[0] if len(parts) == 1 else b"".join(parts)

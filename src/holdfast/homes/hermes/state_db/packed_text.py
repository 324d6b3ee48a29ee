"""Text in undo copies: packed, value by value.

Hermes keeps text as it was said. Copies stay for days and count against the caps: long text is
packed, which makes a copy a third as large.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: Shorter text stays readable to any SQLite tool.
_WORTH_PACKING = 512
_LEVEL = 1
#: The first byte of every value of bytes in a copy says what the rest is.
_TEXT, _BYTES = b"z", b"b"


def packer() -> Callable[[str | bytes], bytes]:
    """Packs the values of one copy, each as a frame of its own, by one compressor: making one takes
    as long as using it."""
    compressor = zstd.ZstdCompressor(_LEVEL)

    def pack(value: str | bytes) -> bytes:
        if isinstance(value, bytes):
            return _BYTES + value
        return _TEXT + compressor.compress(value.encode(), compressor.FLUSH_FRAME)

    return pack


def packed(value: str) -> str:
    """SQL: a value as it goes into a copy."""
    is_worth_it = f"typeof({value}) = 'blob' OR length({value}) >= {_WORTH_PACKING}"
    return f"CASE WHEN {is_worth_it} THEN pack({value}) ELSE {value} END"


def unpack(value: Any) -> Any:
    """A value of a copy as it was; raises `zstd.ZstdError` for bytes that `pack` did not write."""
    if not isinstance(value, bytes):
        return value
    if value[:1] == _TEXT:
        return zstd.decompress(value[1:]).decode()
    return value[1:]

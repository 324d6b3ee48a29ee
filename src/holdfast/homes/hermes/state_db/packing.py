"""How values lie in an undo copy: long text compressed, everything else as it is.

Hermes keeps text as it was said. Copies of it stay for days and count against the caps: packed they
take a third.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

#: Shorter text stays readable to any SQLite tool.
_WORTH_PACKING = 512
_LEVEL = 1
#: The first byte of every value of bytes in a copy: what the rest is.
_TEXT, _BYTES = b"z", b"b"


def packed(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[Any]]:
    """Rows as they go into a copy. In one loop: there are millions of values."""
    for row in rows:
        yield [
            value
            if (kind := value.__class__) is not bytes
            and (kind is not str or len(value) < _WORTH_PACKING)
            else _pack(value)
            for value in row
        ]


def unpacked(value: Any) -> Any:
    """A value of a copy as it was; raises `zstd.ZstdError` when it is none of ours."""
    if not isinstance(value, bytes):
        return value
    if value[:1] == _TEXT:
        return zstd.decompress(value[1:]).decode()
    return value[1:]


def _pack(value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return _BYTES + value
    return _TEXT + zstd.compress(value.encode(), _LEVEL)

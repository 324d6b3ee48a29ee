"""Whether a file that is only appended to is still the one that was read up to a place."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from holdfast.stores.files import open_file

#: What is compared: so much at the beginning and before the place.
_BLOCK = 4096


def check_of(path: Path, offset: int) -> str:
    """What proves that a file is still the same up to a place; "" if it is shorter now."""
    return checks_of(path, offset)[0]


def checks_of(path: Path, offset: int) -> tuple[str, str]:
    """The same, and a second one of what is in it alone: a copy has that, too."""
    with open_file(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size < offset:
            return "", ""
        blocks = _block(file, 0, min(_BLOCK, offset))
        blocks += _block(file, max(0, offset - _BLOCK), min(_BLOCK, offset))
    same = blake2b(f"{status.st_ino}/{offset}/".encode() + blocks, digest_size=16)
    return same.hexdigest(), blake2b(f"{offset}/".encode() + blocks, digest_size=16).hexdigest()


def _block(file: BinaryIO, start: int, size: int) -> bytes:
    file.seek(start)
    return file.read(size)

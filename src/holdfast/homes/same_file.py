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
    return _checked(path, offset, with_inode=True)


def content_check_of(path: Path, offset: int) -> str:
    """The same of what is in it: a copy has it, too."""
    return _checked(path, offset, with_inode=False)


def _checked(path: Path, offset: int, *, with_inode: bool) -> str:
    with open_file(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size < offset:
            return ""
        inode = status.st_ino if with_inode else ""
        seen = blake2b(f"{inode}/{offset}/".encode(), digest_size=16)
        seen.update(_block(file, 0, min(_BLOCK, offset)))
        seen.update(_block(file, max(0, offset - _BLOCK), min(_BLOCK, offset)))
    return seen.hexdigest()


def _block(file: BinaryIO, start: int, size: int) -> bytes:
    file.seek(start)
    return file.read(size)

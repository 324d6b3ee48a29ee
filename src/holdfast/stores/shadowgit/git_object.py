"""What git stores: kinds of objects, and the ids that it gives them."""

from __future__ import annotations

import hashlib
from enum import IntEnum

OID_BYTES = 20


class Kind(IntEnum):
    """Numbered as in a pack."""

    COMMIT = 1
    TREE = 2
    BLOB = 3
    TAG = 4

    @property
    def word(self) -> str:
        return self.name.lower()


#: What an object begins with when git makes its id.
_WORDS = {kind: kind.word.encode() for kind in Kind}
KINDS = {word: kind for kind, word in _WORDS.items()}


def header(kind: Kind, size: int) -> bytes:
    return b"%b %d\0" % (_WORDS[kind], size)


def object_id(kind: Kind, data: bytes) -> bytes:
    digest = hashlib.sha1(header(kind, len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.digest()

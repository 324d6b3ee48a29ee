"""Digests like those of `hashlib`, without OpenSSL for a few small inputs.

Loading OpenSSL takes as long as hashing 300 kB without it, and taking a checkpoint of a few files
needs a tenth of that. For more, OpenSSL is fifteen times as fast.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from hashlib import _Hash, blake2b, sha256

    _own_sha1: Callable[[], _Hash] | None
else:
    try:
        from _blake2 import blake2b
        from _sha1 import sha1 as _own_sha1

        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:  # a Python that was built without them
        from hashlib import blake2b, sha256

        _own_sha1 = None

__all__ = ["blake2b", "new_sha1", "sha1", "sha256"]

#: Total bytes hashed without OpenSSL; each digest counts as a few more.
_ENOUGH = 65_536
_EACH = 64


class _Hashed:
    left = 0 if "hashlib" in sys.modules or _own_sha1 is None else _ENOUGH
    openssl: Callable[..., _Hash] | None = None


def new_sha1(size: int) -> _Hash:
    """A new SHA-1 object for an input of this many bytes."""
    if _Hashed.left > 0 and _own_sha1 is not None:
        _Hashed.left -= size + _EACH
        if _Hashed.left > 0:
            return _own_sha1()
    if _Hashed.openssl is None:
        import hashlib  # noqa: PLC0415 - see above

        _Hashed.openssl = hashlib.sha1
    return _Hashed.openssl(usedforsecurity=False)


def sha1(*parts: bytes | bytearray | memoryview) -> bytes:
    """The SHA-1 of the concatenated parts."""
    digest = new_sha1(sum(map(len, parts)))
    for part in parts:
        digest.update(part)
    return digest.digest()

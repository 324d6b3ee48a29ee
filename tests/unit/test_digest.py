"""Digests are those of `hashlib`, whoever computes them."""

from __future__ import annotations

import hashlib
import subprocess
import sys

from holdfast.stores import digest

#: A new process, in which nothing has loaded `hashlib`: sizes as arguments, a row for each.
_IN_TURN = """
import sys
from holdfast.stores.digest import new_sha1, sha1
for size in map(int, sys.argv[1:]):
    text = bytes(range(256)) * (size // 256 + 1)
    one = new_sha1(size)
    one.update(text[:size])
    other = sha1(text[: size // 2], text[size // 2 : size])
    print(one.hexdigest(), other.hex(), "hashlib" in sys.modules)
"""


_SIZES = [0, 1, 4_096, 20_000, 65_536, 3, 1_000_000, 5]


def loads_openssl(script: str) -> list[str]:
    """Whether OpenSSL is there after each digest, all of which are right."""
    said = subprocess.run(
        [sys.executable, "-c", script, *map(str, _SIZES)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    text = bytes(range(256)) * 4_000
    wanted = [hashlib.sha1(text[:size]).hexdigest() for size in _SIZES]  # noqa: S324 - as git does
    rows = [line.split() for line in said.splitlines()]
    assert [row[:2] for row in rows] == [[each, each] for each in wanted]
    return [row[2] for row in rows]


def test_small_texts_need_no_openssl_and_large_ones_get_it() -> None:
    assert loads_openssl(_IN_TURN) == ["False"] * 4 + ["True"] * 4


def test_a_python_without_digests_of_its_own_has_those_of_openssl() -> None:
    missing = "import sys; sys.modules['_sha1'] = None\n"
    assert loads_openssl(missing + _IN_TURN) == ["True"] * 8


def test_the_other_digests_are_those_of_hashlib() -> None:
    text, size = b"a project", 8
    theirs = hashlib.blake2b(text, digest_size=size).digest()
    assert digest.blake2b(text, digest_size=size).digest() == theirs
    assert digest.sha256(text).digest() == hashlib.sha256(text).digest()

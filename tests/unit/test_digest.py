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


def test_small_texts_need_no_openssl_and_large_ones_get_it() -> None:
    sizes = [0, 1, 4_096, 20_000, 65_536, 3, 1_000_000, 5]
    said = subprocess.run(
        [sys.executable, "-c", _IN_TURN, *map(str, sizes)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    text = bytes(range(256)) * 4_000
    wanted = [hashlib.sha1(text[:size]).hexdigest() for size in sizes]  # noqa: S324 - as git does
    rows = [line.split() for line in said.splitlines()]
    assert [row[:2] for row in rows] == [[each, each] for each in wanted]
    assert [row[2] for row in rows] == ["False"] * 4 + ["True"] * 4


def test_the_other_digests_are_those_of_hashlib() -> None:
    text, size = b"a project", 8
    theirs = hashlib.blake2b(text, digest_size=size).digest()
    assert digest.blake2b(text, digest_size=size).digest() == theirs
    assert digest.sha256(text).digest() == hashlib.sha256(text).digest()

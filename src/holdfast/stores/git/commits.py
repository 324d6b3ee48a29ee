"""Commits of git, read without trust."""

from __future__ import annotations

import re

from holdfast.errors import DamageError
from holdfast.stores.git.object import Kind
from holdfast.stores.git.trees import Trees

_TREE = re.compile(rb"tree ([0-9a-f]{40})\n")


def read_commit(trees: Trees, checkpoint: str) -> tuple[str, str]:
    """The tree and the message of a checkpoint; raises `DamageError` when it cannot be read."""
    raw = trees.raw(bytes.fromhex(checkpoint), Kind.COMMIT)
    head, _, message = raw.partition(b"\n\n")
    found = _TREE.match(head)
    if found is None:
        raise DamageError(f"The commit {checkpoint} in the checkpoint store is no checkpoint.")
    return found[1].decode("ascii"), message.decode("utf-8", "replace")

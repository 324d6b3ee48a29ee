"""Commits, read without trusting them."""

from __future__ import annotations

import re

from holdfast.errors import DamageError
from holdfast.stores.git.object import Kind
from holdfast.stores.git.trees import Trees
from holdfast.value import dataclass

_HEAD = re.compile(
    rb"tree (?P<tree>[0-9a-f]{40})\n(?P<parents>(?:parent [0-9a-f]{40}\n)*)"
    rb"(?:author (?P<author>[^\n]*)\n)?(?:committer (?P<committer>[^\n]*)\n)?"
)
_PARENT = re.compile(r"parent ([0-9a-f]{40})\n")
_WHEN = re.compile(rb" (-?\d{1,18}) [-+]\d{4}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a commit says. A time is None when the commit has none that can be read."""

    id: str
    tree: str
    parents: tuple[str, ...]
    authored: float | None
    committed: float | None
    message: str


def read_commit(trees: Trees, commit: str) -> Commit:
    """Raises `DamageError` when the commit is missing, damaged, or not a commit."""
    return parse_commit(commit, trees.raw(bytes.fromhex(commit), Kind.COMMIT))


def parse_commit(commit: str, raw: bytes) -> Commit:
    head = _head(commit, raw)
    return Commit(
        id=commit,
        tree=head["tree"].decode("ascii"),
        parents=tuple(_PARENT.findall(head["parents"].decode("ascii"))),
        authored=_time(head["author"]),
        committed=_time(head["committer"]),
        message=raw.partition(b"\n\n")[2].decode("utf-8", "replace"),
    )


def with_parent(commit: str, raw: bytes, parent: str) -> bytes:
    """The bytes of the same commit after another parent, "" for none."""
    head = _head(commit, raw)
    before = f"parent {parent}\n".encode("ascii") if parent else b""
    return raw[: head.start("parents")] + before + raw[head.end("parents") :]


def _head(commit: str, raw: bytes) -> re.Match[bytes]:
    found = _HEAD.match(raw)
    if found is None:
        raise DamageError(f"The commit {commit} is damaged: it names no tree.")
    return found


def _time(who: bytes | None) -> float | None:
    found = None if who is None else _WHEN.search(who)
    return None if found is None else float(found[1])

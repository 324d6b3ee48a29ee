"""A checkpoint of Hermes as git has it: a commit whose parent is the checkpoint before."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from holdfast.errors import DamageError
from holdfast.stores.shadowgit.git_object import Kind
from holdfast.stores.shadowgit.trees import Trees

_HEADER = re.compile(rb"tree ([0-9a-f]{40})\n((?:parent [0-9a-f]{40}\n)*)author ([^\n]*)\n")
_PARENT = re.compile(rb"parent ([0-9a-f]{40})\n")
_WHEN = re.compile(rb" (-?\d{1,18}) [-+]\d{4}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One commit of a chain. `parent` is "" for the first; `time` is that of its author, which is
    the one that Hermes shows; `raw` is the commit itself."""

    id: str
    parent: str
    tree: str
    time: float
    reason: str
    raw: bytes


def read_link(trees: Trees, commit: str) -> Link:
    """Read a commit; raises `DamageError` when it is missing, damaged or none of Hermes's."""
    return parse(commit, trees.raw(bytes.fromhex(commit), Kind.COMMIT))


def parse(commit: str, raw: bytes) -> Link:
    """What a commit says; raises `DamageError` for one that is none of Hermes's."""
    found = _HEADER.match(raw)
    when = None if found is None else _WHEN.search(found[3])
    if found is None or when is None:
        raise DamageError(f"The commit {commit} in the checkpoint store is no checkpoint.")
    parents = _PARENT.findall(found[2])
    message = raw.partition(b"\n\n")[2]
    return Link(
        id=commit,
        parent=parents[0].decode("ascii") if parents else "",
        tree=found[1].decode("ascii"),
        time=float(when[1]),
        reason=message.decode("utf-8", "replace").strip().partition("\n")[0],
        raw=raw,
    )


def write_after(trees: Trees, link: Link, parent: str) -> Link:
    """The same checkpoint with another one before it, "" for none: all but its id stays.

    The same two give the same commit, so whoever puts things back gets the old ids back.
    """
    found = _HEADER.match(link.raw)
    if found is None:
        raise DamageError(f"The commit {link.id} in the checkpoint store is no checkpoint.")
    rest = link.raw[found.end(2) :]
    before = f"parent {parent}\n" if parent else ""
    text = f"tree {link.tree}\n{before}".encode("ascii") + rest
    return read_link(trees, trees.put(Kind.COMMIT, text).hex())


def walk(trees: Trees, tip: str, cuts: Collection[str]) -> tuple[Link, ...]:
    """A chain, the newest first, to its end or to where it was cut.

    What cannot be read ends it: `verify` names that, and the newer ones can still be used.
    """
    found: list[Link] = []
    seen: set[str] = set()
    while tip and tip not in seen:
        seen.add(tip)
        try:
            link = read_link(trees, tip)
        except DamageError:
            break
        found.append(link)
        tip = "" if link.id in cuts else link.parent
    return tuple(found)

"""Count inserted and deleted lines in process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from holdfast.errors import DamageError
from holdfast.model.checkpoint import Lines
from holdfast.stores.git.trees import Node

#: A take counts the lines of up to so many files; more are counted on request.
COUNTED_AT_ONCE = 200
#: And so many bytes of one, and so many pairs of lines.
_LARGEST = 16 * 1024 * 1024
_MOST_PAIRS = 1_000_000_000
#: Where git looks for a null, which makes it take a file for binary.
_LOOKED_AT = 8000


def count_lines(
    changed: Collection[tuple[Node | None, Node | None]], content: Callable[[bytes], bytes]
) -> Lines | None:
    """Lines of the changed files, counted in process; None when they are too many for that, or when
    one of them is damaged in the store: that is no reason to go without the next checkpoint."""
    if len(changed) > COUNTED_AT_ONCE:
        return None
    insertions = deletions = 0
    for was, now in changed:
        try:
            before, after = (b"" if node is None else content(node[1]) for node in (was, now))
        except DamageError:
            return None
        counted = changed_lines(before, after)
        if counted is None:
            return None
        insertions += counted.insertions
        deletions += counted.deletions
    return Lines(insertions=insertions, deletions=deletions)


def changed_lines(before: bytes, after: bytes) -> Lines | None:
    """The fewest lines that had to come and go; none of a binary file, None of one too large."""
    if b"\0" in before[:_LOOKED_AT] or b"\0" in after[:_LOOKED_AT]:
        return Lines(insertions=0, deletions=0)
    if len(before) + len(after) > _LARGEST:
        return None
    old, new = _inner(_lines(before), _lines(after))
    both = set(old) & set(new)
    common = _common([line for line in old if line in both], [line for line in new if line in both])
    if common is None:
        return None
    return Lines(insertions=len(new) - common, deletions=len(old) - common)


def _lines(data: bytes) -> Sequence[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    if last:
        # A last line that no newline ends is not the same as one with it.
        lines.append(last + b"\n")
    return lines


def _inner(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """What is left without what both begin with and end with."""
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    return old[start : len(old) - end], new[start : len(new) - end]


def _common(old: Sequence[bytes], new: Sequence[bytes]) -> int | None:
    """How many lines both have in the same order, at most; None when that would take long.

    A row of the well-known table is one number, in which a bit that is gone is a step up: so a row
    of any length takes three operations (Hyyrö 2004).
    """
    if len(old) * len(new) > _MOST_PAIRS:
        return None
    at: dict[bytes, int] = {}
    for number, line in enumerate(old):
        at[line] = at.get(line, 0) | 1 << number
    every = (1 << len(old)) - 1
    row = every
    for line in new:
        met = row & at[line]
        row = (row + met | row - met) & every
    return len(old) - row.bit_count()

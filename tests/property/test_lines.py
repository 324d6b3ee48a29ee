"""Lines that came and went: as few as there can be, and what git counts."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.model.checkpoint import Lines
from holdfast.stores.checkpoints.comparison import changed_lines

TEXTS = st.lists(st.sampled_from([b"a", b"b", b"c", b"\r", b""]), max_size=14).map(b"\n".join)


@given(TEXTS, TEXTS)
@example(b"a", b"a\n")
@example(b"", b"")
@example(b"a\n\n", b"a\n")
def test_the_fewest_that_had_to_change(before: bytes, after: bytes) -> None:
    old, new = _split(before), _split(after)

    @cache
    def common(left: int, right: int) -> int:
        if left == len(old) or right == len(new):
            return 0
        if old[left] == new[right]:
            return 1 + common(left + 1, right + 1)
        return max(common(left + 1, right), common(left, right + 1))

    both = common(0, 0)
    assert changed_lines(before, after) == Lines(
        insertions=len(new) - both, deletions=len(old) - both
    )


def _split(text: bytes) -> list[bytes]:
    """As git sees them: only a newline ends a line."""
    parts = text.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


@settings(max_examples=20)
@given(TEXTS, TEXTS)
@example(b"a\0b\n", b"c\n")
@example(b"one\n" * 3000, b"two\n" + b"one\n" * 2999)
def test_git_counts_the_same(before: bytes, after: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("old", before), ("new", after)):
            (Path(folder) / name).write_bytes(data)
        said = subprocess.run(
            ["git", "diff", "--no-index", "--minimal", "--numstat", "old", "new"],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull},
            capture_output=True,
            check=False,
        )
    added, removed = (said.stdout.split() or [b"0", b"0"])[:2]
    counted = changed_lines(before, after)
    assert counted is not None
    assert (counted.insertions, counted.deletions) == (_number(added), _number(removed))


def _number(said: bytes) -> int:
    return 0 if said == b"-" else int(said)


def test_what_is_too_large_is_not_counted() -> None:
    assert changed_lines(b"", b"x\n" * 9_000_000) is None
    old = b"".join(b"%d\n" % number for number in range(40_000))
    new = b"".join(b"%d\n" % number for number in reversed(range(40_000)))
    assert changed_lines(old, new) is None

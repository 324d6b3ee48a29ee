"""What a checkpoint before a tool lacks, and what follows from that for the tool.

What could not be read cannot be brought back, so it counts as a failure. A file that is larger than
the user wants to keep is left out on purpose: the user is told, and the tool runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.checkpoint import NotCaptured
from holdfast.model.text import one_line
from holdfast.value import dataclass

_MOST_NAMED = 3
_LONGEST = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """What to say about it. `failed` is "" where all of it is left out on purpose."""

    words: str = ""
    failed: str = ""


def gaps(left: Sequence[NotCaptured]) -> Gaps:
    """What a checkpoint lacks. A socket has no content, and a worktree is a project of its own."""
    lacking = [each for each in left if not each.is_no_content]
    lost = [each for each in lacking if not each.by_rule]
    if not lacking:
        return Gaps()
    return Gaps(words=_words(lost or lacking), failed=_words(lost) if lost else "")


def _words(left: Sequence[NotCaptured]) -> str:
    named = [f"{one_line(each.path)[:_LONGEST]} ({each.reason})" for each in left[:_MOST_NAMED]]
    more = len(left) - len(named)
    rest = f" and {more:,} more" if more else ""
    return f"the checkpoint lacks {', '.join(named)}{rest}"

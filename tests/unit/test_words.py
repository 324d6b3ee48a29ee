"""Sentences that had to be decoded, and must not come back: what people read is plain English."""

from __future__ import annotations

from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_READ = [
    *sorted((_ROOT / "src").rglob("*.py")),
    *sorted((_ROOT / "src").rglob("*.txt")),
    *sorted((_ROOT / "src").rglob("*.html")),
    *sorted((_ROOT / "docs").rglob("*.md")),
    _ROOT / "README.md",
]


@pytest.fixture(scope="module")
def everything() -> dict[Path, str]:
    return {path: " ".join(path.read_text().split()) for path in _READ}


@pytest.mark.parametrize(
    "phrase",
    [
        "tried by the command alone",
        "It holds for this home only",
        "has them below",
        "Maintenance notes the figures",
        "Replace secrets by a note",
        "bounds what they leave behind",
        "on your word",
        "fear to lose",
        "Without an end, or with.",
        "Keep one whatever the policy",
        "Another process is at it",
        "Ever used, also by sessions that are gone",
        "No sessions so far down",
        "Add a character or more",
        "has nothing to work on",
        "once or for ever",
        "made anew",
        "an id that is none",
        ", and files beside it",
        "against the one before",
        "does not go with it",
        "What was archived can come back",
        "Take the first of a directory",
        "Everything is as it should be",
        "it waits for you",
        "The system refused",
    ],
)
def test_no_riddles(everything: dict[Path, str], phrase: str) -> None:
    assert [str(path) for path, text in everything.items() if phrase in text] == []

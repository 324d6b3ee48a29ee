"""Marking what matched without an index: plain words in text of ASCII alone, as nearly all are.

There the tokenizer takes every run of letters and digits for a word, and case is all that it folds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from holdfast.stores.sessions.indexed_text import marked
from holdfast.stores.sessions.query import Every, Query, Term

_LETTER = "[0-9A-Za-z]"
#: A text with its matches marked; None if it does not match.
Mark = Callable[[str], str | None]


def plain_marks(query: Query) -> Mark | None:
    """What marks texts of ASCII; None for a query with phrases, exclusions or groups in it."""
    parts = (query,) if isinstance(query, Term) else query.parts
    words = [part for part in parts if isinstance(part, Term) and is_plain(part)]
    if len(words) < len(parts) or (isinstance(query, Every) and query.without):
        return None
    needed = all if isinstance(query, Every) else any
    # What stands before a word is looked at last, and each word has a pattern of its own. So the
    # search jumps from word to word; one pattern for all would stop at every character.
    patterns = [
        re.compile(
            f"{each}(?<!{_LETTER}{each})"
            + (f"{_LETTER}*" if word.prefix else "")
            + f"(?!{_LETTER})"
        )
        for word in words
        for each in [word.text.lower()]
    ]

    def mark(text: str) -> str | None:
        lower = text.lower()
        places = [[found.span() for found in pattern.finditer(lower)] for pattern in patterns]
        if not needed(places):
            return None
        # Two may find the same word: one of them is a beginning of the other.
        return marked(text, sorted({place for each in places for place in each}))

    return mark


def is_plain(term: Term) -> bool:
    """Whether a term is one word for the index, without a look at its rules."""
    return term.text.isascii() and term.text.isalnum()

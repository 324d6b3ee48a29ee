"""What a search found, marked."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from holdfast.model.text import printable

_MARKED = re.compile(r"\[([^\[\]]*)\]")
#: A word that is being typed: it may go on.
_GOES_ON = re.compile(r"[^\W_]\Z")
_OPERATORS = ("AND", "OR", "NOT", "NEAR")


def marked(snippet: str) -> Markup:
    """A snippet with what matched, which the store puts in brackets, marked."""
    pieces = _MARKED.split(printable(" ".join(snippet.split())))
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if number % 2 else escape(piece)
        for number, piece in enumerate(pieces)
    )


def marked_title(title: str, words: str) -> Markup:
    """A title in which the words that were looked for are marked."""
    wanted = sorted({*re.findall(r"\w+", words)} - {*_OPERATORS}, key=len, reverse=True)
    shown = printable(title)
    if not wanted:
        return escape(shown)
    pieces = re.split(f"({'|'.join(map(re.escape, wanted))})", shown, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if number % 2 else escape(piece)
        for number, piece in enumerate(pieces)
    )


def as_typed(words: str) -> str:
    """A query while it is typed: the last word finds everything that begins so."""
    text = words.strip()
    last = text.split()[-1] if text else ""
    if not text or text.count('"') % 2 or last in _OPERATORS or not _GOES_ON.search(text):
        return text
    return f"{text}*"

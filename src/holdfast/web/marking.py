"""What a search found, marked."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from holdfast.model.session import Hit
from holdfast.model.text import printable

#: A word that is being typed: it may go on.
_GOES_ON = re.compile(r"[^\W_]\Z")
_OPERATORS = ("AND", "OR", "NOT", "NEAR")


def marked(hit: Hit) -> Markup:
    """The place of a match with what matched marked, and no brackets but those of the text."""
    made, done = Markup(""), 0
    for start, end in hit.matches:
        made += _shown(hit.snippet[done : start - 1])
        made += Markup("<mark>{}</mark>").format(_shown(hit.snippet[start:end]))
        done = end + 1
    return made + _shown(hit.snippet[done:])


def _shown(text: str) -> str:
    return printable(re.sub(r"\s+", " ", text))


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

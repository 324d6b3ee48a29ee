"""Marks matches in a text and shows them: the snippet of a hit, with brackets."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from holdfast.model.session import Hit
from holdfast.stores.sessions import content, session_rows
from holdfast.stores.sessions.query import Every, Query, Term
from holdfast.stores.sessions.searchable_text import MATCH_ENDS, MATCH_STARTS, message_text
from holdfast.stores.sessions.tokenizer import SmallIndex, folded, folded_places
from holdfast.value import dataclass

_MOST_MARKS = 100
_LETTER = "[0-9A-Za-z]"
_WIDTH = 160
_LEAD = 50
#: The range examined first, as a multiple of the width.
_NEAR = 2
_BLANK = r"[\s\x00-\x1f\x7f-\x9f]+"

#: Returns a text with its matches marked; None if it does not match.
Mark = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A message that was found, with its session, as rows."""

    message: Sequence[Any]
    session: Sequence[Any]

    @property
    def text(self) -> str:
        return message_text(*self.message[3:])

    def hit(self, marked: str, score: float) -> Hit:
        shown, matches = bracketed(snippet(marked))
        return Hit(
            session=session_rows.session(self.session),
            message=content.decode(*self.message),
            snippet=shown,
            score=score,
            matches=matches,
        )


def match_places(text: str, needle: str) -> Iterator[tuple[int, int]]:
    """The start and end of each of the first matches."""
    haystack, places = folded(text), folded_places(text)
    start = haystack.find(needle)
    for _ in range(_MOST_MARKS):
        if start < 0:
            return
        yield places[start], places[start + len(needle) - 1] + 1
        start = haystack.find(needle, start + len(needle))


def marked_words(query: Query, texts: Mapping[int, str]) -> Mapping[int, str]:
    """Those of the texts that match, with the matches marked."""
    mark = plain_marks(query)
    found: dict[int, str] = {}
    others: dict[int, str] = {}
    for number, text in texts.items():
        if mark is None or not text.isascii():
            others[number] = text
        elif (shown := mark(text)) is not None:
            found[number] = shown
    if others:
        with contextlib.closing(SmallIndex()) as small:
            small.add(others.items())
            found |= small.marked(query.to_fts5())
    return found


def plain_marks(query: Query) -> Mark | None:
    """A function that marks pure ASCII texts, which nearly all are, without an index: in ASCII a
    word is any run of letters and digits, and the tokenizer folds only case. None if the query has
    phrases, exclusions or groups."""
    parts = (query,) if isinstance(query, Term) else query.parts
    words = [part for part in parts if isinstance(part, Term) and part.is_plain]
    if len(words) < len(parts) or (isinstance(query, Every) and query.without):
        return None
    needed = all if isinstance(query, Every) else any
    # The lookbehind comes last, and each word has a pattern of its own. So the regex engine jumps
    # from word to word; a single pattern for all words would stop at every character.
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
        # A set: two patterns may find the same word if one is a prefix of the other.
        return marked(text, sorted({place for each in places for place in each}))

    return mark


def marked(text: str, places: Iterable[tuple[int, int]]) -> str:
    """The text with the matches at these places marked."""
    pieces: list[str] = []
    done = 0
    for start, end in places:
        pieces += [text[done:start], MATCH_STARTS, text[start:end], MATCH_ENDS]
        done = end
    return "".join([*pieces, text[done:]])


def bracketed(line: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A line with `[` `]` around each marked match, and the start and end of each in that line: the
    text may have brackets of its own."""
    found = re.finditer(f"{MATCH_STARTS}[^{MATCH_STARTS}{MATCH_ENDS}]*{MATCH_ENDS}", line)
    places = tuple((each.start() + 1, each.end() - 1) for each in found)
    return line.replace(MATCH_STARTS, "[").replace(MATCH_ENDS, "]"), places


def snippet(text: str) -> str:
    """The passage with the most matches, on one line of about 160 characters, with their marks."""
    at = _densest(text)
    before, after = _line_before(text, at), _line_after(text, at)
    tail = _cut_end(after, _WIDTH - _LEAD if len(before) > _LEAD else _WIDTH - len(before))
    lead = _cut_start(before, _WIDTH - len(tail))
    shown = lead + tail
    if shown.rfind(MATCH_STARTS) > shown.rfind(MATCH_ENDS):
        shown += MATCH_ENDS
    if shown.find(MATCH_ENDS) < shown.find(MATCH_STARTS) or MATCH_STARTS not in shown:
        shown = shown.replace(MATCH_ENDS, "", 1)  # the end of a match that starts earlier
    ahead = "…" if lead != before or at > 4 * _WIDTH else ""
    behind = "…" if tail != after or at + 8 * _WIDTH < len(text) else ""
    return f"{ahead}{shown.strip()}{behind}"


def _densest(text: str) -> int:
    """The start of the passage that has the most matches one snippet can hold."""
    starts = []
    start = text.find(MATCH_STARTS)
    while start >= 0:
        starts.append(start)
        start = text.find(MATCH_STARTS, start + 1)
    best, most, last = 0, 0, 0
    for first, start in enumerate(starts):
        while last < len(starts) and starts[last] < start + _WIDTH - _LEAD:
            last += 1
        if last - first > most:
            best, most = start, last - first
    return best


def _line_before(text: str, at: int) -> str:
    """The text before a place, on one line. A short range is more than a snippet needs, unless it
    is mostly blank."""
    near = _one_line(text[max(0, at - _NEAR * _WIDTH) : at])
    return near if len(near) > _WIDTH else _one_line(text[max(0, at - 4 * _WIDTH) : at])


def _line_after(text: str, at: int) -> str:
    near = _one_line(text[at : at + _NEAR * _WIDTH])
    return near if len(near) > _WIDTH else _one_line(text[at : at + 8 * _WIDTH])


def _one_line(text: str) -> str:
    line = text.replace("\n", " ")
    unmarked = line.replace(MATCH_STARTS, "").replace(MATCH_ENDS, "")
    if "  " not in line and unmarked.isprintable():
        return line  # like most lines
    return re.sub(_BLANK, " ", text)


def _cut_start(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    text = text[len(text) - width :]
    space = text.find(" ", 0, 20)
    return text[space + 1 :]


def _cut_end(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    space = text.rfind(" ", width - 20, width)
    return text[: space if space > 0 else width]

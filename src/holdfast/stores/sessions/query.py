"""The syntax of search queries: words, "exact phrases", prefix*, OR, NOT or -word, ( ).

Everything else is text. Each word is passed to FTS5 as a quoted string, so FTS5's own syntax cannot
be used by accident: `foo_bar`, `a.b(c)` or `me@example.org` become phrases of their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from holdfast.errors import QueryError
from holdfast.stores.sessions.searchable_text import clean, is_searchable, spaced
from holdfast.value import dataclass

LONGEST_QUERY = 4_000
MOST_TERMS = 100
# FTS5's own parser gives up at about 30.
DEEPEST = 20

_OPERATORS = ("AND", "OR", "NOT")
_EXAMPLE = 'For example: timeout "connection refused" -cron'


def quoted(text: str) -> str:
    """Text as an FTS5 string, which matches the words in it, in order."""
    return '"' + spaced(clean(text)).replace('"', '""') + '"'


#: Quotes a word or a phrase for an index.
Quote = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A word or a phrase; with `prefix` its last word may continue."""

    text: str
    prefix: bool = False

    def to_fts5(self, quote: Quote = quoted) -> str:
        return quote(self.text) + ("*" if self.prefix else "")

    @property
    def is_plain(self) -> bool:
        """True if the text is certainly a single word for the index."""
        return self.text.isascii() and self.text.isalnum()

    def terms(self) -> Iterator[Term]:
        """The words and phrases to find, without excluded ones."""
        yield self

    def may_match(self, contains: Callable[[Term], bool]) -> bool:
        """False only if no text that contains just these terms can match."""
        return contains(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """All of `parts`, and none of `without`."""

    parts: tuple[Query, ...]
    without: tuple[Query, ...] = ()

    def to_fts5(self, quote: Quote = quoted) -> str:
        wanted = _joined(self.parts, " AND ", quote)
        return f"({wanted} NOT {_joined(self.without, ' OR ', quote)})" if self.without else wanted

    def terms(self) -> Iterator[Term]:
        for part in self.parts:
            yield from part.terms()

    def may_match(self, contains: Callable[[Term], bool]) -> bool:
        return all(part.may_match(contains) for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Either:
    """At least one of `parts`."""

    parts: tuple[Query, ...]

    def to_fts5(self, quote: Quote = quoted) -> str:
        return _joined(self.parts, " OR ", quote)

    def terms(self) -> Iterator[Term]:
        for part in self.parts:
            yield from part.terms()

    def may_match(self, contains: Callable[[Term], bool]) -> bool:
        return any(part.may_match(contains) for part in self.parts)


Query: TypeAlias = Term | Every | Either


def parse(text: str) -> Query:
    """Parse a query; errors are reported with their position."""
    if not text.strip():
        raise QueryError("The query is empty.", hint=_EXAMPLE)
    check_length(text)
    return _Parser(text).query()


def check_length(text: str) -> None:
    if len(text) > LONGEST_QUERY:
        raise QueryError(
            f"The query is {len(text):,} characters long; at most {LONGEST_QUERY:,} are allowed.",
            hint="Search for a few words of it.",
        )


def _joined(parts: tuple[Query, ...], operator: str, quote: Quote) -> str:
    if len(parts) == 1:
        return parts[0].to_fts5(quote)
    return "(" + operator.join(part.to_fts5(quote) for part in parts) + ")"


@dataclass(frozen=True, slots=True)
class _Symbol:
    """A term, or a sign: `(`, `)`, AND, OR, NOT. `-` is NOT. Places count from 1."""

    place: int
    sign: str = ""
    term: Term | None = None


class _Parser:
    """OR binds loosest, AND (written or not) closer, NOT closest."""

    def __init__(self, text: str) -> None:
        self._symbols = list(_symbols(text))
        self._next = 0
        self._depth = 0
        if sum(symbol.term is not None for symbol in self._symbols) > MOST_TERMS:
            raise QueryError(
                f"The query has more than {MOST_TERMS} words.",
                hint="Search for the rarest, or for a phrase in quotes.",
            )

    def query(self) -> Query:
        query = self._either()
        if (left := self._peek()) is not None:
            raise _closes_nothing(left.place)
        return query

    def _either(self) -> Query:
        parts = [self._every()]
        while self._take("OR"):
            parts.append(self._every())
        return parts[0] if len(parts) == 1 else Either(parts=tuple(parts))

    def _every(self) -> Query:
        first = self._peek()
        parts: list[Query] = []
        without: list[Query] = []
        while (symbol := self._peek()) is not None and symbol.sign not in ("OR", ")"):
            if parts or without:
                self._take("AND")
            excluded = self._take("NOT")
            (without if excluded else parts).append(self._primary())
        if first is None or not (parts or without):
            raise self._missing()
        if not parts:
            raise _refusal(
                "The query only excludes words", first.place, "Say what to find as well: a -b"
            )
        if len(parts) == 1 and not without:
            return parts[0]
        return Every(parts=tuple(parts), without=tuple(without))

    def _primary(self) -> Query:
        symbol = self._peek()
        if symbol is None or symbol.sign in (")", *_OPERATORS):
            raise self._missing()
        self._next += 1
        return symbol.term or self._group(symbol.place)

    def _group(self, opened: int) -> Query:
        self._depth += 1
        if self._depth > DEEPEST:
            raise _refusal("The parentheses are nested too deeply", opened, _EXAMPLE)
        query = self._either()
        if not self._take(")"):
            raise _refusal(
                "The parenthesis is never closed", opened, 'Like this: (a OR b) c; or as text: "(a"'
            )
        self._depth -= 1
        return query

    def _missing(self) -> QueryError:
        """The error when a term is missing at this position."""
        before = self._symbols[self._next - 1] if self._next else None
        here = self._peek()
        for symbol in (before, here):
            if symbol is not None and symbol.sign in _OPERATORS:
                where = "after it" if symbol.sign == "NOT" else "on both sides"
                return _refusal(
                    f"{symbol.sign} needs a term {where}",
                    symbol.place,
                    f"Like this: a {symbol.sign} b; the word itself: {symbol.sign.lower()}",
                )
        if before is not None:
            return _refusal("The parentheses are empty", before.place, "Like this: (a OR b) c")
        return _closes_nothing(here.place if here else 1)

    def _peek(self) -> _Symbol | None:
        return self._symbols[self._next] if self._next < len(self._symbols) else None

    def _take(self, sign: str) -> bool:
        symbol = self._peek()
        if symbol is None or symbol.sign != sign:
            return False
        self._next += 1
        return True


def _symbols(text: str) -> Iterator[_Symbol]:
    place = 0
    loose = 0  # parentheses opened inside words, as in `f(a, b)`: closing them is text too
    while place < len(text):
        start = text[place]
        if start.isspace():
            place += 1
        elif start == '"':
            symbol, place = _phrase(text, place)
            yield symbol
        elif start == "(" or (start == ")" and not loose):
            place += 1
            yield _Symbol(place, start)
        elif start == "-" and _excludes(text[place + 1 : place + 2]):
            place += 1
            yield _Symbol(place, "NOT")
        else:
            end, loose = _word_end(text, place, loose)
            yield _word(text[place:end], place + 1)
            place = end


def _excludes(following: str) -> bool:
    """`-word` excludes; `--option`, `->` and a dash between spaces are text."""
    return following not in ("", "-", ">") and not following.isspace()


def _phrase(text: str, start: int) -> tuple[_Symbol, int]:
    end = text.find('"', start + 1)
    if end < 0:
        raise _refusal("The quote is never closed", start + 1, 'Like this: "connection refused"')
    prefix = text[end + 1 : end + 2] == "*"
    symbol = _term(text[start + 1 : end], start + 1, prefix=prefix)
    return symbol, end + 2 if prefix else end + 1


def _word_end(text: str, start: int, loose: int) -> tuple[int, int]:
    for place in range(start, len(text)):
        character = text[place]
        if character.isspace() or (character == ")" and not loose):
            return place, loose
        loose += (character == "(") - (character == ")")
    return len(text), loose


def _word(text: str, place: int) -> _Symbol:
    if text in _OPERATORS:
        return _Symbol(place, text)
    # A star after punctuation is not a prefix search: `foo.*` is not `foo*`.
    prefix = text.endswith("*") and is_searchable(text[-2:-1])
    return _term(text[:-1] if prefix else text, place, prefix=prefix)


def _term(text: str, place: int, *, prefix: bool) -> _Symbol:
    if not is_searchable(clean(text)):
        raise _refusal(
            f"There is nothing to search for in {text!r}: no letter, digit or emoji",
            place,
            'Put it in quotes with its words: "a -> b"; or use --part',
        )
    return _Symbol(place, term=Term(text=text, prefix=prefix))


def _closes_nothing(place: int) -> QueryError:
    return _refusal(
        "The parenthesis closes nothing", place, 'Like this: (a OR b) c; or as text: "a)"'
    )


def _refusal(problem: str, place: int, hint: str) -> QueryError:
    return QueryError(f"{problem} (at character {place}).", hint=hint)

"""The lines of a stream, and the JSON in each of them, read with bounded memory.

A line of ordinary length is in memory. A longer one is in a temporary file without a name, because
it is read twice, once to check it and once to store it, and a pipe can be read only once.

The parser of the standard library needs a whole document. A line may hold a million messages, so
`LineText` walks the outer object and the list of messages itself and gives each value to that
parser. Event parsers such as ijson do the same at a tenth of the speed, and they cannot carry lone
surrogates, which must come back unchanged.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from tempfile import TemporaryFile
from typing import IO, NoReturn, Protocol, cast

from holdfast.errors import UsageError
from holdfast.model.session import Json
from holdfast.model.text import format_bytes
from holdfast.value import dataclass


class LineError(UsageError):
    """A line that does not hold a session. The message says why; the caller knows the number."""

    kind = "line"


#: Well below Python's recursion limit, where a value could be read but not written again.
DEEPEST = 200
_PIECE = 1024 * 1024
_space = re.compile(r"[ \t\r\n]*").match


class LineText:
    """A position in the text of one line. Reading moves it forward."""

    def __init__(self, beginning: bytes, more: Callable[[int], bytes] | None = None) -> None:
        """`more(n)` reads up to `n` further bytes, and returns none at the end of the line."""
        self._more = more
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text = ""
        self._at = 0
        self._passed = 0
        self._add(beginning)

    def keys(self) -> Iterator[str]:
        """The keys of the object at this position. The caller reads the value after each key."""
        if self.next() != "{":
            self._not_an_object()
        self._take("{")
        if self._took("}"):
            return
        while True:
            if self.next() != '"':
                self._bad("expected a key in quotes")
            key = cast("str", self.value())
            self._take(":")
            yield key
            if self._took("}"):
                return
            self._take(",")

    def items(self) -> Iterator[Json]:
        """The items of the list at this position, one at a time."""
        self._take("[")
        if self._took("]"):
            return
        while True:
            yield self.value()
            if self._took("]"):
                return
            self._take(",")

    def value(self) -> Json:
        """The whole value at this position."""
        self.next()
        while True:
            try:
                value, end = _parse(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._more is None:
                    self._bad(_reason(error), at=error.pos)
            else:
                # A number at the end of the text may continue in the next piece: 1, 1.5, 1.5e3.
                follows = self._text[end : end + 1]
                if self._more is None or (follows and follows not in ".eE"):
                    self._check_depth(value, end)
                    self._at = end
                    return value
            self._read_on()

    def next(self) -> str:
        """The next character that is not a space, without consuming it; empty at the end of the
        line."""
        while True:
            if self._at < len(self._text) and self._text[self._at] > " ":  # nearly always
                return self._text[self._at]
            self._at = cast("re.Match[str]", _space(self._text, self._at)).end()
            if self._at < len(self._text):
                return self._text[self._at]
            if self._more is None:
                return ""
            self._read_on()

    def finish(self) -> None:
        if self.next():
            self._bad("there is more text after the session")

    def _take(self, wanted: str) -> None:
        if not self._took(wanted):
            self._bad(f"expected `{wanted}`" if self.next() else "the line ends too early")

    def _took(self, wanted: str) -> bool:
        if self.next() != wanted:
            return False
        self._at += 1
        return True

    def _read_on(self) -> None:
        """Read at least as much as is still unparsed, so that a long value is not parsed again for
        every piece."""
        unread = len(self._text) - self._at
        self._add(self._more(max(_PIECE, unread)) if self._more else b"")

    def _add(self, piece: bytes) -> None:
        if not piece:
            self._more = None
        try:
            text = self._decode(piece, final=self._more is None)
        except UnicodeDecodeError as error:
            raise LineError(f"not UTF-8: {error.reason}") from None
        self._passed += self._at
        self._text = self._text[self._at :] + text
        self._at = 0

    def _check_depth(self, value: Json, end: int) -> None:
        opened = self._text.count("[", self._at, end) + self._text.count("{", self._at, end)
        if opened > DEEPEST and _depth(value) > DEEPEST:
            raise LineError(f"a value is nested more than {DEEPEST} deep")

    def _not_an_object(self) -> NoReturn:
        if self.next() != "[" and self._more is None:
            self.value()
            self.finish()
        raise LineError("not a session: a line must hold one JSON object")

    def _bad(self, what: str, *, at: int | None = None) -> NoReturn:
        place = self._passed + (self._at if at is None else at) + 1
        raise LineError(f"not JSON: {what} at character {place}")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise LineError("a number is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise LineError(f"not JSON: {name} is not a number")


_scan = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant).raw_decode


def _parse(text: str, at: int) -> tuple[Json, int]:
    try:
        return cast("tuple[Json, int]", _scan(text, at))
    except RecursionError:
        raise LineError(f"a value is nested more than {DEEPEST} deep") from None
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python refuses to read an integer of more than 4,300 digits
        raise LineError("a number is too large") from None


def _depth(value: Json) -> int:
    """How deep lists and objects are nested. Not recursive, because it guards against recursion."""
    depth, level = 0, [value]
    while level:
        inner: list[Json] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        depth, level = depth + 1, inner
    return depth - 1


def _reason(error: json.JSONDecodeError) -> str:
    """The parser's message, to be put into a sentence that continues with the position."""
    return error.msg[:1].lower() + error.msg[1:].removesuffix(" at")


#: Lines up to this length stay in memory, with their messages.
SHORT = 4 * 1024 * 1024
#: Longer lines are refused: a session is one transaction, and other writers wait for it.
LONGEST = 256 * 1024 * 1024
_MARK = b"\xef\xbb\xbf"  # a byte order mark, which some editors write


class ByteLines(Protocol):
    """A binary file, opened for reading."""

    def readline(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RawLine:
    """One line. A long line is valid until the next one is read.

    A line that was made from an agent's file has the id of its session, and `notes` about what is
    missing in that file. `problem` is why there is no text.
    """

    number: int
    size: int
    beginning: bytes
    rest: IO[bytes] | None = None
    session: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def is_blank(self) -> bool:
        return self.rest is None and not self.beginning.strip()

    @property
    def is_short(self) -> bool:
        return self.rest is None

    def text(self) -> LineText:
        """The text of the line, from the start on each call."""
        if self.problem:
            raise LineError(self.problem)
        if self.size > LONGEST:
            raise LineError(f"longer than {format_bytes(LONGEST)}")
        if self.rest is None:
            return LineText(self.beginning)
        self.rest.seek(0)
        return LineText(self.beginning, self.rest.read)


def raw_lines(stream: ByteLines) -> Iterator[RawLine]:
    with ExitStack() as stack:
        spool: IO[bytes] | None = None  # few lines need one
        for number in count(1):
            beginning = stream.readline(SHORT)
            if not beginning:
                return
            size, rest = len(beginning), None
            if size == SHORT and not beginning.endswith(b"\n"):
                spool = spool or stack.enter_context(TemporaryFile())
                size, rest = size + _spool(stream, spool, LONGEST - size), spool
            if number == 1:
                beginning = beginning.removeprefix(_MARK)
            # Without the line feed, so that a truncated text is reported as ending too early.
            beginning = beginning.removesuffix(b"\n")
            yield RawLine(number=number, size=size, beginning=beginning, rest=rest)


def _spool(stream: ByteLines, spool: IO[bytes], most: int) -> int:
    """Copy the rest of a line. Bytes beyond `most` are counted but not stored."""
    spool.seek(0)
    spool.truncate()
    size = 0
    while piece := stream.readline(SHORT):
        size += len(piece)
        if size <= most:
            spool.write(piece.removesuffix(b"\n"))
        if piece.endswith(b"\n"):
            break
    return size

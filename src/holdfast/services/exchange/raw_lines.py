"""The lines of a stream: those of ordinary length in memory, longer ones in a temporary file.

A long line is read twice, once to check it whole and once to store it, and a pipe cannot be read
twice. The file has no name and is private, like every transcript.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from tempfile import TemporaryFile
from typing import IO, Protocol

from holdfast.model.units import format_bytes
from holdfast.services.exchange.line_error import LineError
from holdfast.services.exchange.line_text import LineText

#: Lines up to this are held in memory, with their messages.
SHORT = 4 * 1024 * 1024
#: Longer lines are refused: one session is one transaction, and other writers wait for it.
LONGEST = 256 * 1024 * 1024
_MARK = b"\xef\xbb\xbf"  # some editors begin a file with it


class ByteLines(Protocol):
    """A binary file, opened for reading."""

    def readline(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RawLine:
    """One line. A long one is valid until the next is asked for."""

    number: int
    size: int
    beginning: bytes
    rest: IO[bytes] | None = None

    @property
    def is_blank(self) -> bool:
        return self.rest is None and not self.beginning.strip()

    @property
    def is_short(self) -> bool:
        return self.rest is None

    def text(self) -> LineText:
        """Its text from the beginning, each time anew."""
        if self.size > LONGEST:
            raise LineError(f"longer than {format_bytes(LONGEST)}")
        if self.rest is None:
            return LineText(self.beginning)
        self.rest.seek(0)
        return LineText(self.beginning, self.rest.read)


def raw_lines(stream: ByteLines) -> Iterator[RawLine]:
    with TemporaryFile() as spool:
        for number in count(1):
            beginning = stream.readline(SHORT)
            if not beginning:
                return
            size, rest = len(beginning), None
            if size == SHORT and not beginning.endswith(b"\n"):
                size, rest = size + _spool(stream, spool, LONGEST - size), spool
            if number == 1:
                beginning = beginning.removeprefix(_MARK)
            # Its end is no part of a line: a text that is cut off there ends too early.
            beginning = beginning.removesuffix(b"\n")
            yield RawLine(number=number, size=size, beginning=beginning, rest=rest)


def _spool(stream: ByteLines, spool: IO[bytes], most: int) -> int:
    """Copy the rest of a line; what is beyond `most` is counted and dropped."""
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

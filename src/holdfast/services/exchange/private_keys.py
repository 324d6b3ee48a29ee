"""Finds private keys in texts: whole blocks, truncated blocks, and the rest of a block in a later
text.

A block is a BEGIN line, lines of base64 and an END line. Tools number the lines, quote them, or
leave some out in the middle, and a terminal shows a key in several pieces. So a block with both
ends is redacted whole, whatever decorates its lines. If only one end is there, the base64 lines
next to it are redacted; and after a block without an END line, such lines in later texts of the
same session are redacted too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.value import dataclass

_END = re.compile(r"-----(?P<side>BEGIN|END) (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
#: A run of base64, which a key has, but prose that merely quotes the BEGIN line does not.
_RUN = re.compile(r"[A-Za-z0-9+/]{32}")
_LONG_RUN = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
#: A body on the same line as BEGIN, with its line breaks escaped or lost.
_PLAIN = re.compile(r"[A-Za-z0-9+/= \t\\:,.()-]*")
_LINE = re.compile(r"(?P<line>.*?)(?:\r?\n|\\r\\n|\\n|\Z)", re.DOTALL)
#: One line of a body, which may be numbered, quoted, indented or marked as added.
_START = r"[\s>|+\-*\"'`]{0,12}(?:\d{1,6}[\s:|→.\-]{1,4})?"
_STOP = r"[\s\"'`,;+)\\]{0,8}"
_BODY = re.compile(
    rf"{_START}(?:[A-Za-z0-9+/]{{16,}}+={{0,2}}|[A-Za-z0-9+/]{{1,15}}={{1,2}}|=[A-Za-z0-9+/]{{4}}){_STOP}"
)
_LAST = re.compile(rf"{_START}[A-Za-z0-9+/]{{1,15}}{_STOP}")
_BESIDE = re.compile(
    rf"{_START}(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):.{{0,100}})?\s*"
)
#: A tool's marker for lines that it leaves out.
_CUT = re.compile(
    r".{0,40}(?:…|\.\.\.|truncated|omitted|snip|skipped|hidden|more lines).{0,40}", re.IGNORECASE
)
_HEX = re.compile(r"[0-9A-Fa-f]+=*")
#: A longer line is from an image or a file, not from a key.
_WIDEST = 120
#: More characters than any key has: BEGIN and END further apart are not one block.
_MOST = 64_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpans:
    """The positions of keys in a text. `open`: the last one may continue in a later text."""

    spans: tuple[tuple[int, int], ...]
    open: bool


def key_spans(text: str, *, open_before: bool = False) -> KeySpans:
    """Find keys in a text. `open_before`: an earlier text ended inside a key."""
    ends = list(_END.finditer(text))
    found: list[tuple[int, int]] = []
    if open_before:
        found += _pieces(text, 0, ends[0].start() if ends else len(text))
    still_open = open_before
    number = 0
    while number < len(ends):
        here = ends[number]
        after = ends[number + 1] if number + 1 < len(ends) else None
        limit = len(text) if after is None else after.start()
        number += 1
        if here["side"] == "END":
            floor = max(found[-1][1] if found else 0, ends[number - 2].end() if number > 1 else 0)
            start = _trailing(text, floor, here.start())
            goes_on = bool(found) and not text[found[-1][1] : start].strip()
            if goes_on or _RUN.search(text, start, here.start()):
                found.append((found[-1][1] if goes_on else start, here.end()))
            still_open = False
        elif after is not None and after["side"] == "END" and limit - here.end() <= _MOST:
            if _RUN.search(text, here.end(), limit):
                found.append((here.start(), after.end()))
                number += 1
        else:
            stop = _leading(text, here.end(), limit)
            if _RUN.search(text, here.end(), stop):
                found.append((here.start(), stop))
                still_open = True
    return KeySpans(spans=tuple(_joined(found)), open=still_open)


def _lines(text: str, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """Yield each line with its position; line breaks may be escaped."""
    at = start
    while at < stop:
        match = _LINE.match(text, at, stop)
        if match is None or match.end() == at:
            return
        yield at, match.end("line"), match["line"]
        at = match.end()


def _leading(text: str, start: int, limit: int) -> int:
    """The end of the body that begins at `start`."""
    match = _PLAIN.match(text, start, limit)
    stop = start if match is None or not _RUN.search(match[0]) else match.end()
    at = max(text.rfind("\n", start, stop) + 1, start)
    for _, end, line in _lines(text, at, limit):
        if _BODY.fullmatch(line):
            stop = max(stop, end)
        elif end > stop and not _BESIDE.fullmatch(line) and not _CUT.fullmatch(line):
            break
    return stop


def _trailing(text: str, floor: int, limit: int) -> int:
    """The start of the body that ends at `limit`."""
    start = limit
    for at, end, line in reversed([*_lines(text, max(floor, limit - _MOST), limit)]):
        if _BODY.fullmatch(line) or (start == limit and _LAST.fullmatch(line)):
            start = at
        elif not _BESIDE.fullmatch(line) and not (_CUT.fullmatch(line) and end < limit):
            break
    return start


def _pieces(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield runs of lines that must be the rest of a truncated key: base64, and one long line that
    is not a hex digest."""
    first, last, sure = -1, -1, False
    for at, end, line in _lines(text, start, stop):
        if len(line) <= _WIDEST and _BODY.fullmatch(line):
            first = at if first < 0 else first
            last = end
            run = _LONG_RUN.search(line)
            sure = sure or (run is not None and not _HEX.fullmatch(run[0]))
            continue
        if sure:
            yield first, last
        first, last, sure = -1, -1, False
    if sure:
        yield first, last


def _joined(found: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sort the spans, and merge those that overlap."""
    before: tuple[int, int] | None = None
    for start, stop in sorted(found):
        if before is not None and start <= before[1]:
            before = before[0], max(before[1], stop)
            continue
        if before is not None:
            yield before
        before = start, stop
    if before is not None:
        yield before

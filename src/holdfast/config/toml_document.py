"""Reads a configuration file as a TOML document with the line of each key, or reports the problem
with it.

tomllib returns values without positions. `key_lines` reads only the skeleton of a text that is
known to be valid: headers, keys, and where each value ends. It stops at anything it does not
understand, so that a key has its correct line or none.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.config.kinds import dotted
from holdfast.model.text import one_line
from holdfast.value import dataclass, field

LARGEST = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_TOML_PLACE = re.compile(
    r"(?P<what>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)", re.DOTALL
)
_DECLARED_TWICE = re.compile(r"Cannot declare \((.*)\) twice")
_KEY_IN_TUPLE = re.compile(r"'([^']*)'")
_LONGEST_REASON = 100

# Between statements: blank lines, spaces and comments.
_GAP = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_KEY_PART = re.compile(
    r"""[ \t]*(?:(?P<bare>[A-Za-z0-9_-]+)|(?P<quoted>"(?:\\.|[^"\\\n])*"|'[^'\n]*'))[ \t]*"""
)
# A value is a sequence of these; it ends at the first newline outside brackets. Order matters:
# three quotes are tried before one, and a multi-line string may end in up to two quotes of its own.
_VALUE_PART = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|(?P<open>[\[{])|(?P<close>[\]}])|(?P<newline>\n)"
    r"|[^\"'\#\[\]{}\n]+",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong, and where. Without a path it concerns the file as a whole."""

    where: str
    what: str
    path: tuple[str, ...] = ()
    line: int | None = None

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        return ": ".join(part for part in (place, dotted(self.path), self.what) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's text and its parsed content. A missing file is an empty document."""

    text: str = ""
    tables: Mapping[str, object] = field(default_factory=dict)


class UnreadableError(Exception):
    """The file could not be read as a document."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def read_document(path: Path, where: str) -> Document:
    """The document in `path`. `where` names it in the problem of an UnreadableError."""
    try:
        data = _read(path, where)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL or a stray surrogate
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _unreadable(where, f"cannot be read: {_brief(str(reason))}") from error
    if data is None:
        return Document()
    if len(data) > LARGEST:
        raise _unreadable(where, "is larger than 1 MiB, too large for a configuration file")
    return document_of(_decode(data, where), where)


def _read(path: Path, where: str) -> bytes | None:
    """The content, at most one byte more than allowed; None if there is no file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        # A dangling symlink is a configuration that exists but cannot be read: running with the
        # defaults could remove what it says to keep.
        if path.is_symlink():
            raise _unreadable(where, "is a symbolic link to nothing") from None
        return None
    if stat.S_ISDIR(mode):
        raise _unreadable(where, "is a directory; the configuration must be a file")
    if not stat.S_ISREG(mode):  # opening a fifo would wait for a writer
        raise _unreadable(where, "is not a regular file")
    # Non-blocking: a pipe may have replaced the file since.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        return file.read(LARGEST + 1)


def _decode(data: bytes, where: str) -> str:
    if data.startswith(_BOM):
        raise _unreadable(
            where, "begins with a byte order mark (BOM); save it as UTF-8 without one", line=1
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _unreadable(
            where,
            f"is not UTF-8 text (byte 0x{data[error.start]:02x}); save it as UTF-8",
            line=data.count(b"\n", 0, error.start) + 1,
        ) from error


def parse(text: str) -> Mapping[str, object]:
    """The parsed content of a text; raises `ValueError` if it is not valid."""
    import tomllib  # noqa: PLC0415 - only needed if there is a file to read

    return tomllib.loads(text)


def document_of(text: str, where: str) -> Document:
    """The document for a text."""
    try:
        return Document(text=text, tables=parse(text))
    except RecursionError as error:
        raise _unreadable(where, "not valid TOML: nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, or int() refusing thousands of digits
        place = _TOML_PLACE.fullmatch(str(error))
        if place is None:
            raise _unreadable(where, f"not valid TOML: {_brief(str(error))}") from error
        reason = f"not valid TOML: {_brief(_plain(place['what']))} (column {place['column']})"
        raise _unreadable(where, reason, line=int(place["line"])) from error


def _plain(reason: str) -> str:
    """`[a.b] is declared twice`, where Python shows the key as a tuple."""
    twice = _DECLARED_TWICE.fullmatch(reason)
    if twice is None:
        return reason
    return f"[{'.'.join(_KEY_IN_TUPLE.findall(twice[1]))}] is declared twice"


def _brief(reason: str) -> str:
    safe = one_line(reason)
    return safe if len(safe) <= _LONGEST_REASON else safe[: _LONGEST_REASON - 3] + "..."


def _unreadable(where: str, what: str, line: int | None = None) -> UnreadableError:
    return UnreadableError(Problem(where=where, what=what, line=line))


@dataclass(frozen=True, slots=True)
class Lines:
    """`assigned`: keys with a value of their own. `mentioned`: tables, where first named."""

    assigned: dict[tuple[str, ...], int] = field(default_factory=dict)
    mentioned: dict[tuple[str, ...], int] = field(default_factory=dict)

    def of(self, path: tuple[str, ...]) -> int | None:
        """The line of `path`; inside an inline table, the line where that table begins."""
        for length in range(len(path), 0, -1):
            line = self.assigned.get(path[:length])
            if line is not None:
                return line
        return self.mentioned.get(path)


class _LostError(Exception):
    """The text is not what this scanner expects."""


def key_lines(text: str) -> Lines:
    """Every key and table of `text` with its line, counted from 1."""
    text = text.replace("\r\n", "\n")  # as tomllib does, so that both count alike
    lines = Lines()
    line, counted = 1, 0
    for each in statements(text):
        line, counted = line + text.count("\n", counted, each.start), each.start
        if each.is_header:
            _mention(lines, each.path, line)
        else:
            _mention(lines, each.path[:-1], line)
            lines.assigned.setdefault(each.path, line)
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A header, or a key with its value, by their positions in the text. `table` is the table it is
    in. `end` is the end of its last line."""

    is_header: bool
    path: tuple[str, ...]
    table: tuple[str, ...]
    start: int
    value_start: int
    value_end: int
    end: int


def statements(text: str) -> Iterator[Statement]:
    """The statements of a valid text with plain line ends, as far as this scanner understands
    it."""
    table: tuple[str, ...] = ()
    at = _skip(_GAP, text, 0)
    while at < len(text):
        start = at
        try:
            if is_header := text[at] == "[":
                path, at = _header(text, at)
                table = path
            else:
                key, at = _key(text, at, "=")
                path = (*table, *key)
            begin = _skip(_BLANK, text, at)
            end = _value_end(text, at)
            value_end = begin if is_header else _before_comment(text, begin, end)
        except _LostError:
            return
        yield Statement(
            is_header=is_header,
            path=path,
            table=table,
            start=start,
            value_start=begin,
            value_end=value_end,
            end=end,
        )
        at = _skip(_GAP, text, end)


def _before_comment(text: str, begin: int, end: int) -> int:
    """The end of a value whose last line ends at `end`: before a comment and the space preceding
    it."""
    depth, at, last = 0, begin, begin
    while at < end and (match := _VALUE_PART.match(text, at)):
        if depth == 0 and match[0].startswith("#"):
            break
        depth += bool(match["open"]) - bool(match["close"])
        at = last = match.end()
    return begin + len(text[begin:last].rstrip())


def key_path(text: str) -> tuple[str, ...] | None:
    """The parts of a dotted key that a person typed; None if it is not a key."""
    try:
        path, at = _key(f"{text}=", 0, "=")
    except _LostError:
        return None
    return path if at == len(text) + 1 else None


def _mention(lines: Lines, path: tuple[str, ...], line: int) -> None:
    for length in range(len(path), 0, -1):
        if path[:length] in lines.mentioned:
            break  # so are all shorter ones
        lines.mentioned[path[:length]] = line


def _skip(blank: re.Pattern[str], text: str, at: int) -> int:
    match = blank.match(text, at)
    return match.end() if match else at


def _header(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """The table that `[a.b]` or `[[a.b]]` opens, and the position after it."""
    brackets = 2 if text.startswith("[[", at) else 1
    table, at = _key(text, at + brackets, "]")
    return table, at + brackets - 1


def _key(text: str, at: int, end: str) -> tuple[tuple[str, ...], int]:
    """The parts of a dotted key, and the position after the `end` that follows it."""
    parts: list[str] = []
    while match := _KEY_PART.match(text, at):
        parts.append(match["bare"] or _unquote(match["quoted"]))
        at = match.end()
        if text.startswith(end, at):
            return tuple(parts), at + 1
        if not text.startswith(".", at):
            break
        at += 1
    raise _LostError


def _unquote(quoted: str) -> str:
    import tomllib  # noqa: PLC0415 - only needed if there is a file to read

    try:
        return str(tomllib.loads(f"key = {quoted}")["key"])
    except tomllib.TOMLDecodeError:
        raise _LostError from None


def _value_end(text: str, at: int) -> int:
    """The end of the line on which the value that begins at `at` ends."""
    depth = 0
    while match := _VALUE_PART.match(text, at):
        if match["newline"] and depth == 0:
            return at
        depth += bool(match["open"]) - bool(match["close"])
        at = match.end()
    if at < len(text) or depth != 0:
        raise _LostError
    return at

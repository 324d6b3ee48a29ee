"""The line of each key in a TOML text that is known to be valid.

tomllib gives values without places. This reads only the skeleton of the text: headers, keys, and
where each value ends. Where it meets something it does not understand it stops, so that a key has
its true line or none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# Between statements: blank lines, spaces and comments.
_GAP = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_KEY_PART = re.compile(
    r"""[ \t]*(?:(?P<bare>[A-Za-z0-9_-]+)|(?P<quoted>"(?:\\.|[^"\\\n])*"|'[^'\n]*'))[ \t]*"""
)
# A value is a run of these; it ends at the first newline outside brackets. Order matters: three
# quotes are tried before one, and a multi-line string may end in up to two quotes of its own.
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
    """The text is not what this scanner takes it for."""


def key_lines(text: str) -> Lines:
    """Every key and table of `text` with its line, counted from 1."""
    text = text.replace("\r\n", "\n")  # as tomllib does, so that both count alike
    lines = Lines()
    table: tuple[str, ...] = ()
    line, counted = 1, 0
    at = _skip_gap(text, 0)
    while at < len(text):
        line, counted = line + text.count("\n", counted, at), at
        try:
            if text[at] == "[":
                table, at = _header(text, at)
                _mention(lines, table, line)
            else:
                key, at = _key(text, at, "=")
                _mention(lines, (*table, *key[:-1]), line)
                lines.assigned.setdefault((*table, *key), line)
            at = _skip_gap(text, _value_end(text, at))
        except _LostError:
            break
    return lines


def _mention(lines: Lines, path: tuple[str, ...], line: int) -> None:
    for length in range(len(path), 0, -1):
        if path[:length] in lines.mentioned:
            break  # so are all the shorter ones
        lines.mentioned[path[:length]] = line


def _skip_gap(text: str, at: int) -> int:
    match = _GAP.match(text, at)
    return match.end() if match else at


def _header(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """The table that `[a.b]` or `[[a.b]]` opens, and the place after it."""
    brackets = 2 if text.startswith("[[", at) else 1
    table, at = _key(text, at + brackets, "]")
    return table, at + brackets - 1


def _key(text: str, at: int, end: str) -> tuple[tuple[str, ...], int]:
    """The parts of a dotted key, and the place after the `end` that follows it."""
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
    import tomllib  # noqa: PLC0415 - its cost belongs to whoever has a file to read

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

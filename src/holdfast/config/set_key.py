"""Changes one key in the text of a config.toml. The rest of the file stays the same, byte for byte.

A key that is set gets its new value where it is. A key that is not set is added after the comment
that shows its default, if the file has that, or at the end of its table. The result is parsed
again: it must differ from the old document in this key and in nothing else, or the change is
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from holdfast.config.toml_document import Statement, parse, statements
from holdfast.errors import UsageError
from holdfast.value import dataclass

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _Edit:
    """Replace what is between two positions of a text."""

    start: int
    end: int
    text: str


def with_value(text: str, path: Sequence[str], value: object) -> str:
    """The text with another value for a key. Raises `UsageError` if a person has to do that: the
    key is inside an inline table, or the table is written in a way that this module does not
    support."""
    wanted, plain = tuple(path), text.replace("\r\n", "\n")
    edit = _edit(plain, wanted, toml(value))
    changed = _as_before(text, plain, edit)
    if _parsed(changed) != _set(parse(text), wanted, value):
        raise UsageError(
            f"{toml_key(wanted)} cannot be changed without changing more of the file.",
            hint="Change it yourself: holdfast config edit",
        )
    return changed


def toml(value: object) -> str:
    """A value in TOML syntax: numbers, plain text and lists look the same as in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(path: Sequence[str]) -> str:
    """A key in TOML syntax, with quotes where needed."""
    return ".".join(part if _BARE.fullmatch(part) else toml(part) for part in path)


def _edit(text: str, path: tuple[str, ...], value: str) -> _Edit:
    *within, name = path
    table, found = tuple(within), list(statements(text))
    for each in found:
        if not each.is_header and each.path == path:
            return _Edit(each.value_start, each.value_end, value)
        if not each.is_header and path[: len(each.path)] == each.path:
            raise UsageError(
                f"{toml_key(each.path)} is an inline table in the file.",
                hint="Change it yourself: holdfast config edit",
            )
    headers = [each for each in found if each.is_header]
    mine = [each for each in headers if each.path == table]
    if mine or not table:
        start = mine[0].end if mine else 0
        end = next((each.start for each in headers if each.start >= start), len(text))
        return _in_section(text, found, start, end, f"{toml_key([name])} = {value}")
    # The table may be written as dotted keys of another one; then it must not get a header. Keys
    # below the header of a table inside it, such as [sessions.source.cron], do not count.
    dotted = [
        each
        for each in found
        if not each.is_header and len(each.table) < len(table) and each.path[: len(table)] == table
    ]
    if dotted:
        last = dotted[-1]
        line = f"{toml_key(path[len(last.table) :])} = {value}"
        return _Edit(last.end, last.end, f"\n{line}")
    before = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
    return _Edit(
        len(text), len(text), f"{before}[{toml_key(table)}]\n{toml_key([name])} = {value}\n"
    )


def _in_section(text: str, found: Sequence[Statement], start: int, end: int, line: str) -> _Edit:
    """The position of a new key between two headers."""
    name = re.escape(line.partition(" = ")[0])
    shown = re.compile(rf"^#[ \t]*{name}[ \t]*=[^\n]*$", re.MULTILINE).search(text, start, end)
    if shown:
        return _Edit(shown.end(), shown.end(), f"\n{line}")
    inside = [each for each in found if not each.is_header and start <= each.start < end]
    if inside:
        return _Edit(inside[-1].end, inside[-1].end, f"\n{line}")
    if start:  # after its header
        return _Edit(start, start, f"\n{line}")
    if end == len(text):
        before = "" if not text or text.endswith("\n") else "\n"
        return _Edit(end, end, f"{before}{line}\n")
    above = _comment_above(text, end)
    return _Edit(above, above, f"{line}\n\n")


def _comment_above(text: str, place: int) -> int:
    """The start of the comment lines directly above a position."""
    while place:
        start = text.rfind("\n", 0, place - 1) + 1
        if not text.startswith("#", start):
            break
        place = start
    return place


def _as_before(text: str, plain: str, edit: _Edit) -> str:
    """The same edit of a text with plain line ends, applied to the text with its original line
    ends."""
    returns = [line.endswith("\r") for line in text.split("\n")[:-1]]

    def place(at: int) -> int:
        return at + sum(returns[: plain.count("\n", 0, at)])

    new = edit.text
    if returns and sum(returns) * 2 > len(returns):
        new = new.replace("\n", "\r\n")
    return text[: place(edit.start)] + new + text[place(edit.end) :]


def _parsed(text: str) -> Mapping[str, object] | None:
    try:
        return parse(text)
    except ValueError:
        return None


def _set(table: Mapping[str, object], path: tuple[str, ...], value: object) -> dict[str, object]:
    name, *rest = path
    if not rest:
        return {**table, name: value}
    inner = table.get(name, {})
    return {**table, name: _set(inner if isinstance(inner, dict) else {}, tuple(rest), value)}

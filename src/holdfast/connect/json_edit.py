"""Add entries to a hand-written JSON file and remove them again. Everything else stays byte for
byte, including comments, order and whitespace.

Comments and trailing commas are accepted, because Claude Code and Gemini CLI accept them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence

from holdfast.errors import UsageError
from holdfast.model.session import Json
from holdfast.value import dataclass, field

_GAP = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_WORD = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
#: Real settings are never nested this deeply, and the parser recurses: Python's stack is limited.
_DEEPEST = 100
_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A value and its position, `start` to `end`, in the text. A member is a key (empty in a list),
    the position where the member begins, and its value."""

    kind: str
    start: int
    end: int
    members: Sequence[tuple[str, int, Node]] = field(default_factory=tuple)

    def get(self, name: str | int) -> Node | None:
        """The member with this name, or with this index in a list."""
        if isinstance(name, int):
            return self.members[name][2]
        found = [node for key, _, node in self.members if key == name]
        if len(found) > 1:
            raise UsageError(
                f"The key {name!r} appears twice, and agents differ in which one they use."
            )
        return found[0] if found else None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def fail(self) -> UsageError:
        line = self.text.count("\n", 0, self.at) + 1
        return UsageError(f"Line {line} is not valid JSON.")

    def gap(self) -> None:
        found = _GAP.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def take(self, word: str) -> bool:
        self.gap()
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True

    def matched(self, pattern: re.Pattern[str]) -> str:
        self.gap()
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.fail()
        self.at = found.end()
        return found[0]

    def value(self) -> Node:
        self.gap()
        start = self.at
        if self.take("{"):
            return self._members("object", start, "}")
        if self.take("["):
            return self._members("array", start, "]")
        is_text = self.text.startswith('"', self.at)
        self.matched(_STRING if is_text else _WORD)
        return Node(kind="string" if is_text else "word", start=start, end=self.at)

    def _members(self, kind: str, start: int, closing: str) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UsageError(f"It is nested more than {_DEEPEST} levels deep.")
        found: list[tuple[str, int, Node]] = []
        while not self.take(closing):
            if found and not self.take(","):
                raise self.fail()
            if found and self.take(closing):  # a trailing comma
                break
            self.gap()
            at, key = self.at, ""
            if kind == "object":
                key = json.loads(self.matched(_STRING))
                if not self.take(":"):
                    raise self.fail()
            found.append((key, at, self.value()))
        self.depth -= 1
        return Node(kind=kind, start=start, end=self.at, members=tuple(found))


def parse(text: str) -> Node:
    """Parse a text. Raises `UsageError` if it is not JSON."""
    reader = _Reader(text)
    found = reader.value()
    reader.gap()
    if reader.at != len(text):
        raise reader.fail()
    return found


def value_of(text: str, node: Node) -> Json:
    """The value of a node, without comments."""
    match node.kind:
        case "object":
            return {key: value_of(text, each) for key, _, each in node.members}
        case "array":
            return [value_of(text, each) for _, _, each in node.members]
        case _:
            try:
                said: Json = json.loads(text[node.start : node.end])
            except ValueError:  # Python refuses numbers with thousands of digits
                raise UsageError("It contains a number with too many digits.") from None
            return said


def add(text: str, path: Sequence[str], entry: Json) -> str:
    """Return the text with `entry` added to the list at a path. Missing objects and the list are
    created."""
    root = parse(text)
    if root.kind != "object":
        raise UsageError("It is not a JSON object.")
    node, names = root, list(path)
    while names and (inner := node.get(names[0])) is not None:
        if inner.kind != (kind := "object" if len(names) > 1 else "array"):
            where = ".".join(path[: len(path) - len(names) + 1])
            raise UsageError(f"`{where}` is not a JSON {kind}.")
        node = inner
        names.pop(0)
    depth = len(path) - len(names)
    made: Json = entry
    if names:
        made = [entry]
        for name in reversed(names[1:]):
            made = {name: made}
        return _insert(text, node, depth, made, key=names[0])
    return _insert(text, node, depth, made)


def remove(
    text: str,
    path: Sequence[str | int],
    ours: Callable[[Json], bool],
    *,
    stay: Collection[tuple[str | int, ...]] = (),
) -> str:
    """Return the text without our elements of the list at a path. If that empties the list,
    it goes too, and so do the enclosing objects that become empty. A container that holds a comment
    stays, and so do the paths in `stay`."""
    nodes = [parse(text)]
    for name in path:
        inner = nodes[-1].get(name)
        if inner is None:
            return text
        nodes.append(inner)
    listed = nodes[-1]
    if listed.kind != "array":
        return text
    gone = [n for n, (_, _, each) in enumerate(listed.members) if ours(value_of(text, each))]
    if not gone:
        return text
    if len(gone) < len(listed.members) or not _may_go(text, nodes, path, len(path), stay):
        for number in reversed(gone):
            text = _cut(text, listed, number)
            listed = _at(parse(text), path)
        return text
    depth = len(path)
    while depth > 1 and len(nodes[depth - 1].members) == 1:
        if not _may_go(text, nodes, path, depth - 1, stay):
            break
        depth -= 1
    around = nodes[depth - 1]
    number = next(n for n, (key, _, _) in enumerate(around.members) if key == path[depth - 1])
    return _cut(text, around, number)


def _may_go(
    text: str,
    nodes: Sequence[Node],
    path: Sequence[str | int],
    depth: int,
    stay: Collection[tuple[str | int, ...]],
) -> bool:
    """True if the container at `path[:depth]` may be removed once it is empty."""
    if tuple(path[:depth]) in stay or _says_more(text, nodes[depth]):
        return False
    at = next(at for _, at, each in nodes[depth - 1].members if each is nodes[depth])
    key = _STRING.match(text, at)
    return key is None or not _is_comment(text[key.end() : nodes[depth].start])


def _at(node: Node, path: Sequence[str | int]) -> Node:
    for name in path:
        inner = node.get(name)
        node = node if inner is None else inner
    return node


def _insert(text: str, node: Node, depth: int, value: Json, *, key: str = "") -> str:
    """Append a member to an object or a list, in the style of the file."""
    unit = _unit(text, parse(text))
    line = "\r\n" if "\r\n" in text else "\n"
    inner = line + unit * (depth + 1)
    written = json.dumps(value, indent=unit or None, ensure_ascii=False)
    written = written.replace("\n", inner)
    member = f"{json.dumps(key)}: {written}" if key else written
    if not node.members:
        close = node.end - 1
        said = text[node.start + 1 : close]
        kept = said.rstrip(_BLANKS) if _is_comment(said) else ""
        return f"{text[: node.start + 1]}{kept}{inner}{member}{line}{unit * depth}{text[close:]}"
    last = node.members[-1][2].end
    return f"{text[:last]},{inner}{member}{text[last:]}"


def _cut(text: str, node: Node, number: int) -> str:
    """Remove one member and its comma. All comments stay."""
    _, at, member = node.members[number]
    last = number == len(node.members) - 1
    before = node.members[number - 1][2].end if number else node.start + 1
    comma = _comma(text, member.end)
    if number and not _is_comment(text[before:at]):
        return text[:before] + text[member.end :]
    if number and comma is None:
        first = _comma(text, before)
        start = before if first is None else first
        return _joined(text[:start] + text[start + 1 : at], text[member.end :])
    behind = text[member.end :] if comma is None else text[member.end : comma] + text[comma + 1 :]
    if number == 0 and not last:
        return text[:at] + behind.lstrip(_BLANKS)
    inside = text[before:at] + text[member.end : node.end - 1]
    if last and number == 0 and not _is_comment(inside):
        return text[:before] + text[node.end - 1 :]
    return _joined(text[:at], behind)


def _joined(before: str, behind: str) -> str:
    """Join two parts without leaving a blank line between them. The newline itself stays, because a
    `//` comment in `before` must end at it."""
    return (before.rstrip(_BLANKS) if behind.lstrip(" \t")[:1] in ("\r", "\n") else before) + behind


def _comma(text: str, at: int) -> int | None:
    """The position of the comma after a member, if there is one."""
    found = _GAP.match(text, at)
    end = found.end() if found else at
    return end if text.startswith(",", end) else None


def _says_more(text: str, node: Node) -> bool:
    """True if there are comments around the members."""
    at, found = node.start + 1, False
    for _, start, each in node.members:
        found = found or _is_comment(text[at:start])
        at = each.end
    return found or _is_comment(text[at : node.end])


def _is_comment(gap: str) -> bool:
    """True if the text between two members contains a comment."""
    return "/" in gap


def _unit(text: str, root: Node) -> str:
    """The file's indentation per level, taken from its first indented line, which may be deeper
    than the first level. Two spaces if no line is indented."""
    found = re.search(r"\n([ \t]+)\S", text)
    if found is None:
        return "  "
    depth = _depth(root, found.start(1))
    indent = found[1]
    unit = indent[: len(indent) // depth] if depth else ""
    return unit if unit * depth == indent else indent


def _depth(node: Node, at: int) -> int:
    """The number of containers around a position in the text."""
    depth, inner = 0, node if node.start < at < node.end else None
    while inner is not None:
        depth += inner.kind in ("object", "array")
        inside = (each for _, _, each in inner.members if each.start < at < each.end)
        inner = next(inside, None)
    return depth

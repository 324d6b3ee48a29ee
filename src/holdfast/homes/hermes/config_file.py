"""Hermes's `config.yaml` as a tree with line numbers, and its `.env` as a set of switches.

Both files may contain anything. The tree holds the nodes that the parser composed, never
constructed values: a few lines of aliases and merges can expand to more than fits into memory. From
`.env`, a check-up can learn which switches are on and whether a key is set. No value that could be
a secret leaves this module.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from holdfast.stores.files import open_regular
from holdfast.value import dataclass

#: Hermes's files are about ten kilobytes; this much already takes the parser seconds.
LONGEST = 256_000
_MERGE = "tag:yaml.org,2002:merge"
#: From the first quote to the last one.
_QUOTED = re.compile(r"""(['"])(.*)['"]""", re.DOTALL)
#: What the parser may quote: one character, escaped or not, or the names of its own tokens.
_HARMLESS = re.compile(r"<.*>|\\?.|\\[xuU][0-9a-f]+|", re.DOTALL)

_VARIABLE = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(.*)$")
_ON = frozenset({"1", "true", "yes", "on"})

Scalar: TypeAlias = "bool | int | float | str | None"


class UnreadableError(Exception):
    """Why a file cannot be read, with the line if there is one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A key of a mapping with its value; lines count from 1."""

    key: str
    line: int
    value: yaml.Node


def read_text(path: Path) -> str | None:
    """The text of a file; None if there is no file. Raises `UnreadableError`.

    Links are followed. A pipe or a device is refused, so that reading cannot block.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            raw = file.read(LONGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL and path.is_symlink() and not path.exists():
            raise UnreadableError("it is a link to a file that is not there") from None
        if error.errno in (errno.EINVAL, errno.EISDIR):
            raise UnreadableError("it is not a regular file") from None
        raise UnreadableError(f"it cannot be opened: {error.strerror}") from None
    if len(raw) > LONGEST:
        raise UnreadableError(f"it is larger than {LONGEST:,} bytes, and was not looked at")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UnreadableError("it is not valid UTF-8", line) from None


def compose(text: str) -> yaml.Node | None:
    """The tree of a document; None if it is empty. Raises `UnreadableError` if Hermes's parser
    would refuse the document."""
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = _without_content(error.problem or error.context or "it is not valid YAML")
        raise UnreadableError(reason, mark.line + 1 if mark else None) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UnreadableError("it has a character that YAML does not allow", line) from None
    except (yaml.YAMLError, ValueError):
        raise UnreadableError("it is not valid YAML") from None
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None
    if root is not None:
        _check_values(root)
    return root


def entries(node: yaml.Node | None) -> Iterator[Entry]:
    """The keys of a mapping as they are in the file, without those merged into it."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                yield Entry(key=str(key.value), line=key.start_mark.line + 1, value=value)


def child(node: yaml.Node | None, *path: str) -> yaml.Node | None:
    """The node under these keys; as in Hermes, the last of duplicate keys counts."""
    for key in path:
        node = _under(node, key)
    return node


def scalar(node: yaml.Node | None) -> Scalar:
    """The value of a leaf; None for any other node."""
    if not isinstance(node, yaml.ScalarNode):
        return None
    value = _construct(node)
    return value if isinstance(value, bool | int | float | str) else None


def line_of(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _under(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """The value of a key in a mapping itself, or else in the first mapping merged into it. Merges
    may form cycles, or lead to the same mapping many times: each is visited once."""
    waiting = [] if node is None else [node]
    known: set[int] = set()
    while waiting:
        each = waiting.pop(0)
        if id(each) in known or not isinstance(each, yaml.MappingNode):
            continue
        known.add(id(each))
        own = [entry.value for entry in entries(each) if entry.key == key]
        if own:
            return own[-1]
        merged = [value for name, value in each.value if name.tag == _MERGE]
        inside = [
            part
            for value in merged
            for part in (value.value if isinstance(value, yaml.SequenceNode) else [value])
        ]
        waiting = inside + waiting
    return None


def _check_values(root: yaml.Node) -> None:
    """Refuse what can be composed but not constructed: unknown tags, invalid dates, keys that are
    not plain text. Each node is visited once, however many aliases lead to it."""
    waiting, known = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        if node.tag != _MERGE and node.tag not in SafeConstructor.yaml_constructors:
            raise UnreadableError(
                "it has a value with a tag that Hermes cannot read", line_of(node)
            )
        inside: list[yaml.Node] = []
        if isinstance(node, yaml.ScalarNode):
            _construct(node)
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise UnreadableError("it has a key that is not plain text", line_of(key))
                inside += (key, value)
        elif isinstance(node, yaml.SequenceNode):
            inside += node.value
        waiting += [each for each in inside if id(each) not in known]
        known.update(map(id, inside))


def _construct(node: yaml.ScalarNode) -> object:
    try:
        return SafeConstructor().construct_object(node) if node.tag != _MERGE else None
    except (ValueError, ConstructorError, OverflowError, KeyError, AttributeError):
        raise UnreadableError("it has a value that Hermes cannot read", line_of(node)) from None


def _without_content(problem: str) -> str:
    """The parser's message without what it quotes from the file: `key: !hunter2` is a tag to the
    parser, and may be a password. The names of its own tokens stay."""

    def shown(found: re.Match[str]) -> str:
        return found[0] if _HARMLESS.fullmatch(found[2]) else "'…'"

    return _QUOTED.sub(shown, problem)


def is_on(value: object) -> bool:
    """True if a switch is on, as Hermes interprets it in both of its files."""
    return value is True or (isinstance(value, str) and value.strip().lower() in _ON)


class Variables:
    """The variables of one file. The last line for a name counts."""

    def __init__(self, text: str) -> None:
        self._values = {
            found[1]: _unquoted(found[2])
            for found in map(_VARIABLE.match, text.splitlines())
            if found
        }

    def is_on(self, name: str) -> bool:
        return is_on(self._values.get(name))

    def is_set(self, name: str) -> bool:
        return bool(self._values.get(name, "").strip())


def _unquoted(value: str) -> str:
    for quote in "'\"":
        if value.startswith(quote):
            return value[1:].split(quote, 1)[0]
    return re.split(r"\s#", value, maxsplit=1)[0].strip()

"""Why a session may have more messages than were counted.

A reader skips what it does not understand: a torn line, a line that is too long, a record of a type
that a later release of the agent introduced. That is right for a list, but a session that looks
trivial because most of it was skipped must not be removed as trivial.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.homes.agents.json_lines import (
    MOST_LINE_BYTES,
    UNREADABLE,
    Record,
    objects_in,
    parsed,
    skip_rest,
)
from holdfast.homes.foreign.notes import Seen
from holdfast.model.part import Unit
from holdfast.model.session import Json, Message
from holdfast.model.text import format_bytes, format_count
from holdfast.ports.formats import Format
from holdfast.stores.files import open_file, read_file

#: What an agent writes around a few messages: its instructions, its tools, the state of the
#: project. The largest such session of the recorded homes has a fifth of this.
_AROUND_BYTES = 512 * 1024
#: A message may be written several times, escaped, and next to what it replaces.
_COPIES = 8
#: Roles, and types of records, that stand for something that a person, a model or a tool said.
_TALKS = re.compile(r"user|human|assistant|model|gemini|agent|message|response|tool")
_TEXTS = ("content", "parts", "text", "message")
#: How deep inside a record a message may be.
_DEEP = 4
#: How much longer a text in a file may be than in the message: some agents put marks around it.
_MARKS = 200


def unread_content(form: Format, root: Path, seen: Seen) -> str:
    """Why the messages of this session may not be all; "" if everything was understood. Reads the
    session again, so only a small one should be asked about."""
    files = _files(form, root, seen.unit)
    if not files:
        return ""
    try:
        said = _Said(seen.messages(form, root))
        size = sum(path.stat().st_size for path in files)
        if size > _AROUND_BYTES + _COPIES * said.bytes:
            return f"{format_bytes(size)} for {format_count(said.count, 'message')}"
        spoken = _spoken_types(form, root, seen.unit)
        silent = getattr(form, "silent", ())
        return _Check(said, spoken, silent).run(files)
    except FileNotFoundError:
        return ""
    except UNREADABLE as error:
        return f"its files cannot be read ({error})"


class _Said:
    """What the counted messages say."""

    def __init__(self, messages: Iterator[Message]) -> None:
        self._texts: list[str] = []
        self.count = self.bytes = 0
        for each in messages:
            self.count += 1
            found = [*_strings([each.content, each.reasoning, each.tool_calls])]
            self.bytes += sum(map(len, found))
            self._texts += found
        self._all = "\n".join(self._texts)

    def has(self, text: str) -> bool:
        return text in self._all or any(
            each and each in text and len(text) - len(each) < _MARKS for each in self._texts
        )


def _files(form: Format, root: Path, unit: Unit) -> Sequence[Path]:
    """The files with the messages of a session; none if they are in rows of a database."""
    find = getattr(form, "written", None)
    if find is not None:
        return [*find(root, unit)]
    return [] if unit.transcript is None else [unit.transcript]


def _spoken_types(form: Format, root: Path, unit: Unit) -> Sequence[str]:
    """The types of records in which a format finds messages, if it looks for these alone."""
    find = getattr(form, "appended", None)
    appended = None if find is None else find(root, unit)
    having = () if appended is None else appended.having
    return [each.decode().strip('"') for each in having if each.startswith(b'"')]


class _Check:
    """Looks at every record of some files once, and finds what was not counted."""

    def __init__(self, said: _Said, spoken: Sequence[str], silent: Collection[str]) -> None:
        self._said = said
        self._spoken = spoken
        self._silent = silent
        self._bad_lines = 0
        #: Why messages may be missing, by the id of the message: if one was written several times,
        #: only its last version counts. Without an id, by the reason itself.
        self._why: dict[str, str] = {}

    def run(self, files: Sequence[Path]) -> str:
        for path in files:
            for record in _records(path):
                if record is not None:
                    self._look(record)
                elif path.suffix == ".json":
                    return f"{path.name} is not a complete document"
                else:
                    self._bad_lines += 1
        if self._bad_lines:
            return f"{format_count(self._bad_lines, 'line')} of it cannot be read"
        return next(filter(None, self._why.values()), "")

    def _look(self, record: Record) -> None:
        kind = str(record.get("type") or record.get("kind") or "")
        if kind in self._silent:
            return
        if kind not in self._spoken and any(each in kind for each in self._spoken):
            why = f"records of unknown type {kind!r}"
            self._why[why] = why
        for each in _like_messages(record, _DEEP):
            why = ""
            if not all(map(self._said.has, _texts(each))):
                why = f"records of type {kind!r}" if kind else "records"
                why += " that may be messages"
            name = each.get("id")
            self._why[name if isinstance(name, str) else why] = why


def _records(path: Path) -> Iterator[Record | None]:
    """The records of a file; None for each line, or for the document, that readers leave out."""
    if path.suffix == ".jsonl":
        with open_file(path) as file:
            while line := file.readline(MOST_LINE_BYTES):
                if not line.endswith(b"\n") and len(line) == MOST_LINE_BYTES:
                    skip_rest(file)
                    yield None
                elif line.strip():
                    yield next(parsed(line), None)
    elif path.suffix == ".json":
        document = _document(path)
        if document is None:
            yield None
        yield from objects_in(document if isinstance(document, list) else [document])


def _document(path: Path) -> Json:
    """What a file has as one document; None if it has none."""
    try:
        said: Json = json.loads(read_file(path))
    except (ValueError, RecursionError):
        return None
    return said


def _like_messages(said: Any, deep: int) -> Iterator[Record]:
    """The objects with a role or a type that talks, and with content."""
    if deep == 0:
        return
    if isinstance(said, list):
        for each in said:
            yield from _like_messages(each, deep)
    elif isinstance(said, dict):
        role = said.get("role") or said.get("type")
        if isinstance(role, str) and _TALKS.search(role) and any(map(said.get, _TEXTS)):
            yield said
        for each in said.values():
            if isinstance(each, dict | list):
                yield from _like_messages(each, deep - 1)


def _texts(said: Record) -> Iterator[str]:
    """The texts of such an object, and of the blocks of its content."""
    for name in _TEXTS:
        content = said.get(name)
        for each in content if isinstance(content, list) else [content]:
            text = each.get("text") if isinstance(each, dict) else each
            if isinstance(text, str) and text.strip():
                yield text.strip()


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)

"""A transcript in JSON lines where later lines replace earlier ones. Only the positions of messages
are kept in memory, never their content."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.homes.agents.json_lines import MOST_LINE_BYTES, Record, parsed, skip_rest
from holdfast.stores.files import open_file

#: The path from the record of a line to a message in it.
Steps = tuple[str | int, ...]


class Rewritten:
    """The messages of a file by name, in the order in which each first appears. `rewrite` is called
    with every record, and applies it to the messages so far with `put`, `keep_only` and `cut`."""

    def __init__(self, path: Path, rewrite: Callable[[Record, Rewritten], None]) -> None:
        self._path = path
        self._rewrite = rewrite
        self._places: dict[str, tuple[int, Steps]] = {}
        self._line = 0

    def put(self, name: str, steps: Steps = ()) -> None:
        """Add a message, or replace it; its content is in the current record."""
        self._places[name] = self._line, steps

    def keep_only(self, names: Collection[str]) -> None:
        """Remove every other message."""
        self._places = {name: at for name, at in self._places.items() if name in names}

    def cut(self, name: str) -> None:
        """Remove a message and all after it; all messages if there is none with that name."""
        before = list(self._places).index(name) if name in self._places else 0
        self._places = dict(islice(self._places.items(), before))

    def records(self) -> Iterator[Record]:
        """The messages that remain at the end of the file."""
        with open_file(self._path) as file:
            following = 0
            while line := file.readline(MOST_LINE_BYTES):
                self._line, following = following, following + len(line)
                if not line.endswith(b"\n") and len(line) == MOST_LINE_BYTES:
                    skip_rest(file)
                    following = file.tell()
                    continue
                for record in parsed(line):
                    self._rewrite(record, self)
            listed: tuple[int, Any] = (-1, {})
            for offset, steps in self._places.values():
                if steps and offset == listed[0]:
                    said = listed[1]
                else:
                    file.seek(offset)
                    said = next(parsed(file.readline(MOST_LINE_BYTES)), {})
                if steps:  # a line with many messages is parsed only once
                    listed = offset, said
                for step in steps:
                    said = said[step]
                yield said

"""The bytes of a configuration file turned into a TOML document, or the one problem with them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.config.finding import Problem
from holdfast.model.printable import one_line

LARGEST = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_TOML_PLACE = re.compile(
    r"(?P<what>.*) \(at line (?P<line>\d+), column (?P<column>\d+)\)", re.DOTALL
)
_LONGEST_REASON = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file's text and what TOML makes of it. A missing file is an empty document."""

    text: str = ""
    tables: Mapping[str, object] = field(default_factory=dict)


class UnreadableError(Exception):
    """The file gave no document."""

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
    text = _decode(data, where)
    return Document(text=text, tables=_parse(text, where))


def _read(path: Path, where: str) -> bytes | None:
    """At most one byte more than allowed; None when there is no file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        # A link to nothing is a configuration that somebody has and we cannot see: running on
        # defaults then could remove what it says to keep.
        if path.is_symlink():
            raise _unreadable(where, "is a symbolic link to nothing") from None
        return None
    if stat.S_ISDIR(mode):
        raise _unreadable(where, "is a directory; the configuration must be a file")
    if not stat.S_ISREG(mode):  # opening a fifo would wait for a writer
        raise _unreadable(where, "is not a regular file")
    # Without waiting: a pipe may have taken its place since.
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


def _parse(text: str, where: str) -> Mapping[str, object]:
    import tomllib  # noqa: PLC0415 - its cost belongs to whoever has a file to read

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise _unreadable(where, "is not valid TOML: nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, or int() refusing thousands of digits
        place = _TOML_PLACE.fullmatch(str(error))
        if place is None:
            raise _unreadable(where, f"is not valid TOML: {_brief(str(error))}") from error
        reason = f"is not valid TOML: {_brief(place['what'])} (column {place['column']})"
        raise _unreadable(where, reason, line=int(place["line"])) from error


def _brief(reason: str) -> str:
    safe = one_line(reason)
    return safe if len(safe) <= _LONGEST_REASON else safe[: _LONGEST_REASON - 3] + "..."


def _unreadable(where: str, what: str, line: int | None = None) -> UnreadableError:
    return UnreadableError(Problem(where=where, what=what, line=line))

"""JSON lines as agents write them: appended to, sometimes torn at the end, sometimes huge.

Lines that are not JSON objects are skipped. Only one line at a time is in memory. For a reader that
can continue later where it stopped, see `holdfast.homes.agents.appended_transcript`.
"""

from __future__ import annotations

import contextlib
import json
import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice, takewhile
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from holdfast.errors import HoldfastError
from holdfast.model.text import format_bytes
from holdfast.stores.files import open_file, read_file

if TYPE_CHECKING:
    from holdfast.model.part import Known, Unit

Record: TypeAlias = dict[str, Any]

#: What reading an agent's files may raise: they may contain anything.
UNREADABLE = (OSError, ValueError, KeyError, TypeError, HoldfastError)
#: The extra field of a message that the agent itself added: its environment, its rules.
INJECTED = "injected"

#: A longer line is skipped: no message of a person or a model is that large.
MOST_LINE_BYTES = 64 * 1024**2
_HEAD_BYTES = 1024**2
_TAIL_BYTES = 64 * 1024
_OPENING = 20
#: How much of a file, at its start and before an offset, is compared to tell whether it is the
#: same.
_PROOF_BYTES = 4096
_SHORT = 16


def records(path: Path, having: Sequence[bytes] = ()) -> Iterator[Record]:
    """The objects of a JSONL file. With `having`, only lines that contain one of these strings are
    parsed, which saves most of the work in a file full of other records."""
    with open_file(path) as file:
        while line := file.readline(MOST_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) == MOST_LINE_BYTES:
                skip_rest(file)
            elif not having or any(each in line for each in having):
                yield from parsed(line)


def opening(path: Path) -> list[Record]:
    """The first few objects of a file, by which a format recognises its transcripts."""
    return list(islice(records(path), _OPENING))


def unread(path: Path) -> tuple[str, ...]:
    """Describe what a reader of a transcript skips. Looks at both ends of each line and parses only
    the last one. A document over several lines is read whole or not at all, so it has no such
    lines."""
    found: list[str] = []
    with open_file(path) as file:
        if file.readline(_SHORT).strip() == b"{":
            return ()
    number, line = 0, b""
    with open_file(path) as file:
        while line := file.readline(MOST_LINE_BYTES):
            number += 1
            if line.endswith(b"\n"):
                text = line.strip()
                if text and not (text.startswith(b"{") and text.endswith(b"}")):
                    found.append(f"line {number} is not a JSON object and was left out")
            elif len(line) == MOST_LINE_BYTES:
                skip_rest(file)
                most = format_bytes(MOST_LINE_BYTES)
                found.append(f"line {number} is longer than {most} and was left out")
            elif not list(parsed(line)):
                found.append(f"line {number}, the last one, is torn and was left out")
    return tuple(found)


def first_records(path: Path) -> Iterator[Record]:
    """The objects at the beginning of a file. The caller stops as soon as it has enough."""
    left = _HEAD_BYTES
    with open_file(path) as file:
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            yield from parsed(line)


def whole_records(path: Path) -> Iterator[Record]:
    """The one object of a JSON file; nothing if the file is torn, or too large to be one."""
    if path.stat().st_size <= MOST_LINE_BYTES:
        yield from parsed(read_file(path))


def document_in(path: Path) -> Record:
    """The one object of a JSON file; empty if there is none."""
    return next(whole_records(path), {})


def settings_in(path: Path) -> Record:
    """The one object of a file such as the settings of an agent; empty if the file is missing or
    cannot be read."""
    try:
        return document_in(path)
    except OSError:
        return {}


def head_of(path: Path) -> Record:
    """The first object of a file; empty if there is none."""
    return next(first_records(path), {})


def last_records(path: Path, *, most_bytes: int = _TAIL_BYTES) -> Iterator[Record]:
    """The objects at the end of a file, last one first. The first line may be truncated."""
    with open_file(path) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - most_bytes))
        lines = file.read(most_bytes).split(b"\n")
    for line in reversed(lines if size <= most_bytes else lines[1:]):
        yield from parsed(line)


def moment(value: object) -> float | None:
    """A time from an agent's file: ISO 8601 text, or milliseconds."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            said = datetime.fromisoformat(value)
            return (said if said.tzinfo else said.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1000
    return None


def text_of(content: object, kinds: Sequence[str] = ("text",)) -> str:
    """The text of a message whose content is a string, or a list of typed blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(
        block["text"]
        for block in content
        if isinstance(block, dict)
        and block.get("type", "text") in kinds
        and isinstance(block.get("text"), str)
    )


def names_in(folder: Path) -> list[str]:
    """The names in a folder; empty if there is no such folder."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - Path objects would cost more than the listing
    except (FileNotFoundError, NotADirectoryError):
        return []


def files_in(folder: Path, end: str) -> list[Path]:
    """The files in a folder whose names end with `end`, sorted by name."""
    return [folder / name for name in sorted(names_in(folder)) if name.endswith(end)]


def within(said: object, *names: str) -> Record:
    """The nested object at this path of names; empty if there is none. An agent may write anything
    anywhere."""
    for name in names:
        said = said.get(name) if isinstance(said, dict) else None
    return said if isinstance(said, dict) else {}


def objects_in(listed: object) -> list[Record]:
    """The objects of a list; empty for anything else."""
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def fields(said: Iterable[Record], *names: str) -> Record:
    """The first truthy value of each of these fields, for those that have one. Reads no further
    than needed."""
    found: Record = {}
    for record in said:
        for name in names:
            if name not in found and record.get(name):
                found[name] = record[name]
        if len(found) == len(names):
            break
    return found


def transcript_of(unit: Unit) -> Path:
    """The file with the messages of a session."""
    if unit.transcript is None:
        raise FileNotFoundError(f"the transcript of {unit.id} is gone")
    return unit.transcript


def newest(paths: Iterable[Path]) -> Path | None:
    """The most recently written of these files that can be read."""
    found: list[tuple[float, Path]] = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            if S_ISREG(status.st_mode):
                found.append((status.st_mtime, path))
    for _, path in sorted(found, reverse=True):
        if os.access(path, os.R_OK):
            return path
    return None


def starting_with(start: str, names: Sequence[str]) -> Iterator[str]:
    """The names that begin with `start`, of many sorted names, found without looking at the
    others."""
    return takewhile(lambda name: name.startswith(start), names[bisect_left(names, start) :])


def unit_of(
    path: Path, known: Known, read: Callable[[Path], Unit], *, name: str | None = None
) -> Unit | None:
    """The unit of a transcript, read only if the file changed. None if the file was removed since
    it was listed. If it cannot be read, the unit has only its name and its time."""
    try:
        return known(path) or read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        from holdfast.model.part import Unit  # noqa: PLC0415 - a hook reads lines but no sessions

        return Unit(
            id=name or path.stem,
            active=path.lstat().st_mtime,
            parts=(),
            transcript=path,
            unread=f"{path.name} cannot be read ({error.strerror})",
        )


def is_plain_name(name: str) -> bool:
    """True if a name from the agent's files can safely be joined to a folder: it refers to an entry
    of that folder, and never to the folder itself, or to anything outside it."""
    return name not in ("", ".", "..") and not {"/", "\0"} & set(name)


def object_in(text: object) -> Record:
    """The object that an agent stored as text in a row; empty if it is not an object."""
    return next(parsed(text.encode(errors="replace")), {}) if isinstance(text, str) else {}


def parsed(line: bytes) -> Iterator[Record]:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return
    if isinstance(said, dict):
        yield said


def skip_rest(file: Any) -> None:
    while (line := file.readline(MOST_LINE_BYTES)) and not line.endswith(b"\n"):
        pass


def check_of(path: Path, offset: int) -> str:
    """A check that an append-only file is still the one that was read up to `offset`; "" if it is
    shorter now."""
    return checks_of(path, offset)[0]


def checks_of(path: Path, offset: int) -> tuple[str, str]:
    """The same, and a second check of the content alone, which a copy of the file matches too."""
    with open_file(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size < offset:
            return "", ""
        blocks = _block(file, 0, min(_PROOF_BYTES, offset))
        blocks += _block(file, max(0, offset - _PROOF_BYTES), min(_PROOF_BYTES, offset))
    same = blake2b(f"{status.st_ino}/{offset}/".encode() + blocks, digest_size=16)
    return same.hexdigest(), blake2b(f"{offset}/".encode() + blocks, digest_size=16).hexdigest()


def _block(file: BinaryIO, start: int, size: int) -> bytes:
    file.seek(start)
    return file.read(size)

"""Decides whether what the vault holds is superseded: what exists now covers it, so it may go.

Readable content counts, not bytes: a file of zeros may be as long as any transcript. If it is
unclear, the answer is no, and the vault keeps both.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.homes.agents.json_lines import UNREADABLE
from holdfast.model.session import Json, Message
from holdfast.stores.files import open_file, read_file

_CHUNK = 1024 * 1024
#: Documents that are rewritten as a whole, perhaps in place: a hard link would change with them.
#: All other files are appended to, or written once.
_REWRITTEN = (".json", ".yaml", ".yml", ".toml", ".md", ".db", ".sqlite", ".sqlite3", "-wal")
#: Bytes that are no content, however many there are.
_BLANK = b"\0 \t\r\n"
#: Larger files are not compared line by line.
_MOST_BYTES = 64 * 1024 * 1024

#: Reads the messages of a transcript.
Said = Callable[[], Iterable[Message]]


def is_transcript_superseded(kept: Path, path: Path, kept_says: Said, path_says: Said) -> bool:
    """True if one transcript may replace another. Agents rewrite documents as a whole, and may
    rewrite the first line of other files, so compare content: at least as many messages and
    characters."""
    if goes_on(kept, path):
        return True
    before, now = _amount(kept_says), _amount(path_says)
    if before is None or now is None:
        return False
    (kept_messages, kept_characters), (messages, characters) = before, now
    if kept_messages:
        return messages >= kept_messages and characters >= kept_characters
    # The vault's copy cannot be read. Accept readable messages, or a file that is not shorter.
    is_longer = path.stat().st_size >= kept.stat().st_size
    return messages > 0 or is_longer or is_document(path)


def _amount(says: Said) -> tuple[int, int] | None:
    """Count the messages in a transcript and their characters; None if it cannot be read."""
    messages = characters = 0
    try:
        for each in says():
            messages += 1
            characters += sum(map(_length, (each.content, each.tool_calls, each.reasoning)))
    except (*UNREADABLE, RecursionError):
        return None
    return messages, characters


def _length(said: Json) -> int:
    return len(said) if isinstance(said, str) else 0 if said is None else len(json.dumps(said))


def goes_on(kept: Path, path: Path) -> bool:
    """True if it is the same file, or begins with every byte of the vault's file."""
    try:
        mine, theirs = kept.lstat(), path.stat()
    except FileNotFoundError:
        return not os.path.lexists(kept)  # True if the vault has nothing
    if os.path.samestat(mine, theirs):
        return True
    if not stat.S_ISREG(mine.st_mode) or not stat.S_ISREG(theirs.st_mode):
        return False
    if theirs.st_size < mine.st_size:
        return False
    with open_file(kept) as ours, open_file(path) as other:
        while piece := ours.read(_CHUNK):
            if other.read(len(piece)) != piece:
                return False
    return True


def is_part_superseded(kept: Path, path: Path) -> bool:
    """True if a file that is not a transcript may replace another. A document is rewritten as a
    whole; in a file of lines, an agent may rewrite the first one. All other files are appended to,
    or written once."""
    if says_nothing(kept) or goes_on(kept, path):
        return True
    if is_document(path):
        return not says_nothing(path)
    return path.suffix == ".jsonl" and _has_lines_of(kept, path)


def is_document(path: Path) -> bool:
    return path.name.endswith(_REWRITTEN)


def says_nothing(path: Path) -> bool:
    """True if a file is empty or blank, or an empty JSON document."""
    with open_file(path) as file:
        is_blank = not any(piece.strip(_BLANK) for piece in iter(lambda: file.read(_CHUNK), b""))
    if is_blank or path.suffix != ".json" or path.stat().st_size > _MOST_BYTES:
        return is_blank
    try:
        return not json.loads(read_file(path))
    except (ValueError, RecursionError):
        return True


def _has_lines_of(kept: Path, path: Path) -> bool:
    if max(kept.stat().st_size, path.stat().st_size) > _MOST_BYTES:
        return False
    first, *others = read_file(kept).splitlines() or [b""]
    return {*(others or [first])} <= {*read_file(path).splitlines()}

"""Optional JSONL transcripts: one file for each session, appended to and never rewritten.

The database is the truth; a transcript is for people and other tools. It is written after the
messages are stored: after a kill it can lack the last messages, but it never has extra ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.model.arguments import check_id
from holdfast.model.session import Json
from holdfast.stores.files import (
    PRIVATE_FILE,
    make_private_dir,
    open_regular,
    storage_errors,
    sync_dir,
    write_all,
)

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class TranscriptFolder:
    """Transcripts and request dumps in a home's `sessions/` folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def append(self, session_id: str, lines: Sequence[Mapping[str, Json]], *, sync: bool) -> Path:
        """Append one JSON line for each message. With `sync`, they are on the disk on return."""
        path = self._folder / f"{check_id(session_id)}.jsonl"
        data = b"".join(json.dumps(line).encode("ascii") + b"\n" for line in lines)
        with storage_errors(f"write the transcript {path}"):
            make_private_dir(self._folder)
            fd, created = self._open(path)
            try:
                # A single write, so that the lines of two processes do not mix.
                write_all(fd, data)
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            if sync and created:
                sync_dir(self._folder)
        return path

    def dump_request(self, session_id: str, stamp: str, request: Mapping[str, Json]) -> Path:
        """Write a request dump: `request_dump_{id}_{when}.json`, private, never replaced."""
        path = self._folder / f"request_dump_{check_id(session_id)}_{stamp}.json"
        try:
            dump = json.dumps(request, indent=1).encode("ascii") + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"This request cannot be written as JSON: {error}.") from None
        with storage_errors(f"write the request dump {path}"):
            make_private_dir(self._folder)
            fd = os.open(path, _APPEND | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
            try:
                write_all(fd, dump)
            finally:
                os.close(fd)
        return path

    def _open(self, path: Path) -> tuple[int, bool]:
        try:
            return open_regular(path, _APPEND), False
        except FileNotFoundError:
            return open_regular(path, _APPEND | os.O_CREAT), True

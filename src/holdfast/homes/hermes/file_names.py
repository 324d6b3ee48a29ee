"""Hermes's names for the files of a session.

Older releases use the unchanged id. Newer ones change an id that could lead out of the folder or is
too long, and add a part of its checksum, so that names stay unique.
"""

from __future__ import annotations

import hashlib
import json
import re

from holdfast.homes.sessions import folder as session_folder
from holdfast.homes.sessions.folder import SessionFileName
from holdfast.model.item import REQUEST_DUMP, TRANSCRIPT
from holdfast.value import dataclass

_LONGEST = 96
_DIGITS = 12
_UNNAMED = "session"
_UNSAFE = re.compile(r"[^\w-]")
#: Files in the folder of session files that belong to no session.
_STATE_FILES = frozenset({"sessions.json"})

#: The session that a transcript names near its start.
_NAMED = re.compile(rb'"session_id"\s*:\s*("(?:[^"\\]|\\.)*")')
_STEM = r"(\w[\w.-]{0,199}|-[\w-]{0,199})"
_PATTERNS = (
    (REQUEST_DUMP, re.compile(rf"request_dump_{_STEM}_\d{{8}}_\d{{6}}(?:_\d{{1,6}})?\.json")),
    (TRANSCRIPT, re.compile(rf"session_{_STEM}\.json")),
    (TRANSCRIPT, re.compile(rf"{_STEM}\.jsonl?")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesName(SessionFileName):
    """A name that does not prove which session owns the file. If the session is gone, the file must
    contain the id of a session that fits."""

    def claimed_by(self, head: bytes) -> bool:
        named = _NAMED.search(head)
        if named is None:
            return False
        try:
            session = json.loads(named[1])
        except ValueError:
            return False
        return isinstance(session, str) and self.session in stems(session)


def stem(session_id: str) -> str:
    """The name of a session in file names, in newer releases."""
    safe = _UNSAFE.sub("_", session_id).strip("_")
    if safe == session_id and len(safe) <= _LONGEST:
        return safe
    checksum = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{safe[:_LONGEST] or _UNNAMED}_{checksum[:_DIGITS]}"


def stems(session_id: str) -> frozenset[str]:
    """The names of a session in file names, in all releases."""
    return frozenset({session_id, stem(session_id)})


def parse(name: str) -> SessionFileName | None:
    """The session that owns a file, by the file's name. If the name does not prove it, the session
    must be in the database, or the file must contain its id."""
    if name in _STATE_FILES:
        return None
    known = session_folder.parse(name)
    if known is not None:
        return (
            known
            if known.certain
            else HermesName(kind=known.kind, session=known.session, certain=False)
        )
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(name)
        if match:
            return HermesName(kind=kind, session=match[1], certain=False)
    return None

"""Which files in `sessions/` belong to a session, told from their names.

    session_{id}.json   {id}.json   {id}.jsonl        transcripts
    request_dump_{id}_{when}.json                      request dumps

Everything else (`sessions.json`, indexes, notes) is somebody's state and is never an artifact.
"""

from __future__ import annotations

import re

from holdfast.model.item import REQUEST_DUMP, TRANSCRIPT
from holdfast.value import dataclass

# Ids that agents generate: 20260325_112518_6995d1, cron_backup_20260325_112518.
_STAMPED = r"\d{8}_\d{6}_[0-9a-f]{4,32}"
_CRON = r"cron_[A-Za-z0-9._-]+_\d{8,}(?:_\d+)*"
_GENERATED = rf"(?:{_STAMPED}|{_CRON})"
_ANY_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
_WHEN = r"\d{8}_\d{6}(?:_\d{1,6})?"

_PATTERNS = (
    # The time first: all before it is the id, or a dump of session a_b would pass for one of a.
    (REQUEST_DUMP, True, re.compile(rf"request_dump_({_ANY_ID})_{_WHEN}\.json", re.ASCII)),
    (REQUEST_DUMP, True, re.compile(rf"request_dump_({_STAMPED})_[A-Za-z0-9._-]+\.json", re.ASCII)),
    (TRANSCRIPT, True, re.compile(rf"(?:session_)?({_GENERATED})\.json", re.ASCII)),
    (TRANSCRIPT, True, re.compile(rf"({_GENERATED})\.jsonl", re.ASCII)),
    # An id that somebody made up: the name alone proves nothing, the content must say so too.
    (TRANSCRIPT, False, re.compile(rf"session_({_ANY_ID})\.json", re.ASCII)),
    (TRANSCRIPT, False, re.compile(rf"({_ANY_ID})\.jsonl", re.ASCII)),
)

#: How much of a file is read to learn what it says of itself.
HEAD_BYTES = 1024
_SOURCE = re.compile(rb'"(?:source|platform)"\s*:\s*"([a-z0-9][a-z0-9_.-]{0,63})"')


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactName:
    """What a name says: the kind, the session, and whether the name is proof by itself."""

    kind: str
    session: str
    certain: bool

    def claimed_by(self, head: bytes) -> bool:
        """Does the start of the file name this session as its own?"""
        own_id = re.escape(self.session.encode())
        return bool(re.search(rb'"(?:session_id|id)"\s*:\s*"' + own_id + rb'"', head))

    @property
    def source(self) -> str | None:
        return "cron" if self.session.startswith("cron_") else None


def parse(name: str) -> ArtifactName | None:
    """None for a name that no agent gives to a session's file."""
    for kind, certain, pattern in _PATTERNS:
        match = pattern.fullmatch(name)
        if match:
            return ArtifactName(kind=kind, session=match.group(1), certain=certain)
    return None


def source_in(head: bytes) -> str | None:
    """The source that a transcript names near its start, if it does."""
    match = _SOURCE.search(head)
    return match.group(1).decode("ascii") if match else None

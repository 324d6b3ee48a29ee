"""One setting, and the names of the tables that settings stand in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.config.kinds import Kind, Value

VARIABLE_PREFIX = "HOLDFAST_"
TOP = ""
SESSIONS = "sessions"
SOURCE = "source"
TRANSCRIPTS = "transcripts"
CRON = "cron"
CHECKPOINTS = "checkpoints"
MAINTENANCE = "maintenance"
ARCHIVE = "archive"
NOTIFY = "notify"
GUARD = "guard"
PRICES = "prices"
SOURCE_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting. One without a default is not set unless somebody sets it; it has an example.

    `per_source` ones may also stand in the table of a source: [sessions.source.NAME].
    """

    path: tuple[str, ...]
    kind: Kind
    default: Value | None = None
    example: Value | None = None
    about: tuple[str, ...]
    per_source: bool = False

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def table(self) -> str:
        return self.path[0] if len(self.path) > 1 else TOP

    @property
    def variable(self) -> str:
        """The environment variable that overrides it."""
        return VARIABLE_PREFIX + "_".join(self.path).upper()

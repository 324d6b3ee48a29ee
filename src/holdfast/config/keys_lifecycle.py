"""The keys that say how sessions live."""

from __future__ import annotations

from holdfast.config.key import CRON, SESSIONS, TRANSCRIPTS, Key
from holdfast.config.kinds import Choice, Number
from holdfast.policy.lifecycle import DEFAULT_SOURCE, OnReset, Transcript

TRANSCRIPT = Choice(choices=tuple(choice.value for choice in Transcript))
ABANDONED_HOURS = "abandoned_hours"
KEEP = "keep"
REMOVE = "remove"

LIFECYCLE: tuple[Key, ...] = (
    Key(
        path=(SESSIONS, "on_reset"),
        kind=Choice(choices=tuple(choice.value for choice in OnReset)),
        default=OnReset.ARCHIVE.value,
        about=(
            'What a reset does with the files of the old session: "keep", "archive" or "delete".',
        ),
    ),
    Key(
        path=(SESSIONS, "idle_minutes"),
        kind=Number(
            low=0,
            above=True,
            high=525_600,
            whole=False,
            hint="it would reset at once; leave the key out to turn idle reset off",
        ),
        example=30,
        about=(
            "Reset a session at its next message if it was idle for more than this many minutes.",
        ),
    ),
    Key(
        path=(SESSIONS, "max_messages"),
        kind=Number(low=0, high=1_000_000_000),
        default=1_000,
        about=("Reset a session that has this many messages. 0 turns this off.",),
    ),
    Key(
        path=(SESSIONS, "max_size_mb"),
        kind=Number(low=0, high=1_000_000),
        default=10,
        about=("Reset a session of this size, in MB of 1,000,000 bytes. 0 turns this off.",),
    ),
    Key(
        path=(SESSIONS, "warn_percent"),
        kind=Number(low=1, high=99),
        default=80,
        about=("Warn when a session comes to this share of max_messages or max_size_mb.",),
    ),
    Key(
        path=(SESSIONS, ABANDONED_HOURS),
        kind=Number(
            low=1,
            high=8_760,
            whole=False,
            or_off=True,
            hint="a shorter time could end a session in use",
        ),
        default=24,
        about=(
            "Maintenance ends a session whose process is gone once it has been idle for this many",
            "hours. 0 turns this off. In another agent's home it is off unless it is set there.",
        ),
    ),
    Key(
        path=(TRANSCRIPTS, DEFAULT_SOURCE),
        kind=TRANSCRIPT,
        default=Transcript.NONE.value,
        about=(
            'Whether sessions are also written as files: "none", "jsonl", or "jsonl-synced", which',
            "also survives a power cut.",
        ),
    ),
    Key(
        path=(CRON, "after_delivery"),
        kind=Choice(choices=(KEEP, REMOVE)),
        default=KEEP,
        about=('What becomes of a cron session whose result was delivered: "keep" or "remove".',),
    ),
)

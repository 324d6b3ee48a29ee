"""The keys that say what maintenance does by itself, and whom it tells."""

from __future__ import annotations

from holdfast.config.key import ARCHIVE, MAINTENANCE, NOTIFY, SESSIONS, Key
from holdfast.config.kinds import Choice, Flag, Number
from holdfast.config.kinds_text import CommandLine, Folder
from holdfast.policy.rules import TRIVIAL_MAX

ZSTD = "zstd"
GZIP = "gzip"

CLEANING: tuple[Key, ...] = (
    Key(
        path=(SESSIONS, "auto_prune"),
        kind=Flag(),
        default=False,
        about=("Whether maintenance prunes by the rules above, without anybody asking.",),
    ),
    Key(
        path=(SESSIONS, "auto_gc"),
        kind=Flag(),
        default=False,
        about=("Whether maintenance removes empty and trivial sessions as well.",),
    ),
    Key(
        path=(SESSIONS, "auto_archive"),
        kind=Flag(),
        default=False,
        about=("Whether maintenance moves old sessions into the archive before it prunes.",),
    ),
    Key(
        path=(SESSIONS, "archive_after_days"),
        kind=Number(low=0, high=36_500, whole=False),
        default=30,
        about=(
            "With auto_archive, ended sessions go to the archive when their last activity is older",
            "than this many days. 0 archives none.",
        ),
        per_source=True,
    ),
    Key(
        path=(SESSIONS, "empty_hours"),
        kind=Number(low=0, high=8_760, whole=False),
        default=24,
        about=("gc takes a session without messages after this many hours. 0 turns this off.",),
    ),
    Key(
        path=(SESSIONS, "trivial_days"),
        kind=Number(low=0, high=36_500, whole=False),
        default=7,
        about=("gc takes a trivial session after this many days. 0 turns this off.",),
    ),
    Key(
        path=(SESSIONS, "trivial_max"),
        kind=Number(low=0, high=1_000_000),
        default=TRIVIAL_MAX,
        about=("A session with at most this many messages is trivial. With 0, none is.",),
    ),
    Key(
        path=(SESSIONS, "keep_titled"),
        kind=Flag(),
        default=False,
        about=("gc spares sessions that have a title. Agents give titles by themselves.",),
    ),
)

UPKEEP: tuple[Key, ...] = (
    Key(
        path=(MAINTENANCE, "min_interval_hours"),
        kind=Number(low=0, above=True, high=8_760, whole=False),
        default=24,
        about=("Maintenance runs at most once in this many hours, whoever asks for it.",),
    ),
    Key(
        path=(ARCHIVE, "folder"),
        kind=Folder(),
        default="",
        about=(
            'Where archived sessions are kept: a whole path, or one inside the home. "" is the',
            "folder archive/ of the home.",
        ),
    ),
    Key(
        path=(ARCHIVE, "codec"),
        kind=Choice(choices=(ZSTD, GZIP)),
        default=ZSTD,
        about=('How archived sessions are compressed: "zstd" or "gzip".',),
    ),
    Key(
        path=(ARCHIVE, "retention_days"),
        kind=Number(low=0, high=36_500, whole=False),
        default=0,
        about=("Maintenance removes sessions archived longer ago. 0 keeps them for ever.",),
    ),
    Key(
        path=(ARCHIVE, "max_total_size_mb"),
        kind=Number(low=0, high=1_000_000_000),
        default=0,
        about=("The most that the archive may take, in MB of 1,000,000 bytes. 0 is no bound.",),
    ),
    Key(
        path=(NOTIFY, "command"),
        kind=CommandLine(),
        default="",
        about=(
            "A program with its arguments, run with each event as JSON on its standard input.",
            'There is no shell: write "sh -c ..." for one. "" is none.',
        ),
    ),
    Key(
        path=(NOTIFY, "near_percent"),
        kind=Number(low=1, high=100),
        default=90,
        about=("Tell of a cap (max_total_size_mb, max_count) when this share of it is used.",),
    ),
    Key(
        path=(NOTIFY, "timeout_seconds"),
        kind=Number(low=0, above=True, high=3_600, whole=False),
        default=10,
        about=("End the program when it has not ended by itself after this many seconds.",),
    ),
)

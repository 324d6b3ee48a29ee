"""Every key there is, in the order in which they are shown."""

from __future__ import annotations

from holdfast.config.key import (
    ARCHIVE,
    CHECKPOINTS,
    CRON,
    GUARD,
    MAINTENANCE,
    NOTIFY,
    PRICES,
    SESSIONS,
    TOP,
    TRANSCRIPTS,
    Key,
)
from holdfast.config.keys_checkpoints import CHECKPOINT_KEYS
from holdfast.config.keys_guard import GUARD_KEYS
from holdfast.config.keys_lifecycle import LIFECYCLE
from holdfast.config.keys_maintenance import CLEANING, UPKEEP
from holdfast.config.keys_retention import RETENTION
from holdfast.config.kinds import Number

KEYS: tuple[Key, ...] = (
    Key(
        path=("trash_days",),
        kind=Number(low=1, high=3_650, hint="--now skips the trash for one run"),
        default=7,
        about=(
            "How many days the trash keeps what a run removed.",
            "Until then undo can bring it back.",
        ),
    ),
    Key(
        path=("log_days",),
        kind=Number(low=0, high=36_500),
        default=365,
        about=(
            "How many days the log keeps operations of which nothing can be undone any more.",
            "Maintenance drops the others. 0 keeps them for ever.",
        ),
    ),
    *RETENTION,
    *CLEANING,
    *LIFECYCLE,
    *CHECKPOINT_KEYS,
    *UPKEEP,
    *GUARD_KEYS,
)


def _of_sources(table: str) -> tuple[Key, ...]:
    return tuple(key for key in KEYS if key.per_source and key.table == table)


SOURCE_KEYS = _of_sources(SESSIONS)
GUARD_SOURCE_KEYS = _of_sources(GUARD)
#: What may stand in the tables of sources, by the table that these are in.
SOURCE_BY_NAME = {
    table: {key.name: key for key in keys}
    for table, keys in ((SESSIONS, SOURCE_KEYS), (GUARD, GUARD_SOURCE_KEYS))
}

TABLES = (
    SESSIONS,
    TRANSCRIPTS,
    CRON,
    CHECKPOINTS,
    MAINTENANCE,
    ARCHIVE,
    NOTIFY,
    GUARD,
    PRICES,
)
BY_TABLE = {
    table: {key.name: key for key in KEYS if key.table == table} for table in (TOP, *TABLES)
}

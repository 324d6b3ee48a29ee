"""The keys at the top of the file, before any [table]: settings for a home as a whole."""

from __future__ import annotations

from holdfast.config.key import key
from holdfast.config.kinds import Folders, Number
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TopLevelSettings:
    """The top of the file. `Settings` inherits these: `settings.trash_days`."""

    trash_days: int = key(
        Number(1, 3_650, hint="--now skips the trash for one run"),
        7,
        "How many days the trash keeps what a run removed.",
        "Until then, undo can restore it.",
    )
    log_days: int = key(
        Number(0, 36_500),
        365,
        "How many days the log keeps operations that can no longer be undone.",
        "Maintenance drops older ones. 0 keeps them for ever.",
    )
    homes: tuple[str, ...] = key(
        Folders(),
        (),
        "Homes of agents that are not in their usual places, and projects in which aider was used.",
        "Commands on all homes work on them too. Only the list in Holdfast's own home counts.",
    )

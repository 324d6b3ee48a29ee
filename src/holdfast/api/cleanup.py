"""Try out a policy: the plan that a home would have under other settings."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from holdfast.config.reader import value_of
from holdfast.config.settings import SOURCE, Settings
from holdfast.config.toml_document import key_path
from holdfast.errors import UsageError
from holdfast.value import dataclass, replace

if TYPE_CHECKING:
    from holdfast.api.home import Home
    from holdfast.api.plan import HomePlan


class Cleanup(StrEnum):
    """The kind of cleanup: that of `sessions prune`, `sessions gc`, `checkpoints prune` or
    `sessions prune --archived`."""

    SESSIONS = "sessions"
    SMALL = "small"
    CHECKPOINTS = "checkpoints"
    ARCHIVE = "archive"


class TrashUse(StrEnum):
    """Which removals go to the trash. By default, those of a size cap do not, because the trash
    counts towards the cap."""

    RULES = "rules"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Settings to try out. `changes` has values as a user types them, by the full name of their
    key, such as "sessions.retention_days" or "sessions.source.cron.max_total_size_mb"."""

    what: Cleanup = Cleanup.SESSIONS
    changes: Mapping[str, str]
    trash: TrashUse = TrashUse.RULES


def tried(settings: Settings, changes: Mapping[str, str]) -> Settings:
    """Return the settings with these changes, read and checked as by `config set`. Raises
    `UsageError` for the first wrong value."""
    for name, text in changes.items():
        path = key_path(name) or (name,)
        value = value_of(path, [text])
        match path:
            case (table, key):
                settings = settings.changed(table, {key: value})
            case (table, kind, source, key) if kind == SOURCE:
                settings = settings.changed_for(table, source, {key: value})
            case _:
                raise UsageError(f"{name} cannot be tried out.")
    return settings


def plan_trial(home: Home, trial: Trial, *, pack: bool = False) -> HomePlan:
    """Plan what would be removed if config.toml had these settings. Changes neither config.toml nor
    the home, except that with `pack`, checkpoints over their cap are packed first, so that fewer
    have to be removed."""
    settings = tried(home.settings, trial.changes)
    use_trash = trial.trash is not TrashUse.NEVER
    caps_use_trash = trial.trash is TrashUse.ALWAYS
    match trial.what:
        case Cleanup.SESSIONS:
            policy = replace(settings.policy(use_trash=use_trash), caps_use_trash=caps_use_trash)
            return home.plan_policy(policy)
        case Cleanup.SMALL:
            small = settings.sessions
            return home.plan_gc(
                empty_hours=small.empty_hours,
                trivial_days=small.trivial_days,
                trivial_max=small.trivial_max,
                keep_titled=small.keep_titled,
                use_trash=use_trash,
            )
        case Cleanup.CHECKPOINTS:
            bounds = settings.checkpoint_policy(use_trash=use_trash)
            bounds = replace(bounds, caps_use_trash=caps_use_trash)
            return home.checkpoints.plan_policy(bounds, pack=pack)
        case Cleanup.ARCHIVE:
            kept = settings.archive_policy(use_trash=use_trash)
            return home.archive.plan_policy(replace(kept, caps_use_trash=caps_use_trash))

"""A policy: what to keep, as data. One for sessions and files, one for checkpoints, one for gc."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.model.arguments import number
from holdfast.value import dataclass, field, replace

if TYPE_CHECKING:  # every command loads this module, and few need `item`
    from holdfast.model.item import Item

HOUR = 3_600.0
DAY = 24 * HOUR
BUCKETS = ("hourly", "daily", "weekly", "monthly", "yearly")

#: A session with more messages than this is substantial.
TRIVIAL_MAX = 5
#: In `Policy.leftovers`: every source that is not named.
ANY_SOURCE = ""


class Files(StrEnum):
    """What a run removes of sessions: rows with their files, files only, or rows only."""

    WITH = "with"
    ONLY = "only"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When an item may be removed. An item stays if *any* rule keeps it; without rules, all items
    stay.

    `max_age` counts from now. `keep_within` counts from the newest item of the group, so a home
    that was unused for a year does not lose everything on its first day back.
    """

    max_age: float | None = None
    keep_last: int = 0
    keep_within: float | None = None
    keep_hourly: int = 0
    keep_daily: int = 0
    keep_weekly: int = 0
    keep_monthly: int = 0
    keep_yearly: int = 0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None:
                number(value, name)

    @property
    def empty(self) -> bool:
        return self == _NO_RULES

    def buckets(self) -> Mapping[str, int]:
        """How many buckets of each calendar unit to keep, without those that are off."""
        counts = {name: int(getattr(self, f"keep_{name}")) for name in BUCKETS}
        return {name: count for name, count in counts.items() if count > 0}


_NO_RULES = Rules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Upper limits on what stays. None means no limit. `max_bytes` counts the trash, so what it
    takes is deleted at once. `keep_bytes` limits what is not trash, and what it takes goes to the
    trash."""

    max_bytes: int | None = None
    max_count: int | None = None
    keep_bytes: int | None = None

    def __post_init__(self) -> None:
        for cap in (self.max_bytes, self.max_count, self.keep_bytes):
            if cap is not None:
                number(cap, "A cap")

    @property
    def empty(self) -> bool:
        return self.max_bytes is None and self.max_count is None and self.keep_bytes is None


_NO_CAPS = Caps()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Rules and caps for one source, or for all."""

    rules: Rules = Rules()
    caps: Caps = Caps()

    @property
    def empty(self) -> bool:
        return self.rules.empty and self.caps.empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A complete policy: one set of limits for all, others by source, pins, and the trash.

    The caps of `everywhere` apply to all items together, the caps of a source to that source alone.
    A source with limits of its own is judged by its own rules only. `trash_age` is how long undo
    copies stay; None leaves the trash alone. With `use_trash` off, removals are final. What a cap
    on bytes takes is final too, because the trash counts, unless `caps_use_trash`. A delegate with
    at most `trivial_max` messages goes with the session it worked for. Sessions that were archived
    in their own agent are judged only with `agent_archived`. `leftovers` are rules for what an
    agent left that no session owns, by the source of the leftover; those of `ANY_SOURCE` apply to
    sources that are not named. A leftover without a rule stays: the agent may still want it.
    """

    everywhere: Limits = Limits()
    by_source: Mapping[str, Limits] = field(default_factory=dict)
    pins: tuple[str, ...] = ()
    trash_age: float | None = 7 * DAY
    use_trash: bool = True
    caps_use_trash: bool = False
    trivial_max: int = TRIVIAL_MAX
    agent_archived: bool = False
    leftovers: Mapping[str, Rules | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.trivial_max < 0:
            raise UsageError(f"trivial_max cannot be {self.trivial_max}: it must be 0 or more.")
        _check_trash(self)

    @property
    def empty(self) -> bool:
        """True if no rule and no cap is set, whatever the settings of the trash."""
        every = (self.everywhere, *self.by_source.values())
        return all(limits.empty for limits in every) and not any(self.leftovers.values())

    def leftover_rules(self, source: str) -> Rules | None:
        return self.leftovers.get(source, self.leftovers.get(ANY_SOURCE))

    @property
    def has_rules(self) -> bool:
        """True if there is a rule for what may go, and not only a cap."""
        every = (self.everywhere, *self.by_source.values())
        return any(not limits.rules.empty for limits in every)

    def with_own(self, rules: Rules, caps: Caps = _NO_CAPS) -> Policy:
        """This policy for a run that has its own rules or caps.

        These rules replace those of every source, these caps those on all sources together. Empty
        ones replace nothing.
        """
        if rules.empty and caps.empty:
            return self
        everywhere = Limits(
            rules=self.everywhere.rules if rules.empty else rules,
            caps=self.everywhere.caps if caps.empty else caps,
        )
        by_source = {
            source: Limits(rules=limits.rules if rules.empty else rules, caps=limits.caps)
            for source, limits in self.by_source.items()
        }
        return replace(self, everywhere=everywhere, by_source=by_source)

    def rules_for(self, source: str) -> Rules:
        limits = self.by_source.get(source)
        return self.everywhere.rules if limits is None else limits.rules

    def pins_item(self, item: Item) -> bool:
        """True if the item is pinned. A pin is a session id or an item id, or a pattern with * ? [
        ] for them."""
        if item.pinned or not self.pins:
            return item.pinned
        matches = _any_of(self.pins)
        return bool(matches(item.id) or matches(item.session))


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRules:
    """After how many idle seconds a session is removed that has no messages, or at most
    `trivial_max`.

    0 turns a rule off. Agents title sessions automatically, so a title protects a session only with
    `keep_titled`.
    """

    empty_after: float = DAY
    trivial_after: float = 7 * DAY
    trivial_max: int = TRIVIAL_MAX
    keep_titled: bool = False

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not value >= 0:
                raise UsageError(f"{name} cannot be {value}: it must be 0 or more.")

    @property
    def takes_trivial(self) -> bool:
        return self.trivial_after > 0 and self.trivial_max > 0

    @property
    def empty(self) -> bool:
        return self.empty_after == 0 and not self.takes_trivial


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """What to keep of checkpoints. The rules count inside each project; without a rule, everything
    stays that the limits allow.

    A project untouched for `stale_after` seconds is removed as a whole, and so is one whose
    directory is gone, unless `keep_orphans`. The same applies to single repositories of an older
    layout; archives of these stay until the user asks with `legacy`. `max_count` limits each
    project, `max_bytes` everything in the checkpoint folder except older layouts. None means no
    limit. `trash_age` is how long undo copies stay; None leaves the trash alone. With `use_trash`
    off, removals are final. What `max_bytes` takes is final too, because the trash counts, unless
    `caps_use_trash`.
    """

    rules: Rules = field(default_factory=Rules)
    stale_after: float | None = None
    max_count: int | None = None
    max_bytes: int | None = None
    keep_orphans: bool = False
    legacy: bool = False
    trash_age: float | None = 7 * DAY
    use_trash: bool = True
    caps_use_trash: bool = False

    def __post_init__(self) -> None:
        if self.rules.max_age is not None:
            raise UsageError("Checkpoints have no age rule: a project is removed as a whole.")
        for name in ("stale_after", "max_count", "max_bytes"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise UsageError(f"{name} cannot be {value}: it must be 0 or more.")
        _check_trash(self)

    def upkeep_only(self) -> CheckpointPolicy:
        """A policy that removes nothing but old trash, and reclaims space."""
        return CheckpointPolicy(
            keep_orphans=True, trash_age=self.trash_age, use_trash=self.use_trash
        )


def _check_trash(policy: Policy | CheckpointPolicy) -> None:
    if policy.caps_use_trash and not policy.use_trash:
        raise UsageError("Caps cannot use the trash in a run that removes without it.")


@lru_cache(8)
def _any_of(patterns: tuple[str, ...]) -> Callable[[str], re.Match[str] | None]:
    return re.compile("|".join(map(translate, patterns))).match

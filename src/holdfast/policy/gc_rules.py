"""When a session was never worth keeping: how empty, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import UsageError
from holdfast.policy.rules import DAY, TRIVIAL_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRules:
    """After how many idle seconds a session goes that has no messages, or at most `trivial_max`.

    0 turns off the rule it belongs to. Agents give titles by themselves, so that a title says
    nothing of worth unless `keep_titled` says that it does.
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

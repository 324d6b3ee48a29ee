"""What a search asks for, in a store or in the archive."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.errors import UsageError
from holdfast.model.session import Message, SessionFilter, texts_of
from holdfast.value import dataclass, field

_LARGEST = 2**63 - 1  # that a store can count to


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Words to find in messages of the wanted sessions; with `substring`, the text as it stands.

    `since` and `until` bound the time of a message, inclusively.
    """

    text: str
    wanted: SessionFilter = field(default_factory=SessionFilter)
    roles: Collection[str] | None = None
    since: float | None = None
    until: float | None = None
    limit: int = 20
    offset: int = 0
    substring: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "roles", texts_of(self.roles, "roles"))
        if self.limit < 0 or self.offset < 0:
            raise UsageError(
                "A search cannot show fewer than 0 messages, or start before the first."
            )

    @property
    def most(self) -> int:
        """How many of the best have to be known."""
        return min(self.offset + self.limit, _LARGEST)

    def has(self, message: Message) -> bool:
        """Whether a message is among those to be searched. What was taken back is not."""
        when = message.timestamp or 0.0
        return (
            not message.taken_back
            and (self.roles is None or message.role in self.roles)
            and (self.since is None or when >= self.since)
            and (self.until is None or when <= self.until)
        )

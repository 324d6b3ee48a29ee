"""[store]: the database of the sessions."""

from __future__ import annotations

from holdfast.config.key import key
from holdfast.config.kinds import DAYS, DatabaseAddress
from holdfast.policy.rules import DAY
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """[store]."""

    url: str = key(
        DatabaseAddress(),
        "",
        "Keep sessions in this PostgreSQL database, which many machines can use at once:",
        '"postgresql://db.example.org/holdfast". Passwords come from ~/.pgpass or PGPASSWORD.',
        '"" means the file sessions.db of the home.',
    )
    machine_silence_days: float = key(
        DAYS,
        30,
        "A machine that shares the store and was not seen for this many days counts as gone:",
        "sessions that its processes hold can then end as abandoned. 0 means never.",
    )

    @property
    def machine_silence(self) -> float:
        """In seconds; 0 for never."""
        return self.machine_silence_days * DAY

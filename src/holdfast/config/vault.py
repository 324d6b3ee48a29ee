"""[vault]: sessions that are kept although their agent deletes them."""

from __future__ import annotations

from holdfast.config.archive import limits
from holdfast.config.key import key
from holdfast.config.kinds import DAYS, MEGABYTES, Flag, StoreUrl
from holdfast.policy.rules import Limits
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultSettings:
    """[vault]."""

    enabled: bool = key(
        Flag(),
        False,
        "Whether maintenance keeps hard links to the sessions of another agent, so that what",
        "the agent deletes by itself is not lost. They cost little while the agent has them.",
    )
    cold_days: float = key(
        DAYS,
        7,
        "Compress a session this many days after its agent deleted it. 0 does so at once.",
    )
    url: str = key(
        StoreUrl(),
        "",
        "Where compressed sessions of the vault go in place of its own folder: an object store,",
        '"s3://bucket/prefix", "gs://..." or "az://...". The other keys for it are in [archive].',
    )
    retention_days: float = key(
        DAYS,
        0,
        "Maintenance removes sessions that their agent deleted more than this many days ago.",
        "0 keeps them for ever.",
    )
    max_total_size_mb: int = key(
        MEGABYTES,
        0,
        "The most that sessions only in the vault may take, in MB of 1,000,000 bytes. 0: no limit.",
    )

    def limits(self) -> Limits:
        """Which sessions stay in the vault; empty if all do."""
        return limits(self.retention_days, self.max_total_size_mb)

"""Looking after the vault of a home."""

from __future__ import annotations

from holdfast.model.vault import VaultRefresh
from holdfast.ports.home import Home
from holdfast.ports.runs import Clock, Progress
from holdfast.spine.settle import settle


def refresh(
    home: Home, *, command: str, clock: Clock, progress: Progress | None = None
) -> VaultRefresh:
    """Bring the vault up to date. What a killed run left is settled before: what it was removing
    must not look as if the agent had deleted it."""
    if home.vault is None:
        return VaultRefresh()
    with home.log.writing(command) as log:
        settle(log, home, clock=clock)
        return home.vault.refresh(progress)

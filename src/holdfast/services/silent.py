"""A progress for hosts: it shows nothing and never stops."""

from __future__ import annotations


class Silent:
    def step(self, label: str, done: int, total: int | None) -> None:
        """Nobody is watching."""

    def stop_requested(self) -> bool:
        return False

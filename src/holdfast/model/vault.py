"""The result of refreshing the vault, and what the vault holds."""

from __future__ import annotations

from typing import Any

from holdfast.model.item import Problem
from holdfast.model.json_value import JsonValue, fields_to_json
from holdfast.model.text import format_count
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultRefresh:
    """The result of one refresh of the vault, in sessions. `named` got second names. `copied` were
    copied because they are rows of a database or on another file system. `found_alone` were deleted
    by their agent since the last refresh, and `compressed` of those went into bundles. `let_go`
    left the vault because it is off. `set_aside` got another transcript from their agent, and the
    earlier one is kept as a session of its own. `problems` are sessions that could not be taken in,
    and why."""

    named: int = 0
    copied: int = 0
    found_alone: int = 0
    compressed: int = 0
    let_go: int = 0
    set_aside: int = 0
    problems: tuple[Problem, ...] = ()

    def to_json(self) -> dict[str, Any]:
        problems = [{"path": each.path, "reason": each.reason} for each in self.problems]
        return fields_to_json(self, without=("problems",)) | {"problems": problems}

    def describe(self) -> str:
        """`12 sessions kept, 3 of them as copies`."""
        kept = self.named + self.copied
        words = [f"{format_count(kept, 'session')} kept"] if kept else []
        words += [f"{self.copied:,} of them as copies"] if self.copied else []
        words += [f"{self.found_alone:,} deleted by the agent"] if self.found_alone else []
        let_go = format_count(self.let_go, "session")
        words += [f"its links to {let_go} removed"] if self.let_go else []
        words += [f"{self.set_aside:,} replaced by the agent and kept"] if self.set_aside else []
        return ", ".join(words) or "there was nothing else to do"

    @property
    def changed(self) -> bool:
        done = self.named, self.copied, self.found_alone, self.compressed, self.let_go
        return any(done) or self.set_aside > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultFigures(JsonValue):
    """What a vault holds. Of its `sessions`, `alone` were deleted by their agent and take
    `alone_bytes`; everything in the vault takes `bytes`. A second name takes no space."""

    enabled: bool
    place: str
    sessions: int = 0
    alone: int = 0
    alone_bytes: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What an agent deletes by itself: sessions that were not used for this many `days`. `setting`
    is the agent's setting that turns this off or changes it. With `by_file_time`, the mtime of the
    file counts, not the times in its content."""

    days: float
    setting: str
    by_file_time: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultStatus:
    """What the vault of a home holds, and what its agent deletes by itself, if anything."""

    figures: VaultFigures
    sweep: Sweep | None

    @property
    def is_missed(self) -> bool:
        """True if the agent deletes sessions and no vault keeps them."""
        return self.sweep is not None and not self.figures.enabled


#: Sessions that an agent will delete within this many days are worth a warning.
SOON = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Threat:
    """Sessions that their agent will delete soon, while the vault is off."""

    sweep: Sweep
    sessions: int

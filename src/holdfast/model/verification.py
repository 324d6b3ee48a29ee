"""Whether every checkpoint is whole, and what is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One damaged thing of the checkpoint store.

    `kind` is object, pack, ref, record, index or store; `name` an id, or a path in the store.
    `checkpoints` are the ids of those that it costs: they cannot be restored whole. What is
    `harmless` costs none, and is made anew by itself.
    """

    kind: str
    name: str
    reason: str
    checkpoints: tuple[str, ...] = ()
    harmless: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "reason": self.reason,
            "checkpoints": list(self.checkpoints),
            "harmless": self.harmless,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a look at everything found. `checkpoints` is how many were looked at."""

    checkpoints: int
    problems: tuple[Damage, ...] = ()

    @property
    def ok(self) -> bool:
        return all(problem.harmless for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "checkpoints": self.checkpoints,
            "problems": [problem.to_json() for problem in self.problems],
        }

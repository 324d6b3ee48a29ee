"""Whether every checkpoint is complete, and what is damaged."""

from __future__ import annotations

from typing import Any

from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One damaged part of the checkpoint store.

    `kind` is object, pack, ref, record, index or store; `name` is an id, or a path in the store.
    `checkpoints` are the ids of the checkpoints that can no longer be restored completely.
    `harmless` damage affects none and is repaired automatically.
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
    """The result of checking everything. `checkpoints` is how many were checked."""

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

"""Checkpoints on a git remote: where it is, what was pushed to it, and what was fetched from it."""

from __future__ import annotations

from typing import Any

from holdfast.model.checkpoint import Checkpoint, NotCaptured
from holdfast.model.json_value import JsonValue
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote(JsonValue):
    """A remote that was named for checkpoints. `url` is without its password. `pushed` and
    `fetched` count checkpoints."""

    name: str
    url: str
    pushed: int = 0
    fetched: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A checkpoint that is not on the remote yet. `left` are the files that are not pushed, each
    with the reason; `refused` is why the remote rejected the checkpoint, "" if it did not."""

    checkpoint: Checkpoint
    left: tuple[NotCaptured, ...] = ()
    refused: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.checkpoint.id,
            "workdir": self.checkpoint.workdir,
            "time": self.checkpoint.time,
            "reason": self.checkpoint.reason,
            "left": [each.to_json() for each in self.left],
            "refused": self.refused or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """What a push sends or sent. `machine` is the name of this store on the remote, `known` how
    many of the chosen checkpoints were already there."""

    remote: Remote
    machine: str
    sent: tuple[Outgoing, ...] = ()
    known: int = 0

    @property
    def refused(self) -> tuple[Outgoing, ...]:
        return tuple(each for each in self.sent if each.refused)

    @property
    def accepted(self) -> tuple[Outgoing, ...]:
        return tuple(each for each in self.sent if not each.refused)

    def to_json(self) -> dict[str, Any]:
        return {
            "remote": self.remote.name,
            "url": self.remote.url,
            "machine": self.machine,
            "sent": [each.to_json() for each in self.accepted],
            "refused": [each.to_json() for each in self.refused],
            "known": self.known,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable(JsonValue):
    """A reference on the remote that was not fetched, and why."""

    ref: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """What a fetch brought or would bring. `known` checkpoints were here already, or had been here
    and were removed."""

    remote: Remote
    fetched: tuple[Checkpoint, ...] = ()
    known: int = 0
    unusable: tuple[Unusable, ...] = ()
    #: How many would be fetched, by machine and project: a dry run does not read them.
    waiting: tuple[tuple[str, str, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "remote": self.remote.name,
            "url": self.remote.url,
            "fetched": [
                {
                    "id": each.id,
                    "machine": each.machine,
                    "workdir": each.workdir,
                    "time": each.time,
                    "reason": each.reason,
                    "not_captured": len(each.not_captured),
                }
                for each in self.fetched
            ],
            "known": self.known,
            "unusable": [each.to_json() for each in self.unusable],
            "waiting": [
                {"machine": machine, "project": project, "checkpoints": count}
                for machine, project, count in self.waiting
            ],
        }

"""An alarm: a file or folder of an agent is growing faster than it should."""

from __future__ import annotations

import shlex
from typing import Any

from holdfast.model.json_value import JsonValue, fields_to_json
from holdfast.model.text import format_bytes, format_duration
from holdfast.value import dataclass

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer(JsonValue):
    """A process that writes: its pid and command line. If not `sure`, it belongs to the agent but
    was not seen with the file open."""

    pid: int
    command: str
    sure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm(JsonValue):
    """What is growing in `home`, and which processes write it. `bytes` is its size,
    `bytes_per_minute` the pace when it was last seen growing. The growth is over if `ended_at` is
    set."""

    home: str
    path: str
    folder: bool
    first_at: float
    last_at: float
    ended_at: float | None = None
    bytes: int
    bytes_per_minute: float
    writers: tuple[Writer, ...] = ()

    @property
    def active(self) -> bool:
        return self.ended_at is None

    @property
    def message(self) -> str:
        """What is happening, which process does it, and how to stop it."""
        what = "The folder" if self.folder else "The file"
        grows = "grows by" if self.active else "grew by"
        pace = f"{what} {self.path} {grows} {format_bytes(int(self.bytes_per_minute))} a minute"
        return f"{pace} and takes {format_bytes(self.bytes)}. {self._who()}"

    def _who(self) -> str:
        if not self.active:
            return f"That ended after {format_duration(self.last_at - self.first_at)}."
        if not self.writers:
            look = f"lsof {'+D ' * self.folder}{shlex.quote(self.path)}"
            return (
                "No process of yours has it open now; another user's may, or short-lived ones."
                f" To stop it, catch one with `{look}`, and end the program that starts it."
            )
        named = ", ".join(f"{each.pid} ({each.command})" for each in self.writers[:_SHOWN])
        more = f" and {len(self.writers) - _SHOWN} more" if self.writers[_SHOWN:] else ""
        numbers = " ".join(str(each.pid) for each in self.writers[:_SHOWN])
        processes = "process" if len(self.writers) == 1 else "processes"
        by = "Written by" if all(each.sure for each in self.writers) else "Probably written by"
        return (
            f"{by} {processes} {named}{more}. Nothing is deleted while it is in use."
            f" To stop it: kill {numbers}"
        )

    def to_json(self) -> dict[str, Any]:
        return fields_to_json(self, "active", "message")

"""What checking finds: values that hold, and problems."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.config.kinds import Value
from holdfast.config.shown import dotted


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value somebody set, checked, and where it came from."""

    path: tuple[str, ...]
    value: Value
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong, and where. Without a path it concerns the file as a whole."""

    where: str
    what: str
    path: tuple[str, ...] = ()
    line: int | None = None

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        return ": ".join(part for part in (place, dotted(self.path), self.what) if part)

"""What is asked of a look, and what it saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.model.checkpoint import NotCaptured
from holdfast.stores.shadowgit.base import Base
from holdfast.stores.shadowgit.beside import path_text
from holdfast.stores.shadowgit.looking import Looked, carried_left
from holdfast.stores.shadowgit.reading import Signature
from holdfast.stores.shadowgit.state import Listing, State
from holdfast.stores.shadowgit.trees import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to take, and what to say of it."""

    workdir: Path
    project: str
    reason: str
    now: float
    session: str | None
    turn: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A working tree that was looked at and is in the store."""

    base: Base | None
    state: State
    listing: Listing
    standing: str
    excluded: int
    looked: Looked
    root: bytes
    files: bytes
    changed: Mapping[bytes, tuple[Node | None, Node | None]]
    modes_changed: int
    young: Mapping[bytes, Signature]

    @property
    def not_captured(self) -> tuple[NotCaptured, ...]:
        left = sorted(carried_left(self.state, self.looked).items())
        return tuple(NotCaptured(path=path_text(path), reason=why) for path, why in left)

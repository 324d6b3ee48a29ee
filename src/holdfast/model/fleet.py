"""The homes that share a session store, as the store knows them."""

from __future__ import annotations

from holdfast.model.json_value import JsonValue
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(JsonValue):
    """What a home takes on the disk of its machine. The other fields are parts of `bytes`."""

    bytes: int
    checkpoint_bytes: int = 0
    archive_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetHome(JsonValue):
    """One home. Ages are in seconds, by the clock of the server: `heard` since the last sign of
    life from its machine, `figures_age` since its figures were taken, `maintained` since its last
    maintenance, and `ok` whether that succeeded. `gone` means that its machine has been silent for
    too long."""

    machine: str
    home: str
    version: str
    heard: float
    gone: bool = False
    figures: Figures | None = None
    figures_age: float | None = None
    maintained: float | None = None
    ok: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet(JsonValue):
    """A shared store and its homes. `bytes` is what the sessions take on the disk of the server.
    `forgotten` is the number of homes that also wrote to it but are no longer listed."""

    store: str
    sessions: int
    messages: int
    bytes: int
    homes: tuple[FleetHome, ...]
    forgotten: int = 0

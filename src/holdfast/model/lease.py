"""The proof that a process holds a session open."""

from __future__ import annotations

from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process, identified so that it cannot be confused with another one.

    `host` also distinguishes containers, `boot` changes with every boot of the machine, and
    `started` is the start time of the process, so that a reused process id does not count as alive.
    """

    host: str
    boot: str
    process: int
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A holder, the session that it holds, and when it last renewed the lease."""

    session_id: str
    holder: Holder
    heartbeat: float
    released: bool = False

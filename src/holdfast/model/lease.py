"""The proof that a process holds a session open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that cannot be mistaken for another one.

    `host` also tells containers apart; `boot` changes with each start of the machine; `started`
    is when the process began, so that a process id that was used again is not taken for life.
    """

    host: str
    boot: str
    process: int
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A holder, the session it holds, and when it last said so."""

    session_id: str
    holder: Holder
    heartbeat: float
    released: bool = False

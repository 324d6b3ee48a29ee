"""Tells whether a session of Hermes is alive. Any sign protects it, and so does a failed check.

- `runtime/active_sessions.json`: a process that is not provably gone holds the session. Hermes
  writes this file only if the number of sessions is limited, so its absence proves nothing.
- The row: the session has no end, and was active recently or is the current one of a chat; or it is
  being compressed, or one of its delegates is still at work.
- `gateway.pid`: a running gateway may continue any session that it routes to, ended or not.
- Any process with the database open may have any session open that has not ended.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.homes.hermes.state_db.database import others_have_open, strangers_have_open
from holdfast.homes.hermes.state_db.schema import Schema
from holdfast.homes.hermes.state_db.values import loaded
from holdfast.model.text import format_duration
from holdfast.policy.lifecycle import NOT_ENDED, SessionLife
from holdfast.stores import processes
from holdfast.stores.files import open_regular
from holdfast.value import dataclass

ACTIVE = Path("runtime", "active_sessions.json")
GATEWAY = Path("gateway.pid")
ROUTES = Path("sessions", "sessions.json")
_LARGEST = 16 * 1024 * 1024
#: How many ticks two readings of a process's start may differ.
_SAME_START = 2.0
#: True if a process, given by its id and start tick, is provably gone.
_Gone = Callable[[object, object], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """The signs of life at one moment. `doubt` is the reason why no session can be proved dead."""

    held: frozenset[str]
    routed: frozenset[str]
    busy: Mapping[str, str]
    gateway: bool
    open_elsewhere: bool
    abandoned_after: float
    doubt: str | None = None

    def judge(self, session_id: str, *, ended: bool, idle: float) -> SessionLife:
        in_use = self._in_use(session_id)
        if in_use is not None:
            return SessionLife(alive=in_use)
        if ended:
            return SessionLife()
        going_on = self._going_on(session_id, idle)
        if going_on is not None:
            return SessionLife(alive=going_on)
        gone = f"Hermes is not running, idle for {format_duration(idle)}"
        return SessionLife(alive=NOT_ENDED, abandoned=gone)

    def _in_use(self, session_id: str) -> str | None:
        """Why a session is alive, whether it has ended or not."""
        if self.doubt is not None:
            return self.doubt
        if session_id in self.held:
            return "Hermes holds it open"
        if session_id in self.routed and self.gateway:
            return "the gateway routes to it"
        return self.busy.get(session_id)

    def _going_on(self, session_id: str, idle: float) -> str | None:
        """Why a session that has not ended is alive."""
        if session_id in self.routed:
            return "a chat is using it"
        if idle < self.abandoned_after:
            return f"it has not ended, idle for {format_duration(max(0.0, idle))}"
        if self.open_elsewhere:
            return "it has not ended, and Hermes may be running"
        return None


def look(
    root: Path, database: Path, db: sqlite3.Connection, schema: Schema, *, now: float, after: float
) -> Signs:
    """The current signs of life. Inside a write transaction, those from rows cannot change."""
    doubts: list[str] = []
    # Nothing can be proved about a process in another pid namespace.
    is_gone = _never if strangers_have_open(database) else _is_gone
    held = frozenset(_held(root / ACTIVE, doubts, is_gone))
    gateway = _gateway_runs(root / GATEWAY, is_gone)
    routed = frozenset((*_routed(db, schema), *_routed_in_file(root / ROUTES, doubts)))
    return Signs(
        held=held,
        routed=routed,
        busy=dict(_busy(db, schema, now, is_gone)),
        gateway=gateway,
        open_elsewhere=others_have_open(database),
        abandoned_after=after,
        doubt=doubts[0] if doubts else None,
    )


def _held(path: Path, doubts: list[str], is_gone: _Gone) -> Iterator[str]:
    """The sessions in the registry. Its start times come from a clock that can be changed, so they
    prove nothing."""
    document = _document(path, doubts)
    if document is None:
        return
    entries = document.get("entries") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        doubts.append(f"{path} has an unknown form")
        return
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("session_id"), str):
            doubts.append(f"{path} has an unknown form")
            return
        if not is_gone(entry.get("pid"), None):
            yield entry["session_id"]


def _routed(db: sqlite3.Connection, schema: Schema) -> Iterator[str]:
    if schema.has("gateway_routing", "entry_json"):
        for (entry,) in db.execute("SELECT entry_json FROM gateway_routing"):
            yield from _named_in(loaded(entry))
    if schema.has("telegram_dm_topic_bindings", "session_id"):
        for (name,) in db.execute("SELECT session_id FROM telegram_dm_topic_bindings"):
            yield name


def _routed_in_file(path: Path, doubts: list[str]) -> Iterator[str]:
    """The routes file of older gateways: an object of entries by routing key."""
    document = _document(path, doubts)
    if isinstance(document, dict):
        for entry in document.values():
            yield from _named_in(entry)


def _busy(
    db: sqlite3.Connection, schema: Schema, now: float, is_gone: _Gone
) -> Iterator[tuple[str, str]]:
    if schema.has("compression_locks", "expires_at"):
        rows = db.execute("SELECT session_id FROM compression_locks WHERE expires_at > ?", (now,))
        yield from ((name, "it is being compressed") for (name,) in rows)
    if schema.has("async_delegations", "owner_started_at"):
        rows = db.execute(
            """
            SELECT origin_session, origin_ui_session_id, parent_session_id, owner_pid,
                   owner_started_at
            FROM async_delegations WHERE delivery_state != 'delivered'
            """
        )
        for *sessions, process, started in rows:
            if not is_gone(process, started):
                yield from ((name, "one of its delegates is at work") for name in sessions if name)
    if schema.has("sessions", "handoff_state"):
        rows = db.execute("SELECT id FROM sessions WHERE handoff_state IN ('pending', 'running')")
        yield from ((name, "it is being handed over") for (name,) in rows)


def _gateway_runs(path: Path, is_gone: _Gone) -> bool:
    """True if a gateway runs, or may run."""
    doubts: list[str] = []
    document = _document(path, doubts)
    if doubts:
        return True
    if isinstance(document, int):
        return not is_gone(document, None)
    if not isinstance(document, dict):
        return document is not None
    return not is_gone(document.get("pid"), document.get("start_time"))


def _never(_process: object, _ticks: object) -> bool:
    return False


def _is_gone(process: object, ticks: object) -> bool:
    """True only if it can be proved: no process has this id, or the process with this id started at
    another tick since boot."""
    if isinstance(process, bool) or not isinstance(process, int) or process <= 0:
        return False
    if not processes.exists(process):
        return True
    if isinstance(ticks, bool) or not isinstance(ticks, int | float):
        return False
    return processes.began_otherwise(process, ticks, tolerance=_SAME_START)


def _named_in(entry: Any) -> Iterator[str]:
    name = entry.get("session_id") if isinstance(entry, dict) else None
    if isinstance(name, str):
        yield name


def _document(path: Path, doubts: list[str]) -> Any:
    """The content of a small JSON file; None if there is no file. An error is added to `doubts`."""
    try:
        with os.fdopen(open_regular(path), "rb") as raw:
            text = raw.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            doubts.append(f"{path} is larger than {_LARGEST:,} bytes")
            return None
        return json.loads(text) if text.strip() else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        doubts.append(f"{path} cannot be read: {error}")
        return None

"""The open sessions that this process holds: while it lives, they are not ended as abandoned."""

from __future__ import annotations

from holdfast.model.stored_session import Holder
from holdfast.ports.sessions import SessionStore
from holdfast.ports.upkeep import Processes

#: How often a lease is renewed. Its time, `heartbeat`, decides nothing: a holder is dead when its
#: process is (docs/decisions/0015-proof-of-death.md). But the renewal restores a lease that another
#: `Sessions` object of this process released.
_HEARTBEAT_SECONDS = 60.0


class SessionLeases:
    """Takes leases in the store, and remembers them, so that most appends need not write one."""

    def __init__(self, store: SessionStore, processes: Processes) -> None:
        self._store = store
        self._processes = processes
        # Also keyed by holder: after a fork the child is another holder.
        self._held: dict[tuple[str, Holder], float] = {}

    def hold(self, session_id: str, now: float) -> None:
        """Record that this process holds the session; repeated only after a while."""
        holder = self._processes.this_process()
        last = self._held.get((session_id, holder))
        if last is not None and 0 <= now - last < _HEARTBEAT_SECONDS:
            return
        if self._store.hold(session_id, holder, now=now):
            self._held[session_id, holder] = now

    def hold_anew(self, session_id: str, now: float) -> None:
        """The same for a session that was just created or reopened: the remembered lease may have
        ended with the session, or been rolled back with its creation."""
        self._held.pop((session_id, self._processes.this_process()), None)
        self.hold(session_id, now)

    def release(self, session_id: str) -> None:
        """Release the lease, if there is one in the store, even if none is remembered: an end that
        was rolled back has forgotten a lease that still exists."""
        holder = self._processes.this_process()
        self._held.pop((session_id, holder), None)
        self._store.release(session_id, holder)

    def release_all(self) -> None:
        """Release every lease that this process took. They stay on record."""
        if not self._held:
            return
        here = self._processes.this_process()
        mine = [session_id for session_id, holder in self._held if holder == here]
        if mine:
            with self._store.transaction():
                for session_id in mine:
                    self._store.release(session_id, here)
        self._held.clear()

"""The machines that share a store: when each was last heard from, and which of them are gone.

All times are the server's, so the clocks of the machines do not matter. A process on another
machine counts as alive unless one of two things is known: its machine was rebooted since, or has
not been heard from for a long time (`[store] machine_silence_days`).
"""

from __future__ import annotations

import time

from holdfast.model.stored_session import Holder
from holdfast.stores import processes
from holdfast.stores.postgres.database import Database

#: How often, in seconds, a process records its machine at most.
_OFTEN = 60.0
_PID_SPACE = "/pid:["
NOTE = """
    INSERT INTO boots (machine, boot) VALUES (%s, %s)
    ON CONFLICT (machine, boot) DO UPDATE SET last_at = now()
"""
#: A later boot counts only if the earlier one was not heard from since: otherwise two machines with
#: the same identity would declare each other dead.
_GONE = """
    SELECT (%(named)s AND EXISTS (
                SELECT 1 FROM boots later
                WHERE later.machine = mine.machine AND later.boot <> mine.boot
                  AND later.first_at > mine.last_at)),
           extract(epoch FROM now() - (
                SELECT max(last_at) FROM boots every WHERE every.machine = mine.machine))::float8
    FROM boots mine WHERE mine.machine = %(machine)s AND mine.boot = %(boot)s
"""


def here() -> tuple[str, str]:
    """This machine, and its boot."""
    mine = processes.this_process()
    return machine_of(mine.host), mine.boot


def machine_of(host: str) -> str:
    """The machine of a holder: its name and id, without the pid namespace."""
    return host.rpartition(_PID_SPACE)[0] or host


class Heard:
    """Records that this machine was heard from. One for each open store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: tuple[str, str, float] | None = None

    def note(self) -> None:
        """Record the machine in a transaction of its own, so that no other process waits for this
        row. In the caller's transaction only if this process did not do it yet: there must be no
        lease of a machine that was never heard from."""
        (machine, boot), now = here(), time.monotonic()
        if self._noted is not None:
            before = self._noted
            recent = now - before[2] < _OFTEN or self._database.is_writing
            if before[:2] == (machine, boot) and recent:
                return

        self._database.change(NOTE, (machine, boot))
        self._noted = (machine, boot, now)


class Machines:
    """Tells which processes are dead. `silence` is how long a machine may be silent, in seconds; 0
    means forever."""

    def __init__(self, database: Database, silence: float) -> None:
        self._database = database
        self._silence = silence

    def is_dead(self, holder: Holder) -> bool:
        if holder.host == processes.this_process().host:
            return processes.is_dead(holder)
        if not holder.host:
            return False
        machine = machine_of(holder.host)
        # A host name alone does not identify a machine.
        named = "/" in machine and bool(holder.boot)
        found = self._database.query(
            _GONE, {"machine": machine, "boot": holder.boot, "named": named}
        ).first
        if found is None:  # never heard from: a lease of an older version
            return False
        restarted, silent = found
        return bool(restarted) or (0 < self._silence < silent)

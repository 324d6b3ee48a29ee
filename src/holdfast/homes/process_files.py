"""Files that an agent keeps of its processes, PID.json each, with the session that a process has.

A crash leaves them behind, and numbers of processes are used again: the time at which the process
began tells.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.homes import life
from holdfast.homes.records import whole_records
from holdfast.model.part import Signs


def registered_in(folder: Path) -> Signs:
    """Sessions whose process still runs. Agents write its beginning in ticks, some with the id of
    the machine's start before it."""
    alive = {}
    for path in folder.glob("*.json"):
        said = next(whole_records(path), None)
        if said is None:  # torn, or just being written: its name is the number of the process
            if life.start_ticks(int(path.stem)) is not None:
                return Signs(home=f"{path.name} cannot be read, and its process runs")
            continue
        began = str(said.get("procStart") or "").rpartition(":")[2] or None
        domain = str(said.get("pidDomain") or "")
        why = life.registered(int(said["pid"]), began=began, domain=domain)
        if why is not None:
            alive[str(said["sessionId"])] = f"{folder.name}/{path.name}: {why}"
    return Signs(units=alive)

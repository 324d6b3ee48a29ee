"""Which process this is, and whether another one still lives."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

from holdfast.model.lease import Holder

_START_FIELD = 19  # of /proc/PID/stat after the name: when the process began, in ticks since boot


def this_process() -> Holder:
    return _this(os.getpid())


@cache
def _this(process: int) -> Holder:
    return Holder(host=_host(), boot=_boot(), process=process, started=_started(process) or "")


def is_dead(holder: Holder) -> bool:
    """True only when it can be proved. Another host is never declared dead from here."""
    if holder.host != _host() or not holder.started:
        return False
    if holder.boot != _boot():
        return True  # this machine has been started anew since
    started = _started(holder.process)
    return started is None or started not in ("", holder.started)


def exists(process: int) -> bool:
    """False only when there is provably no such process on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # somebody else's
    return True


def started_ticks(process: int) -> float | None:
    """When a process began, in ticks since the start of the machine; None when nobody says."""
    text = _started(process) if Path("/proc/self/stat").exists() else None
    return float(text) if text else None


def started_at(process: int) -> float | None:
    """When a process began, in epoch seconds; None when nobody says."""
    import psutil  # noqa: PLC0415 - only for processes that others wrote down so

    try:
        return float(psutil.Process(process).create_time())
    except psutil.Error:
        return None


def _started(process: int) -> str | None:
    """When a process began, as text to compare; None when there is no such process.

    On Linux in ticks since boot: unlike a wall-clock time this does not move when the clock does.
    """
    if Path("/proc/self/stat").exists():
        try:
            status = Path(f"/proc/{process}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return None
        except OSError:
            return ""  # it exists, and does not say: not provably another one
        return status.rpartition(b")")[2].split()[_START_FIELD].decode("ascii")
    import psutil  # noqa: PLC0415 - only where there is no /proc

    try:
        return f"{psutil.Process(process).create_time():.0f}"
    except psutil.NoSuchProcess:
        return None


@cache
def _host() -> str:
    """Machine and container: the process ids of two containers are not comparable."""
    parts = [socket.gethostname()]
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(OSError):
            parts.append(Path(path).read_text("ascii").strip())
            break
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 - no path, a name
    return "/".join(parts)


@cache
def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    import psutil  # noqa: PLC0415 - only where there is no /proc

    return f"{psutil.boot_time():.0f}"

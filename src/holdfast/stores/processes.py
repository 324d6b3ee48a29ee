"""Identifies this process, and finds out whether another one is still alive.

Death must be proved. There are three proofs: the machine has rebooted since; the kernel reports
that no process has this id; or the process with this id started at another time. What cannot be
read proves nothing. Neither does what was recorded in another namespace: process ids belong to a
pid namespace, start times to a time namespace.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.model.stored_session import Holder

_PROC = Path("/proc")
_LINUX = sys.platform == "linux"
_START_FIELD = 19  # of /proc/PID/stat after the name: when the process began, in ticks since boot
#: The inode of the initial pid namespace, from which all processes can be seen.
_FIRST_PID_SPACE = 0xEFFFFFFC
#: For kernels without time namespaces.
_ONE_TIME = "time:[]"
_NAMED_MACHINE = 3  # name, machine id, pid namespace
_FULL = (errno.EMFILE, errno.ENFILE)
_TRACES_ALL = 1 << 19  # CAP_SYS_PTRACE


def this_process() -> Holder:
    return _this(os.getpid())


@cache
def _this(process: int) -> Holder:
    full = _no_descriptor_left()
    if full is not None:
        # An identity without start time or boot id would be cached, and it could never be proved
        # that this holder is gone. A lack of descriptors is temporary: the caller may try again.
        raise _unknown(full) from full
    return Holder(host=_host(), boot=_boot(), process=process, started=_began())


def _unknown(full: OSError) -> StorageError:
    return StorageError(
        f"Cannot tell which process this is: {full.strerror}.",
        hint="Close some files, or raise the limit (`ulimit -n`), and try again.",
    )


def _read(path: Path) -> bytes:
    """The content of a system file; empty if it cannot be read. Raises if no descriptor is left:
    another thread may have taken the last one since we checked. Bytes, because reading text may
    import its codec, which takes a second descriptor."""
    try:
        return path.read_bytes()
    except OSError as error:
        if error.errno in _FULL:
            raise _unknown(error) from error
        return b""


def is_dead(holder: Holder) -> bool:
    """True only if the death is proved. A holder on another host is never declared dead from
    here."""
    if _no_descriptor_left() is not None:
        return False  # nothing can be read now, and that must not be cached
    with suppress(StorageError):
        return _is_proved(holder)
    return False


def _is_proved(holder: Holder) -> bool:
    if not holder.started or not holder.host or holder.host != _host() or holder.process <= 0:
        return False
    boot = _boot()
    same_start = bool(boot) and holder.boot == boot
    if not same_start:
        if not _names_a_machine(holder.host):
            return False
        if boot and holder.boot:
            return True  # this machine has rebooted since
    if not exists(holder.process):
        return True
    return same_start and _is_another(holder.process, holder.started)


def _no_descriptor_left() -> OSError | None:
    """The error that keeps any file below /proc from being opened right now; None if there is
    none."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error if error.errno in _FULL else None
    return None


def exists(process: int) -> bool:
    """False only if it is proved that no process has this id here."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # it belongs to another user
    return True


def began_otherwise(process: int, ticks: float, *, tolerance: float) -> bool:
    """True if it is proved that a process is not the one that recorded this start time, in ticks
    since boot."""
    began, here = _ticks(process), _time_space("self")
    if began is None or here is None or _time_space(process) != here:
        return False
    return abs(float(began) - ticks) > tolerance


def is_outermost() -> bool:
    """True if this process is outside any container. Inside, it cannot see outside processes."""
    with suppress(OSError):
        return os.stat(_PROC / "self" / "ns" / "pid").st_ino == _FIRST_PID_SPACE  # noqa: PTH116
    return False


def hides_some() -> bool:
    """True if /proc hides processes (mounted with `hidepid`)."""
    try:
        lines = (_PROC / "self" / "mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return True
    mounts = [words for line in lines if (words := line.split())[4:5] == [str(_PROC)]]
    given = dict(each.partition("=")[::2] for each in mounts[-1][-1].split(",")) if mounts else {}
    if given.get("hidepid", "off") in ("0", "off"):
        return False
    exempt = given.get("gid", "0")
    return not _sees_through() and exempt not in map(str, (os.getegid(), *os.getgroups()))


def _sees_through() -> bool:
    """True if no process can hide from this one, because it may trace all others."""
    held = _status(b"CapEff:")
    return held is not None and bool(int(held[0], 16) & _TRACES_ALL)


def _names_a_machine(host: str) -> bool:
    """True if a host identifies a machine: a host name alone does not, two machines may share
    it."""
    return not _LINUX or host.count("/") + 1 >= _NAMED_MACHINE


def _is_another(process: int, started: str) -> bool:
    """True if a process id was reused: the process that has it started at another time."""
    ticks, _, time_space = started.partition("@")
    began, here = _ticks(process), _time_space("self")
    if began is None or here is None:
        return False
    # Older versions did not record the time namespace. If this process is the holder, its time
    # namespace is the holder's.
    return (time_space or _time_space(process)) == here and began != ticks


def _began() -> str:
    """The start time and time namespace of this process, as a string to compare. Setting the clock
    does not change ticks since boot."""
    if not _LINUX:
        return _created(os.getpid()) or ""
    ticks, time_space = _stat_ticks("self"), _time_space("self")
    return f"{ticks}@{time_space}" if ticks and time_space else ticks or ""


def _ticks(process: int) -> str | None:
    """The start time of a process; None if it cannot be read here."""
    if not _LINUX:
        return _created(process)
    with suppress(StorageError):
        return _stat_ticks(str(process)) if _counts_like_us() else None
    return None


def _stat_ticks(process: str) -> str | None:
    try:
        status = _read(_PROC / process / "stat")
        ticks = status.rpartition(b")")[2].split()[_START_FIELD].decode("ascii")
    except (IndexError, UnicodeDecodeError):
        return None  # it does not exist or is hidden; we cannot tell which
    return ticks if ticks.isdecimal() else None


def _created(process: int) -> str | None:
    import psutil  # noqa: PLC0415 - only where there is no /proc

    try:
        return f"{psutil.Process(process).create_time():.0f}"
    except psutil.Error:
        return None


def _counts_like_us() -> bool:
    """True if the process ids in /proc are those of our pid namespace: it may be the /proc of an
    outer namespace, where every process has another id."""
    return _status(b"NSpid:") == [str(os.getpid()).encode()]


def _status(field: bytes) -> list[bytes] | None:
    """One field of this process's status in /proc; None if it is missing."""
    with suppress(OSError):
        for line in (_PROC / "self" / "status").read_bytes().splitlines():
            if line.startswith(field):
                return line.split()[1:]
    return None


def _time_space(process: int | str) -> str | None:
    """The time namespace of a process; None if we may not read it."""
    if not _LINUX or not _has_time_spaces():
        return _ONE_TIME
    try:
        return os.readlink(_PROC / str(process) / "ns" / "time")  # noqa: PTH115 - no path, a name
    except OSError:
        return None


@cache
def _has_time_spaces() -> bool:
    try:
        return "time" in os.listdir(_PROC / "self" / "ns")  # noqa: PTH208 - names are wanted
    except OSError:
        return True  # unknown, so assume that there are


def host_name() -> str:
    """The host name of this machine."""
    return os.uname().nodename


@cache
def machine_id() -> str:
    """An id that no other machine has; empty if there is none."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(UnicodeDecodeError):
            named = _read(Path(path)).decode("ascii").strip()
            if named:
                return named
    return ""


@cache
def _host() -> str:
    """Machine and pid namespace: process ids of two containers cannot be compared. Empty if the
    namespace is unknown."""
    parts = [host_name()]
    if named := machine_id():
        parts.append(named)
    if _LINUX:
        try:
            parts.append(os.readlink(_PROC / "self" / "ns" / "pid"))  # noqa: PTH115 - no path
        except OSError:
            return ""
    return "/".join(parts)


@cache
def _boot() -> str:
    """The boot id; empty if it is unknown. The boot time would not do: it changes with the
    clock."""
    with suppress(UnicodeDecodeError):
        return _read(_PROC / "sys" / "kernel" / "random" / "boot_id").decode("ascii").strip()
    return ""

"""Signs of life that formats share: processes, locks, open files. The checks are passive: they take
no lock, and open nothing for writing."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.homes.agents.json_lines import whole_records
from holdfast.homes.foreign.shared_scan import once
from holdfast.model.part import Signs
from holdfast.value import dataclass, field, replace

_PROC = Path("/proc")
#: The program, an interpreter's option and script, and one more: `node --no-warnings
#: /usr/lib/agent/cli.js`.
_WORDS = 4
#: A shorter folder name is ambiguous: `/home/pi/` is not the agent pi.
_TELLING = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Processes of an agent under this user: their working directories, with the evidence. `named`
    are their arguments, one of which may be the id of a session, with or without dashes.
    `unreadable` is set if a process hides its working directory."""

    folders: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    unreadable: str | None = None

    def __bool__(self) -> bool:
        return bool(self.folders) or self.unreadable is not None


def running(programs: Sequence[str]) -> Running:
    """The working directories of an agent's processes. A process belongs to the agent if a program
    has that file name, or if a folder on the path of its script has it."""
    if not programs:
        return Running()
    found = Running()
    unreadable = None
    for number, words, folder in _seen_processes():
        if is_one_of(words, programs):
            if folder is None:
                unreadable = f"process {number} hides its working directory"
            else:
                found.folders[folder] = f"process {number} works there"
            for word in words:
                name = word.rpartition("=")[2]
                found.named[name] = found.named[name.replace("-", "")] = (
                    f"process {number} was started with it"
                )
    return replace(found, unreadable=unreadable)


def serving(programs: Sequence[str], words: Sequence[str]) -> str | None:
    """A process of an agent that serves sessions of any folder, recognised by one of its arguments:
    a web server, a daemon, an editor's helper. Its program is also among the words, whatever its
    folder."""
    for number, said, _ in _seen_processes():
        if is_one_of(said, programs) and {os.path.basename(each) for each in said} & set(words):  # noqa: PTH119 - plain strings
            return f"process {number} serves sessions of any folder"
    return None


def is_one_of(words: Sequence[str], programs: Sequence[str]) -> bool:
    folders = [f"/{each}/" for each in programs if len(each) >= _TELLING]
    return any(
        os.path.basename(word) in programs or any(each in word for each in folders)  # noqa: PTH119 - plain strings
        for word in words[:_WORDS]
    )


def _seen_processes() -> Sequence[tuple[int, Sequence[str], str | None]]:
    """Cached: looking at all processes takes longer than reading a small home."""
    return once("processes", lambda: [*_processes()])


def _processes() -> Iterator[tuple[int, Sequence[str], str | None]]:
    """Every other process of this user: its id, its command line, its working directory."""
    if sys.platform != "linux":
        yield from _listed()
        return
    mine, user = os.getpid(), os.getuid()
    for name in os.listdir(_PROC):  # noqa: PTH208 - plain strings: half the time of a full scan
        if not name.isdigit() or int(name) == mine:
            continue
        place = f"{_PROC}/{name}"
        try:
            if os.stat(place).st_uid != user:  # noqa: PTH116
                continue
            with open(f"{place}/cmdline", "rb", buffering=0) as file:  # noqa: PTH123
                words = file.readall().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended in the meantime
        try:
            folder: str | None = os.readlink(f"{place}/cwd")  # noqa: PTH115
        except FileNotFoundError:
            continue
        except OSError:
            folder = None
        yield int(name), words, folder


def _listed() -> Iterator[tuple[int, Sequence[str], str | None]]:
    import psutil  # noqa: PLC0415 - only needed without /proc

    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.uids().real != os.getuid():
                continue
            words = process.cmdline()
        except (psutil.Error, OSError):
            continue
        try:
            folder: str | None = process.cwd()
        except (psutil.Error, OSError):
            folder = None
        yield process.pid, words, folder


def locked(path: Path) -> str | None:
    """Return who holds a lock on a file, from /proc/locks: trying the lock would make the agent
    fail.

    Compares only the inode, because an overlay shows another device. A false match only protects.
    """
    try:
        inode = str(path.stat().st_ino)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"
    try:
        lines = (_PROC / "locks").read_text().splitlines()
    except OSError as error:
        return f"locks cannot be read ({error.strerror})"
    for words in map(str.split, lines):
        if words[-3].rpartition(":")[2] == inode:
            return f"process {words[-4]} holds {path.name}"
    return None


def held(locks: Mapping[str, Path]) -> dict[str, str]:
    """The sessions whose lock is held, with the reason. Maps each session to its lock file."""
    return {name: why for name, path in locks.items() if (why := locked(path))}


def opened_by(paths: Iterable[Path]) -> str | None:
    """Return which process has one of these files open, as a message."""
    for path in paths:
        for process in holders_of(path):
            return f"process {process} has {path.name} open"
    return None


def opened_below(roots: Sequence[Path]) -> dict[str, str]:
    """Files below these folders that other processes have open, with the evidence, and all folders
    above them. A plan that is only displayed must not list what a removal would skip."""
    tops = [f"{os.path.realpath(each)}{os.sep}" for each in roots]
    found: dict[str, str] = {}
    for number, path in _seen_open_files():
        top = next((each for each in tops if path.startswith(each)), None)
        name = path.rpartition(os.sep)[2]
        step = path
        while top is not None and len(step) >= len(top):
            found.setdefault(step, f"{name} is open in process {number}")
            step = step.rpartition(os.sep)[0]
    return found


def holders_of(path: Path) -> dict[int, Sequence[str]]:
    """Processes that have a file open, with their command lines."""
    wanted = str(path.resolve())
    found: dict[int, Sequence[str]] = {}
    for number, target in _seen_open_files():
        if target == wanted and number not in found:
            with contextlib.suppress(OSError):
                words = (_PROC / str(number) / "cmdline").read_bytes().decode(errors="replace")
                found[number] = words.split("\0")
    return found


def _seen_open_files() -> Sequence[tuple[int, str]]:
    return once("open files", lambda: [*_open_files()])


def _open_files() -> Iterator[tuple[int, str]]:
    """Every file that another process has open, as far as this user may see. What cannot be read is
    left out: a removal checks again, file by file."""
    mine = str(os.getpid())
    for name in os.listdir(_PROC) if sys.platform == "linux" else ():  # noqa: PTH208
        if name.isdigit() and name != mine:
            yield from ((int(name), target) for _, target in _open_in(name))


def _open_in(process: int | str) -> Iterator[tuple[str, str]]:
    """The open files of a process with their descriptors. A file that is closed in the meantime
    does not hide the others."""
    folder = f"{_PROC}/{process}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - there may be a hundred thousand
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{name}")  # noqa: PTH115
                if target.startswith(os.sep) and not target.startswith("/dev/"):
                    yield name, target


def commands() -> dict[int, Sequence[str]]:
    """Every other process of this user, with its command line."""
    return {number: words for number, words, _ in _seen_processes()}


def opened_files(processes: Iterable[int]) -> Iterator[tuple[int, str, int]]:
    """Every file that these processes have open, with the flags of `os.open`. Without /proc there
    is no quick way to tell, so nothing is yielded."""
    for number in processes if sys.platform == "linux" else ():
        for name, target in _open_in(number):
            with contextlib.suppress(OSError, ValueError, IndexError):
                said = (_PROC / str(number) / "fdinfo" / name).read_text()
                yield number, target, int(said.split("flags:")[1].split()[0], 8)


def start_ticks(process: int) -> str | None:
    """The start time of a process, in ticks since boot. None if there is no such process, or if it
    is a zombie: without a parent that waits for it, it stays one."""
    try:
        said = (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
        return None if said[0] in ("Z", "X") else said[19]
    except (OSError, IndexError):
        return None


def registered(process: int, *, began: str | None = None, domain: str = "") -> str | None:
    """Return why a process that an agent registered still counts as running; None if it has ended.
    `began` is its registered start time in ticks, `domain` the domain of its process id.

    A reused process id proves nothing: the start time must match. A process in another container,
    or on another machine that shares the home, has its own process ids: nothing here proves its
    death.
    """
    here = process_domain()
    if domain and here and domain != here:
        return (
            f"process {process} of another machine or container had it open; whether it has ended"
            " cannot be determined here. If it has, delete that file"
        )
    ticks = start_ticks(process)
    if ticks is None or (began is not None and began != ticks):
        return None
    return f"process {process} has it open"


def process_domain() -> str:
    """The machine and container in which our process ids are valid, in the form that agents write;
    empty if unknown."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
        return f"linux:{machine}:{(_PROC / 'self' / 'ns' / 'pid').readlink()}" if machine else ""
    except OSError:
        return ""


def registered_in(folder: Path) -> Signs:
    """Sessions whose process still runs, from the files PID.json that an agent keeps. A crash
    leaves them behind, and process ids are reused, so the start time must match. Agents write it in
    ticks, some of them after the boot id."""
    alive = {}
    for path in folder.glob("*.json"):
        said = next(whole_records(path), None)
        if said is None:  # torn, or still being written: its name is the process id
            if start_ticks(int(path.stem)) is not None:
                return Signs(home=f"{path.name} cannot be read, and its process runs")
            continue
        began = str(said.get("procStart") or "").rpartition(":")[2] or None
        domain = str(said.get("pidDomain") or "")
        why = registered(int(said["pid"]), began=began, domain=domain)
        if why is not None:
            alive[str(said["sessionId"])] = f"{folder.name}/{path.name}: {why}"
    return Signs(units=alive)

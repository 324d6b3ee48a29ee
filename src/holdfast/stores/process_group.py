"""A command in a process group of its own, which can be stopped together with everything it
started.

On a terminal the group is in the foreground, as a shell would do it: keys such as Ctrl-C and Ctrl-Z
reach the command, not us. A process that left the group (a server that a tool started in the
background) is still found, because on Linux orphaned descendants become our children.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.errors import UsageError

_LINUX = sys.platform == "linux"
_PROC = Path("/proc")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_PARENT_FIELD = 1  # of /proc/PID/stat after the name
#: How often to check for a stop by Ctrl-Z, for which there is no descriptor to wait on.
_LOOK_EVERY = 0.2
_SHELL_SIGNAL = 128
#: Back to the normal screen, cursor on, bracketed paste and mouse reporting off.
_USUAL_SCREEN = b"\x1b[?1047l\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1006l"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ProcessGroup:
    """A running command. `wait` returns how it ended, `signal` reaches all of its processes."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environ: Mapping[str, str],
        terminal: int | None,
        stdout: int | None = None,
        started: Callable[[ProcessGroup], None] = lambda _: None,
        not_of_it: Callable[[], Collection[int]] = frozenset,
    ) -> None:
        """`not_of_it` returns processes that we started ourselves, in groups of their own."""
        self._not_of_it = not_of_it
        self._terminal = terminal
        self._modes = _modes(terminal)
        self._signalled = False
        self._paused = False
        self._ours = os.getpgrp()
        self._code: int | None = None
        _adopt_orphans()
        # A signal between the start and `started` would end us and leave the command running.
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            self._start(command, cwd, environ, stdout)
            started(self)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _start(
        self, command: Sequence[str], cwd: Path, environ: Mapping[str, str], stdout: int | None
    ) -> None:
        try:
            self._child = subprocess.Popen(
                command,
                cwd=cwd,
                env=dict(environ),
                stdout=stdout,
                preexec_fn=self._lead,  # noqa: PLW1509 - no other thread runs yet
            )
        except OSError as error:
            raise UsageError(
                f"Cannot run {command[0]}: {error.strerror}.",
                hint="The command and each of its arguments are separate words.",
            ) from error
        self._ended = os.pidfd_open(self._child.pid) if hasattr(os, "pidfd_open") else None

    @property
    def leader(self) -> int:
        return self._child.pid

    def _lead(self) -> None:
        """Runs in the new process before the command: creates the group and gives it the
        terminal."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        os.setpgid(0, 0)
        self._to_foreground(os.getpid())

    def _to_foreground(self, group: int) -> None:
        if self._terminal is None:
            return
        # A background process that changes the foreground group is stopped, unless it ignores
        # SIGTTOU.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with suppress(OSError):  # the terminal may be gone
            os.tcsetpgrp(self._terminal, group)
        signal.signal(signal.SIGTTOU, before)

    def wait(self, seconds: float) -> int | None:
        """The exit code of the command, as a shell reports it; None if it still runs after
        `seconds`."""
        until = time.monotonic() + seconds
        while self._code is None:
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._sleep(min(left, _LOOK_EVERY))
            self._look()
        return self._code

    def _sleep(self, seconds: float) -> None:
        if self._ended is None:
            time.sleep(min(seconds, _LOOK_EVERY / 4))
        else:
            select.select([self._ended], [], [], seconds)

    def _look(self) -> None:
        how = os.WNOHANG | os.WUNTRACED | os.WCONTINUED
        process, status = os.waitpid(self._child.pid, how)
        if not process:
            return
        if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
            self._paused = os.WIFSTOPPED(status)
            if self._paused and self._terminal is not None:
                self._stop_with_it(self._terminal)
            return
        code = os.waitstatus_to_exitcode(status)
        self._code = code if code >= 0 else _SHELL_SIGNAL - code
        self._child.returncode = code  # so that Popen does not wait for it again
        self._signalled |= code < 0
        self._to_foreground(self._ours)
        self._tidy()

    def _tidy(self) -> None:
        """Restore the terminal. A command killed by a signal may have had no time to do that, and
        typing would stay invisible. If the command ended by itself, its changes stay."""
        if self._terminal is None or self._modes is None or not self._signalled:
            return
        if _modes(self._terminal) in (None, self._modes):
            return
        with suppress(OSError, termios.error):
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._modes)
            os.write(self._terminal, _USUAL_SCREEN)

    def _stop_with_it(self, terminal: int) -> None:
        """After Ctrl-Z, stop as well, so that the shell takes over; continue together after `fg`.
        Without a terminal there is no shell to do that: whatever paused the command must continue
        it."""
        self._to_foreground(self._ours)
        os.killpg(self._ours, signal.SIGSTOP)
        with suppress(OSError):
            if os.tcgetpgrp(terminal) == self._ours:  # after `bg` the shell has it
                self._to_foreground(self._child.pid)
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal to the group, and to processes that left it. A paused command is continued,
        or it would not get the signal."""
        self._signalled = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)
            if number in _ENDING and (self._paused or _is_stopped(self._child.pid)):
                os.killpg(self._child.pid, signal.SIGCONT)
        for process in self._outside():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)

    def alive(self) -> bool:
        """True if any of its processes still runs: the command itself may have ended first."""
        return self._code is None or _has_members(self._child.pid) or any(self._outside())

    def _outside(self) -> Iterator[int]:
        """Processes that the command started and that are in another group by now.

        These are the descendants of the command, and orphans that became our children. Other
        children of ours, such as git, are in our own group.
        """
        own = self._not_of_it()
        parents, groups = _processes()
        below = {self._child.pid}
        for process, parent in parents.items():
            if parent == os.getpid() and groups[process] != self._ours and process not in own:
                below.add(process)
        grown = True
        while grown:
            more = {process for process, parent in parents.items() if parent in below} - below
            below |= more
            grown = bool(more)
        return (each for each in below if groups.get(each) not in (None, self._child.pid))

    def close(self) -> None:
        self._to_foreground(self._ours)
        self._tidy()
        if self._ended is not None:
            os.close(self._ended)
            self._ended = None


def _modes(terminal: int | None) -> list[Any] | None:
    try:
        return None if terminal is None else termios.tcgetattr(terminal)
    except termios.error:
        return None


def _adopt_orphans() -> None:
    if _LINUX:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _has_members(group: int) -> bool:
    parents, groups = _processes()
    if not parents:  # no /proc: a zombie counts too, but not for long
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True
    return group in groups.values()


def _is_stopped(process: int) -> bool:
    """True if a process is stopped right now, as far as the system reports it."""
    with suppress(OSError, IndexError):
        fields = (_PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()
        return fields[0] == b"T"
    return False


def _processes() -> tuple[Mapping[int, int], Mapping[int, int]]:
    """The parent and the group of every live process, as far as the system reports them."""
    parents: dict[int, int] = {}
    groups: dict[int, int] = {}
    if not _LINUX:
        return parents, groups
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError):  # it may end meanwhile
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] not in (b"Z", b"X"):
                parents[int(entry.name)] = int(fields[_PARENT_FIELD])
                groups[int(entry.name)] = int(fields[_PARENT_FIELD + 1])
    return parents, groups


def foreground_terminal() -> int | None:
    """The terminal if this process is in its foreground; otherwise None."""
    with suppress(OSError, ValueError):
        terminal = sys.stdin.fileno()
        if os.isatty(terminal) and os.tcgetpgrp(terminal) == os.getpgrp():
            return terminal
    return None

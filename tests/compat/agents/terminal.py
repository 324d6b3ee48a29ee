"""A terminal for agents that want one: what they draw, as text, and keys that are typed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

#: Moves to the right and to another place stand for blanks.
_GAPS = re.compile(r"\x1b\[\d*C|\x1b\[\d*(?:;\d*)?H")
_CONTROL = re.compile(r"\x1b\[[0-9;:?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")
PATIENCE = 60.0


class Terminal:
    """A program in a terminal of its own. Closing it ends the program."""

    def __init__(self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._raw = bytearray()
        ours, theirs = pty.openpty()
        self._terminal = ours
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 160, 0, 0))
        self.process = subprocess.Popen(
            words,
            cwd=cwd,
            env=env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while drawn := os.read(self._terminal, 65_536):
                self._raw += drawn

    @property
    def text(self) -> str:
        drawn = _GAPS.sub(" ", bytes(self._raw).decode(errors="replace"))
        return _CONTROL.sub("", drawn)

    def wait(self, done: Callable[[str], bool]) -> str:
        """What is drawn as soon as it is what we wait for."""
        until = time.monotonic() + PATIENCE
        while not done(self.text):
            assert time.monotonic() < until, f"nothing came of it:\n{self.text[-3_000:]}"
            assert self.process.poll() is None, f"it ended:\n{self.text[-3_000:]}"
            time.sleep(0.1)
        return self.text

    def settled(self, seconds: float = 1.5, *, most: float = 8.0) -> str:
        """What is drawn when nothing new has come for a while. Some never stand still."""
        seen, since = -1, time.monotonic()
        until = since + most
        while time.monotonic() - since < seconds and time.monotonic() < until:
            if len(self._raw) != seen:
                seen, since = len(self._raw), time.monotonic()
            time.sleep(0.1)
        return self.text

    def type(self, text: str) -> None:
        """Typed and entered apart: agents take both at once for something pasted."""
        os.write(self._terminal, text.encode())
        time.sleep(0.5)
        os.write(self._terminal, b"\r")

    def close(self, how: int = signal.SIGTERM) -> None:
        """Ends the program and what it started in this terminal."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, how)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=10)
        os.close(self._terminal)

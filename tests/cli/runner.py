"""Running the command as a user does: real processes, pipes and terminals."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import selectors
import signal
import struct
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli import forked
from tests.cli.privileges import as_nobody_special

COMMAND = (sys.executable, "-m", "holdfast")
#: A run that takes longer than this hangs.
PATIENCE = 60.0
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How one run ended. `out` and `err` are the same on a terminal that has both."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout; anything else there is an error."""
        assert self.out.startswith("{"), self
        assert self.out.endswith("}\n"), self
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """What a person sees on stdout, without colours. Progress is wiped when work is done, which
        a busy machine may show."""
        shown = _ANSI.sub("", self.out).split("\n")
        return [line.rpartition("\r")[2] for line in shown[: -1 if not shown[-1] else None]]

    @property
    def words(self) -> str:
        """Everything said, on one line: for phrases that may be folded anywhere."""
        return " ".join((self.out + self.err).split())

    @property
    def coloured(self) -> bool:
        return "\x1b" in self.out + self.err


def environment(user_home: Path, **more: str) -> dict[str, str]:
    """Nothing of the machine's own settings, and never its home."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return kept | {
        "HOME": str(user_home),
        "TERM": "xterm-256color",
        **forked.environment_at_start(),
        **more,
    }


def run(
    args: Sequence[str | bytes],
    env: Mapping[str, str],
    *,
    stdin: str | None = None,
    cwd: Path | None = None,
    before: Sequence[str] = (),
) -> Result:
    """Run `holdfast ARGS` with pipes. `before` is put in front of the command, like `env` or
    `nice`. Without `stdin` there is nothing to read.
    """
    given = (stdin or "").encode()
    weak = bool(before) and before == as_nobody_special()
    if not before or weak:
        done = forked.run(args, env, given, cwd=cwd, weak=weak, patience=PATIENCE)
        if done is not None:
            return _checked(args, done.returncode, done.stdout, done.stderr)
    done = subprocess.run(
        [*before, *COMMAND, *args],
        check=False,
        capture_output=True,
        env=dict(env),
        cwd=cwd,
        timeout=PATIENCE,
        input=given,
    )
    return _checked(args, done.returncode, done.stdout, done.stderr)


def _checked(args: Sequence[str | bytes], code: int, out: bytes, err: bytes) -> Result:
    """What holds for every run: no stack trace unless asked for, no error that is a bug."""
    result = Result(
        code=code,
        out=out.decode("utf-8", "surrogateescape"),
        err=err.decode("utf-8", "surrogateescape"),
    )
    if "--debug" not in args:
        assert "Traceback" not in result.out + result.err, result
    assert "Internal error" not in result.out + result.err, result
    assert "Exception ignored" not in result.err, result
    return result


class Terminal:
    """A command on a pseudo-terminal, its stdout there too or in a pipe of its own."""

    def __init__(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        *,
        columns: int = 80,
        pipe_stdout: bool = False,
        cwd: Path | None = None,
    ) -> None:
        self._args = args
        self._screen, terminal = os.openpty()
        tty.setraw(terminal, termios.TCSANOW)  # no echo, no \r: what is read is what was written
        _send_lines_as_typed(terminal)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self._pipe: int | None = None
        stdout = os.dup(terminal)
        if pipe_stdout:
            os.close(stdout)
            self._pipe, stdout = os.pipe()
        self._process: forked.Process = forked.start(
            args, env, (terminal, stdout, terminal), cwd=cwd, session=True
        ) or subprocess.Popen(
            [*COMMAND, *args],
            stdin=terminal,
            stdout=stdout,
            stderr=terminal,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
        os.close(terminal)
        os.close(stdout)
        self._open = [self._screen, *([] if self._pipe is None else [self._pipe])]
        self._seen = b""
        self._out = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._screen, selectors.EVENT_READ)
        if self._pipe is not None:
            self._selector.register(self._pipe, selectors.EVENT_READ)

    def wait_for(self, text: str) -> None:
        """Read until `text` is on the screen."""
        while text.encode() not in self._seen:
            assert self._read(), f"{text!r} never came: {self._seen!r}"

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def interrupt(self) -> None:
        """What Ctrl-C does: SIGINT to the whole group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self) -> Result:
        """Read to the end and wait for it."""
        while self._read():
            pass
        code = self._process.wait(PATIENCE)
        self.close()
        piped = self._pipe is not None
        return _checked(self._args, code, self._out if piped else self._seen, self._seen)

    def close(self) -> None:
        self._selector.close()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        while self._open:
            os.close(self._open.pop())

    def _read(self) -> bool:
        """Take what is there; False when all writers are gone."""
        ready = self._selector.select(PATIENCE)
        assert ready, f"nothing more came: {self._seen!r}"
        for key, _ in ready:
            try:
                data = os.read(key.fd, 65536)
            except OSError:  # Linux says EIO when the other side of a terminal is closed
                data = b""
            if not data:
                self._selector.unregister(key.fileobj)
            elif key.fd == self._screen:
                self._seen += data
            else:
                self._out += data
        return bool(self._selector.get_map())


def _send_lines_as_typed(terminal: int) -> None:
    """Line mode, so that Ctrl-D ends the input as it does for a person; still no echo."""
    mode = termios.tcgetattr(terminal)
    mode[3] |= termios.ICANON
    mode[6][termios.VEOF] = b"\x04"
    termios.tcsetattr(terminal, termios.TCSANOW, mode)


@contextlib.contextmanager
def on_terminal(
    args: Sequence[str],
    env: Mapping[str, str],
    *,
    columns: int = 80,
    pipe_stdout: bool = False,
) -> Iterator[Terminal]:
    """A terminal whose command is gone when this ends, whatever the test found."""
    terminal = Terminal(args, env, columns=columns, pipe_stdout=pipe_stdout)
    try:
        yield terminal
    finally:
        terminal.close()

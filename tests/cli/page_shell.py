"""A shell on a terminal for the commands of a page, at a time that stands still.

    python -m tests.cli.page_shell          serves commands, one JSON document a line

Holdfast is loaded once; each page gets a process that is forked from this one, and so does each
command of the page, on a terminal of its own. That takes a tenth of the time of a new process.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib
import json
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.cli.fork_server import preload

ROOT = Path(__file__).parents[2]
COLUMNS = 100
_PATIENCE = 120.0
_ROWS = 60
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
_FOR_A_SHELL = re.compile(r"[|<>&;$`*?]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_CLOCK = """
import os, time
time.time = lambda: float(os.environ["TEST_NOW"])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    code: int
    out: str


class Server:
    """Holdfast, loaded once, with a shell for one page after the other."""

    def __init__(self) -> None:
        self._clock = Path(tempfile.mkdtemp(prefix="holdfast-clock-"))
        atexit.register(shutil.rmtree, self._clock, ignore_errors=True)
        (self._clock / "sitecustomize.py").write_text(_CLOCK)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "xterm-256color",
            "PAGER": "cat",
            "PYTHONPATH": f"{self._clock}:{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TEST_NOW": str(time.time()),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.page_shell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def begin(self, user: Path, now: float) -> None:
        """A new shell for a user, whose folder is `~`."""
        self._ask([str(user), now])

    def run(self, command: str, answers: Sequence[str] = ()) -> Ran:
        code, out = self._ask([command, list(answers)])
        return Ran(code=code, out=out)

    def end(self) -> None:
        """Leave the shell."""
        self._ask(None)

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(_PATIENCE)
        shutil.rmtree(self._clock)

    def _ask(self, question: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, f"the shell ended at: {question}"
        return json.loads(said)


def main() -> None:
    """One question a line, one answer a line."""
    _preload()
    while line := sys.stdin.readline():
        user, now = json.loads(line)
        if (shell := os.fork()) == 0:
            _serve(user, now)
            os._exit(0)
        os.waitpid(shell, 0)


def _serve(user: str, now: float) -> None:
    os.environ |= {"HOME": user, "TEST_NOW": str(now)}
    os.chdir(user)
    _answer(True)
    while (question := json.loads(sys.stdin.readline())) is not None:
        os.environ["TEST_NOW"] = str(float(os.environ["TEST_NOW"]) + 1)
        _answer(_run(*question))
    _answer(True)


def _answer(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _preload() -> None:
    preload()
    # A slow machine shows progress where the page has none.
    vars(importlib.import_module("holdfast.cli.progress"))["_QUIET_SECONDS"] = _PATIENCE


def _run(command: str, answers: list[str]) -> tuple[int, str]:
    plain = not _FOR_A_SHELL.search(_QUOTED.sub("", command)) and "\n" not in command
    words = shlex.split(command, comments=True) if plain else []
    if plain and words[:1] == ["cd"]:
        os.chdir(Path(words[1]).expanduser())
        return 0, ""
    if plain and words[:1] == ["export"]:
        for word in words[1:]:
            name, _, value = word.partition("=")
            os.environ[name] = os.path.expanduser(value)  # noqa: PTH111 - it may be no path
        return 0, ""
    if plain and words[:1] == ["unset"]:
        for word in words[1:]:
            os.environ.pop(word, None)
        return 0, ""
    child, screen = pty.fork()
    if child == 0:
        _become(words if plain and words[:1] == ["holdfast"] else None, command)
    out = _read(child, screen, answers)
    # Closing the screen first would hang up on a process that has closed its side and goes on.
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(screen)
    return code, _as_seen(out)


def _become(words: list[str] | None, command: str) -> NoReturn:
    """Run the command here, in the child; or leave it to a shell."""
    code = 70
    try:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, COLUMNS, 0, 0))
        if words is None:
            os.execvp("bash", ["bash", "-c", command])  # noqa: S606 - a page is our own
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        from holdfast.cli.main import run

        code = run([os.path.expanduser(word) for word in words[1:]])  # noqa: PTH111 - any word
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
        traceback.print_exc()
    finally:
        os._exit(code)


def _read(child: int, screen: int, answers: list[str]) -> str:
    """All it prints. A background process that it leaves behind may keep the terminal open."""
    seen, waiting, has_ended = b"", list(answers), False
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        # Its last words may have come between a look at the screen and the one at the process.
        if select.select([screen], [], [], 0 if has_ended else 0.02)[0]:
            try:
                data = os.read(screen, 65536)
            except OSError:  # Linux says EIO when the other side is closed
                return seen.decode(errors="replace")
            seen += data
            if waiting and seen.endswith(b"[y/N]: "):
                os.write(screen, f"{waiting.pop(0)}\n".encode())
        elif has_ended:
            return seen.decode(errors="replace")
        else:
            has_ended = bool(os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT))
    raise TimeoutError(seen)


def _as_seen(out: str) -> str:
    """Without colours, without what was drawn over, and without progress."""
    lines = _ANSI.sub("", out).replace("\r\n", "\n").split("\n")
    seen = (line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return "\n".join(line for line in seen if "━" not in line)


if __name__ == "__main__":
    main()

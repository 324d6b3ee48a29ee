"""Real git remotes: a bare repository, `git daemon` on the loopback, and a wire between that can be
measured and cut."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path


def bare(path: Path) -> Path:
    """An empty bare repository that `git daemon` shows."""
    git("init", "--quiet", "--bare", str(path))
    (path / "git-daemon-export-ok").touch()
    return path


def git(*arguments: str, at: Path | None = None) -> str:
    """What git says on standard output; it must not fail."""
    return subprocess.run(
        ["git", *arguments], cwd=at, check=True, capture_output=True, text=True
    ).stdout


def refs(path: Path, prefix: str = "refs/holdfast/") -> dict[str, str]:
    """The references of a repository."""
    lines = git("for-each-ref", "--format=%(refname) %(objectname)", prefix, at=path).splitlines()
    return dict(line.split(" ") for line in lines)


def checkpoints(path: Path) -> list[str]:
    """The references to checkpoints, without those to ignore rules."""
    return [each for each in refs(path) if "/rules/" not in each]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def daemon(base: Path, *, may_push: bool = True) -> Iterator[int]:
    """`git daemon` over all repositories below a folder; yields its port."""
    port = free_port()
    command = [
        *("git", "daemon", f"--base-path={base}", "--listen=127.0.0.1", f"--port={port}"),
        *("--reuseaddr", "--informative-errors", "--log-destination=none"),
        *(["--enable=receive-pack"] if may_push else []),
        str(base),
    ]
    process = subprocess.Popen(command, process_group=0)
    try:
        for _ in range(500):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.01)
        yield port
    finally:
        # `git` starts `git-daemon`: both are in the group, and nobody else is.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


class Wire:
    """A port of its own in front of another: counts what goes through, and can be cut after so
    many bytes."""

    def __init__(self, port: int) -> None:
        self.bytes = 0
        self.cut_after: int | None = None
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._server.accept()
                there = socket.create_connection(("127.0.0.1", self._to))
                self._open += [here, there]
                for one, other in ((here, there), (there, here)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(4096):
                self.bytes += len(data)
                if self.cut_after is not None and self.bytes > self.cut_after:
                    for each in (one, other):
                        each.shutdown(socket.SHUT_RDWR)
                    return
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in (self._server, *self._open):
            with contextlib.suppress(OSError):
                each.close()


@contextlib.contextmanager
def wire(port: int) -> Iterator[Wire]:
    made = Wire(port)
    try:
        yield made
    finally:
        made.close()

"""The helper: one process that answers hooks, so that no hook has to start Holdfast.

There is one for each user, home directory and installed Holdfast, so a client only finds a helper
that would give the same answer as the client itself. A client starts it, and it ends after some
time without requests. It keeps no state that is not on the disk: if it is killed at any moment, the
client that waits for it does the work itself. It ends at once when its Holdfast is replaced or its
socket is gone, for example after a logout.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from holdfast.hooks.client import TAKE, encoded, identity, is_private, name_for
from holdfast.hooks.reply import Reply
from holdfast.hooks.serve import Answerer

IDLE_SECONDS = 900.0
_MOST_BYTES = 64 * 1024**2
_HEAD_WORDS = 6
_SLOW_CLIENT = 10.0
#: No client waits this many seconds for an answer. A stuck thread cannot be ended and would keep
#: its locks, so the whole helper ends.
_STUCK = 180.0
#: How often a waiting client gets a sign of life; without one, `client.py` gives up.
_SIGN_SECONDS = 0.5
_SIGN = b" "
_PEER = struct.Struct("3i")


class Helper:
    """Answers at a socket until it is idle or outdated."""

    def __init__(self, folder: Path, *, idle: float = IDLE_SECONDS) -> None:
        self._who = identity()
        self._socket = folder / f"{name_for(self._who)}.sock"
        self._lock = self._socket.with_suffix(".lock")
        self._made: tuple[int, int] | None = None
        self._idle = idle
        self._answerer = Answerer()
        self._busy: dict[socket.socket, float] = {}
        self._waiting: set[socket.socket] = set()
        self._signed = 0.0
        self._last = time.monotonic()
        self._turn = threading.Lock()

    def run(self) -> int:
        """Run until idle or outdated, and return 0; 1 if another helper is running already."""
        with contextlib.ExitStack() as stack:
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return 1
            server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self._open(server)
            server.settimeout(min(1.0, self._idle))
            stack.callback(self._answerer.close)
            self._answerer.prepare()
            gc.freeze()  # loaded modules stay: scanning them while a client waits frees nothing
            gc.enable()
            self._accept(server)
            if self._is_found():
                self._socket.unlink(missing_ok=True)
            self._drain(server)
        return 0

    def _open(self, server: socket.socket) -> None:
        """Create the socket under a temporary name and rename it at the end: a client never finds a
        socket that does not listen yet, and `_made` is known before another helper can replace
        it."""
        new = self._socket.with_suffix(".new")
        new.unlink(missing_ok=True)  # left by a killed helper
        server.bind(str(new))
        new.chmod(0o600)
        server.listen(64)
        self._made = _seen(new)
        new.replace(self._socket)

    def _accept(self, server: socket.socket) -> None:
        while not self._is_over():
            self._give_signs()
            server.settimeout(min(_SIGN_SECONDS if self._busy else 1.0, self._idle))
            try:
                peer, _ = server.accept()
            except TimeoutError:
                continue
            self._begin(peer)

    def _begin(self, peer: socket.socket) -> None:
        with self._turn:
            self._busy[peer] = time.monotonic()
            self._waiting.add(peer)
            _give_sign(peer)
        threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _give_signs(self) -> None:
        now = time.monotonic()
        if now - self._signed >= _SIGN_SECONDS:
            self._signed = now
            with self._turn:
                for peer in self._waiting:
                    _give_sign(peer)

    def _drain(self, server: socket.socket) -> None:
        """Answer the clients that connected before the socket's name was removed."""
        server.settimeout(0.0)
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                break
            self._begin(peer)
        while self._is_working():
            self._give_signs()
            time.sleep(0.01)

    def _is_working(self) -> bool:
        with self._turn:
            return any(time.monotonic() - since <= _STUCK for since in self._busy.values())

    def _is_over(self) -> bool:
        with self._turn:
            since = min(self._busy.values(), default=None)
        if since is not None:
            return time.monotonic() - since > _STUCK
        idle = time.monotonic() - self._last > self._idle
        return idle or self._is_outdated() or not self._is_found()

    def _is_outdated(self) -> bool:
        """True if Holdfast was replaced or uninstalled."""
        try:
            return identity() != self._who
        except OSError:
            return True

    def _is_found(self) -> bool:
        """True if the socket still exists and is ours. It may be another helper's: a cleaner of old
        files may have removed the lock file."""
        return self._made is not None and _seen(self._socket) == self._made

    def _serve(self, peer: socket.socket) -> None:
        try:
            with peer, contextlib.suppress(OSError, ValueError):
                peer.settimeout(_SLOW_CLIENT)
                if not _is_ours(peer):
                    return
                reply = self._answer(peer)
                out, err = encoded(reply.out), encoded(reply.err)
                with self._turn:  # a sign of life in the middle of the answer would corrupt it
                    self._waiting.discard(peer)
                peer.sendall(f"{reply.code} {len(out)} {len(err)}\n".encode() + out + err)
            self._answerer.follow()  # after the connection is closed
        finally:
            with self._turn:
                self._waiting.discard(peer)
                del self._busy[peer]
                self._last = time.monotonic()

    def _answer(self, peer: socket.socket) -> Reply:
        head, rest = _head(peer)
        words = head.split()
        if len(words) != _HEAD_WORDS or words[0] != b"holdfast2":
            raise ValueError("not a client of ours")
        agent, closed = words[1].decode(), words[2] == b"closed"
        who, place, size = (int(each) for each in words[3:])
        if who + place + size > _MOST_BYTES:
            raise ValueError("too long")
        given = bytearray(rest)
        while len(given) < who + place + size:
            some = peer.recv(1 << 20)
            if not some:
                raise ValueError("it went away")
            given += some
        if bytes(given[:who]) != self._who:
            raise ValueError("it has other code or another home directory")
        home = Path(os.fsdecode(bytes(given[who : who + place])))
        raw = bytes(given[who + place :])
        if _is_gone(peer):
            raise ValueError("it has done the work itself")
        if not self._answerer.may_help(home):
            raise ValueError("its home goes without a helper")
        if agent == TAKE:
            return self._answerer.take(home, raw)
        return self._answerer.serve(agent, home, raw, fails_closed=closed)


def _head(peer: socket.socket) -> tuple[bytes, bytes]:
    found = b""
    while b"\n" not in found:
        some = peer.recv(65_536)
        if not some or len(found) > _MOST_BYTES:
            raise ValueError("it went away")
        found += some
    head, _, rest = found.partition(b"\n")
    return head, rest


def _give_sign(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        peer.send(_SIGN)


def _is_gone(peer: socket.socket) -> bool:
    """True if the client has hung up, for example because we were suspended: its tool has run by
    now, and a checkpoint would come too late."""
    peer.settimeout(0.0)
    try:
        return peer.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    finally:
        peer.settimeout(_SLOW_CLIENT)


def _is_ours(peer: socket.socket) -> bool:
    """True if the client belongs to the same user. The folder keeps others out already; this is a
    second check."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # other systems have only the folder's permissions
    said = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return bool(_PEER.unpack(said)[1] == os.getuid())


def _seen(path: Path) -> tuple[int, int] | None:
    """The identity of a file: device and inode."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def run(folder: str) -> int:
    """Run the helper. Return 2 if the folder for its socket is not private."""
    os.umask(0o077)  # inherited from the first client, but this process serves all of them
    with contextlib.suppress(OSError):
        os.mkdir(folder, 0o700)  # noqa: PTH102 - only this one: its parent must exist
    if not is_private(folder):
        sys.stderr.write(f"{folder} is not a private folder of this user.\n")
        return 2
    return Helper(Path(folder)).run()

"""Real object servers on the loopback, and a proxy that spoils their answers.

`Rclone` is a process that can be killed; it ignores the condition that a put must create. `Moto`
knows it. Both start once for a run of tests, and every test has a bucket or a prefix of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from holdfast.stores.blobs.address import Address, Patience

KEY, SECRET = "AKIDEXAMPLE00000", "not-a-real-secret-0123456789"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
BUCKET = "archive"
#: A test waits for no more than it must.
HASTY = Patience(connect=1.0, request=2.0, retries=2, longest_pause=0.05, in_all=5.0)
_numbers = itertools.count()


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Rclone:
    """An S3 server over a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        (folder / BUCKET).mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        program = Path(sys.executable).with_name("rclone")
        self.process = subprocess.Popen(
            [
                program,
                *("serve", "s3", str(self.folder), "--addr", f"127.0.0.1:{self.port}"),
                *("--auth-key", f"{KEY},{SECRET}", "--config", os.devnull),
                *("--vfs-cache-mode", "off"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_for(self.port)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


def wait_for(port: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError(f"nothing answers on port {port}")


@cache
def rclone() -> Rclone:
    """The one that most tests share; it ends with the run."""
    import atexit

    folder = Path(tempfile.mkdtemp(prefix="holdfast-objects-"))
    server = Rclone(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    return server


@cache
def moto() -> str:
    """The endpoint of a server that keeps the promise of create-only puts."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from moto.server import ThreadedMotoServer
    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    port = free_port()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    endpoint = f"http://127.0.0.1:{port}"
    _create(port, BUCKET)
    return endpoint


def _create(port: int, bucket: str) -> None:
    asked = HTTPConnection("127.0.0.1", port)
    scope = f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request"
    asked.request("PUT", f"/{bucket}", headers={"Authorization": scope})
    assert asked.getresponse().status == 200
    asked.close()


def an_address(endpoint: str, prefix: str | None = None) -> Address:
    """A place that no other test uses."""
    below = prefix if prefix is not None else f"{os.getpid()}-{next(_numbers)}"
    return Address(url=f"s3://{BUCKET}/{below}".rstrip("/"), endpoint=endpoint, region="us-east-1")


def names_at(url: str, endpoint: str) -> set[str]:
    """Everything below an address, as another tool sees it."""
    client = Address(url=url, endpoint=endpoint).opened(HASTY, seconds=5)
    return {each["path"] for batch in client.list() for each in batch}


# --- Spoiled answers ------------------------------------------------------------------------------

#: What to do with a request: None lets it pass.
Spoil = Callable[[str, str], str | None]


class FaultProxy(ThreadingHTTPServer):
    """Passes requests on to a server, unless `spoil`, asked with method and path, says "503",
    "hang", "refuse" (the connection ends before the server sees anything), "lose" (the server does
    it, and the answer is lost) or "cut" (half of the body)."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.spoil: Spoil = lambda _method, _path: None
        self.asked: list[tuple[str, str]] = []
        self.behind = int(endpoint.rpartition(":")[2])
        self.stopped = threading.Event()
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what these tests are about."""


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultProxy

    def pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.command, self.path))
        how = self.server.spoil(self.command, self.path)
        if how == "503":
            self._answer(503, [], b"")
            return
        if how == "hang":
            self.server.stopped.wait(10)
        if how in ("hang", "refuse"):
            self.close_connection = True
            return
        # Both are closed when the server is killed in between: a request, or half of its answer.
        with contextlib.closing(HTTPConnection("127.0.0.1", self.server.behind)) as upstream:
            upstream.request(self.command, self.path, body, dict(self.headers.items()))
            with upstream.getresponse() as got:
                data = got.read()
        self.close_connection = how in ("lose", "cut")
        if how != "lose":
            half = len(data) // 2 if how == "cut" else len(data)
            self._answer(got.status, got.getheaders(), data[:half])

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        dropped = ("transfer-encoding", "connection")
        kept = {name.lower(): value for name, value in headers if name.lower() not in dropped}
        self.send_response(status)
        for name, value in ({"content-length": str(len(data))} | kept).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = pass_on  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextlib.contextmanager
def proxied(endpoint: str) -> Iterator[FaultProxy]:
    proxy = FaultProxy(endpoint)
    try:
        yield proxy
    finally:
        proxy.close()


def times(number: int, how: str, method: str, ending: str = "") -> Spoil:
    """Spoil the first so many requests of a method whose path ends like this."""
    left = [number]

    def spoil(asked: str, path: str) -> str | None:
        if asked != method or not path.partition("?")[0].endswith(ending) or not left[0]:
            return None
        left[0] -= 1
        return how

    return spoil

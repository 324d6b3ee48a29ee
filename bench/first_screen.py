"""The first screen of the page in a real browser, beside that of agentsview on the same home.

Both are started on a home of Claude Code that each has seen before: agentsview has synced it,
Holdfast has listed it. Chromium opens each page with an empty cache, in turn, and says when
something was painted first. Needs Playwright and a Chromium of the system.
"""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baselines import AGENTSVIEW, NotInstallableError, agentsview

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE = 600.0
_MB = 1e6
_HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a browser saw: times in ms, `paints` of each round."""

    requests: int
    elsewhere: int
    bytes: int
    paints: tuple[float, ...]

    @property
    def paint(self) -> float:
        return statistics.median(self.paints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A page that is being served. `most_memory` is what its process ever had."""

    address: str
    ready: float
    pid: int
    cookies: Mapping[str, str]

    @property
    def most_memory(self) -> int:
        return _status(self.pid, "VmHWM")

    @property
    def memory(self) -> int:
        return _status(self.pid, "VmRSS")


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def their_server(user: Path) -> Iterator[Server]:
    """agentsview, after its first sync; raises `NotInstallableError`."""
    program = str(agentsview())
    environ = {"HOME": str(user), "PATH": os.environ["PATH"]}
    subprocess.run(
        [program, "sync"],
        env={**environ, "AGENTSVIEW_NO_DAEMON": "1"},
        check=True,
        capture_output=True,
        timeout=_PATIENCE,
    )
    with socket.create_server((_HERE, 0)) as found:
        port = found.getsockname()[1]
    began = time.perf_counter()
    words = [program, "serve", "--no-browser", "--no-update-check", "--port", str(port)]
    with subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL) as process:
        try:
            while not _answers(port):
                if process.poll() is not None or time.perf_counter() - began > _PATIENCE:
                    raise NotInstallableError("its server does not start here")
                time.sleep(0.005)
            yield Server(
                address=f"http://{_HERE}:{port}/",
                ready=time.perf_counter() - began,
                pid=process.pid,
                cookies={},
            )
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(_HERE, port, timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < http.client.INTERNAL_SERVER_ERROR
    except OSError:
        return False
    finally:
        connection.close()


@contextmanager
def browser() -> Iterator[Browser | None]:
    """Chromium; None, and a word about it, where there is none."""
    found = next((path for each in _BROWSERS if (path := shutil.which(each))), None)
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be here
    except ImportError:
        found = None
    if found is None:
        sys.stderr.write("SKIPPED: a first paint needs Chromium and the package playwright.\n")
        yield None
        return
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


def first_screen(opened: Browser, servers: Mapping[str, Server], rounds: int) -> dict[str, Shown]:
    """Each page as often, one after the other."""
    seen: dict[str, list[Shown]] = {name: [] for name in servers}
    for _ in range(rounds):
        for name, server in servers.items():
            seen[name].append(_shown(opened, server))
    return {
        name: Shown(
            requests=max(each.requests for each in found),
            elsewhere=max(each.elsewhere for each in found),
            bytes=max(each.bytes for each in found),
            paints=tuple(paint for each in found for paint in each.paints),
        )
        for name, found in seen.items()
    }


def _shown(opened: Browser, server: Server) -> Shown:
    context = opened.new_context()
    try:
        context.add_cookies(
            [
                {"name": name, "value": value, "url": server.address}
                for name, value in server.cookies.items()
            ]
        )
        page = context.new_page()
        requests: list[str] = []
        sizes: list[float] = []
        page.on("request", lambda request: requests.append(request.url))
        wire = context.new_cdp_session(page)
        wire.send("Network.enable")
        wire.on("Network.loadingFinished", lambda event: _add(sizes, event))
        page.goto(server.address)
        page.wait_for_timeout(2_000)
        paint = page.evaluate(
            "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
        )
        loaded = [each for each in requests if not each.startswith(("data:", "blob:"))]
        return Shown(
            requests=len(loaded),
            elsewhere=sum(not each.startswith(server.address) for each in loaded),
            bytes=int(sum(sizes)),
            paints=(float(paint),),
        )
    finally:
        context.close()


def _add(sizes: list[float], event: Any) -> None:
    sizes.append(event["encodedDataLength"])


def table(ours: Server, theirs: Server | None, shown: Mapping[str, Shown]) -> str:
    """One row for each figure."""
    mine, other = shown["ours"], shown.get("theirs")
    rows = [
        ("first paint", f"{mine.paint:,.0f} ms", other and f"{other.paint:,.0f} ms"),
        ("requests", f"{mine.requests}", other and f"{other.requests}"),
        ("of them elsewhere", f"{mine.elsewhere}", other and f"{other.elsewhere}"),
        (
            "over the wire",
            f"{mine.bytes / 1e3:,.0f} kB",
            other and f"{other.bytes / 1e3:,.0f} kB",
        ),
        (
            "ready after the command",
            f"{1e3 * ours.ready:,.0f} ms",
            theirs and f"{1e3 * theirs.ready:,.0f} ms",
        ),
        (
            "memory of the server, the most it had",
            f"{ours.most_memory / _MB:,.0f} MB",
            theirs and f"{theirs.most_memory / _MB:,.0f} MB",
        ),
    ]
    lines = [f"| the first screen in Chromium | Holdfast | agentsview {AGENTSVIEW} |"]
    lines.append("|---|---:|---:|")
    lines += [f"| {name} | {here} | {there or '-'} |" for name, here, there in rows]
    return "\n".join(lines)

"""The page over homes of 50,000 sessions: how soon it is there, how quickly it lists and filters,
how much memory it takes, and how a transcript of 100 MB opens.

Half of the sessions are in Holdfast's own store, half are transcripts of Claude Code. Requests go
over the loopback to `holdfast web`, one after the other, as a person asks. The server opens no home
itself: children that it makes do, and end with their answer. What they have in memory while they
work is a row of its own.

Then the first screen in a browser beside that of agentsview, on a smaller home: its first sync of
50,000 sessions takes longer than anybody would wait here.

    .venv/bin/python bench/web.py                   a few minutes, 600 MB
    .venv/bin/python bench/web.py --quick           whether it works, a few seconds
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import first_screen
from baselines import AGENTSVIEW, NotInstallableError
from plotting import common_options, save
from prune import holdfast

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_SESSIONS, _QUICK_SESSIONS = 50_000, 400
_TRANSCRIPT, _QUICK_TRANSCRIPT = 100_000_000, 2_000_000
_ROUNDS, _QUICK_ROUNDS = 200, 20
_BESIDE, _QUICK_BESIDE = 2_000, 50
_PAINTS, _QUICK_PAINTS = 7, 1
_DAY = 86_400.0
#: The first search in a home makes an index of everything.
_PATIENCE = 900.0
_P95 = 0.95
_MB = 1e6
_LARGE = "11111111-2222-4333-8444-555555555555"
_WORDS = ("disk", "storage", "retry", "backoff", "queue", "index", "merge", "branch", "release")
_TEXT = """\
## The page

`holdfast web` over {sessions:,} sessions, half in a store of its own, half transcripts of Claude
Code, and one transcript of {transcript:.0f} MB. Requests over the loopback, one after the other.
"""

_BESIDE_TEXT = """
The first screen beside that of agentsview, on {sessions:,} sessions of Claude Code that both have
seen before; medians.
"""
#: Screens that a person goes through; each loads what it needs.
_SCREENS = (
    *("/overview/figures", "/cleanup", "/cleanup/plan?sessions.retention_days=30", "/usage"),
    *("/cleanup?what=small", "/checkpoints", "/trash", "/log", "/archive", "/vault", "/doctor"),
    *("/configuration/holdfast", "/sessions/results?sort=messages", "/sessions?offset=25000"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure, and what we want it to be at most."""

    name: str
    value: float
    unit: str
    wanted: float | None = None

    def __str__(self) -> str:
        wanted = "" if self.wanted is None else f"{self.wanted:,.0f} {self.unit}"
        return f"| {self.name} | {self.value:,.0f} {self.unit} | {wanted} |"


def own_store(user: Path, sessions: int) -> None:
    chance, now = random.Random(3), time.time()
    lines = user / "sessions.jsonl"
    with lines.open("w") as file:
        for number in range(sessions):
            at = now - chance.random() ** 2 * 300 * _DAY
            words = " ".join(chance.choices(_WORDS, k=12))
            said = {"role": "user", "content": words, "timestamp": at + 5}
            session = {
                "id": f"20260101_090000_{number:06x}",
                "source": chance.choice(("cli", "cron", "telegram")),
                "title": " ".join(chance.choices(_WORDS, k=4)),
                "cwd": f"/home/ada/src/project-{number % 60}",
                "started_at": at,
                "ended_at": at + 10,
                "messages": [said],
            }
            file.write(json.dumps(session) + "\n")
    home = user / ".holdfast"
    holdfast(home, "sessions", "import", str(lines))
    lines.unlink()


def claude_code(user: Path, sessions: int, large: int) -> None:
    chance, now = random.Random(5), time.time()
    (user / ".claude/sessions").mkdir(parents=True)
    (user / ".claude/settings.json").write_text("{}")
    for number in range(sessions):
        cwd = f"/home/ada/src/project-{number % 60}"
        name = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        at = now - (2 + chance.random() ** 2 * 300) * _DAY
        _transcript(user, cwd, name, at, " ".join(chance.choices(_WORDS, k=12)), turns=2)
    _transcript(user, "/home/ada/src/large", _LARGE, now - 3 * _DAY, "x" * 4000, size=large)


def _transcript(
    user: Path, cwd: str, name: str, at: float, text: str, *, turns: int = 0, size: int = 0
) -> None:
    path = user / ".claude/projects" / cwd.replace("/", "-") / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    written = number = 0
    with path.open("w") as file:
        while number < turns or written < size:
            role = "assistant" if number % 2 else "user"
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at + number))
            line = {
                "parentUuid": None,
                "isSidechain": False,
                "userType": "external",
                "cwd": cwd,
                "sessionId": name,
                "version": "2.1.325",
                "type": role,
                "message": {"role": role, "content": f"{number} {text}"},
                "uuid": str(uuid.uuid4()),
                "timestamp": stamp,
            }
            written += file.write(json.dumps(line, separators=(",", ":")) + "\n")
            number += 1
    os.utime(path, (at + number, at + number))


class Page:
    """A server that was started for this, and a browser's manners."""

    def __init__(self, user: Path) -> None:
        began = time.perf_counter()
        environ = {"HOME": str(user), "PATH": os.environ["PATH"]}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "web", "--no-open", "--port", "0"],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        line = next(each for each in self._process.stdout if "http://" in each)
        self._host = line.split("/")[2]
        self._cookie = ""
        _, headers = self.get(f"/?{line.strip().partition('/?')[2]}")
        self._cookie = headers["set-cookie"].partition(";")[0]
        self.ready = time.perf_counter() - began

    def get(self, path: str) -> tuple[bytes, http.client.HTTPMessage]:
        connection = http.client.HTTPConnection(self._host, timeout=_PATIENCE)
        connection.request("GET", path, headers={"Cookie": self._cookie})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status not in (200, 204, 303):
            raise SystemExit(f"{path}: {answer.status}\n{body.decode()[:2000]}")
        return body, answer.headers

    def timed(self, path: str) -> float:
        began = time.perf_counter()
        self.get(path)
        return time.perf_counter() - began

    @property
    def processor(self) -> float:
        """Seconds of processor time so far: a busy machine does not change it."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def with_children(self) -> float:
        """The same with the children that have ended."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")

    @property
    def server(self) -> first_screen.Server:
        name, _, value = self._cookie.partition("=")
        return first_screen.Server(
            address=f"http://{self._host}/",
            ready=self.ready,
            pid=self._process.pid,
            cookies={name: value},
        )

    @contextmanager
    def watched(self) -> Iterator[list[int]]:
        """What its children had at once, at most: their own memory, without what they share with
        the server."""
        most, over = [0], threading.Event()

        def watch() -> None:
            while not over.wait(0.05):
                most[0] = max(most[0], sum(map(_own_memory, _children(self._process.pid))))

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield most
        finally:
            over.set()
            thread.join()

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (thread / "children").read_text().split())


def _own_memory(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


@contextmanager
def opened(user: Path) -> Iterator[Page]:
    page = Page(user)
    try:
        yield page
    finally:
        page.close()


def requested(page: Page) -> tuple[int, int]:
    """Requests and bytes of the overview."""
    body, _ = page.get("/")
    found = set(re.findall(rb'(?:src|href)="(/static/[^"]*)"', body))
    parts = [body, *(page.get(each.decode())[0] for each in sorted(found))]
    parts.append(page.get("/overview/figures")[0])
    return len(parts), sum(map(len, parts))


def questions(rounds: int) -> Iterator[str]:
    """What a person asks of a list."""
    chance = random.Random(9)
    for _ in range(rounds):
        yield chance.choice(
            (
                "/sessions",
                f"/sessions?offset={50 * chance.randrange(20)}",
                "/sessions/results?sort=size",
                "/sessions/results?sort=title",
                "/sessions/results?state=ended&period=old",
                "/sessions/results?home=claude-code&period=30d",
                f"/sessions/results?project=/home/ada/src/project-{chance.randrange(60)}",
                "/sessions/results?home=holdfast&sort=started",
            )
        )


def p95(values: Sequence[float]) -> float:
    return sorted(values)[max(0, int(len(values) * _P95) - 1)]


def measure(user: Path, rounds: int) -> Iterator[Line]:
    with opened(user) as page, page.watched() as children:
        server = page.server
        yield Line(name="ready after the command", value=1e3 * page.ready, unit="ms", wanted=500)
        yield Line(name="memory when it is ready", value=server.memory / _MB, unit="MB", wanted=80)
        paint = page.timed("/")
        yield Line(name="overview, before any figures", value=1e3 * paint, unit="ms", wanted=300)
        requests, size = requested(page)
        yield Line(name="requests of the first screen", value=requests, unit="", wanted=8)
        yield Line(name="bytes of the first screen", value=size / 1e3, unit="kB", wanted=150)
        first = page.timed("/sessions")
        yield Line(name="the first list", value=1e3 * first, unit="ms")
        large = page.timed(f"/sessions/claude-code/read?id={_LARGE}")
        yield Line(name="the large transcript opens", value=1e3 * large, unit="ms", wanted=500)
        while any(_children(server.pid)):  # what a look still counts is not part of a list
            time.sleep(0.2)
        began, all_began = page.processor, page.with_children
        times = [page.timed(each) for each in questions(rounds)]
        each = (page.processor - began) / rounds
        yield Line(name="processor time of each list", value=1e3 * each, unit="ms")
        each = (page.with_children - all_began) / rounds
        yield Line(name="the same with looks beside them", value=1e3 * each, unit="ms")
        yield Line(
            name=f"list and filter, p95 of {rounds}", value=1e3 * p95(times), unit="ms", wanted=100
        )
        began = time.perf_counter()
        shown = page.timed("/sessions/results?q=backoff")
        yield Line(name="the first search shows its progress", value=1e3 * shown, unit="ms")
        while page.get("/sessions/indexing")[0]:
            time.sleep(0.2)
        made = time.perf_counter() - began
        yield Line(name="the index is made", value=1e3 * made, unit="ms")
        all_began = page.with_children
        again = [page.timed(f"/sessions/results?q={each}") for each in _WORDS]
        each = (page.with_children - all_began) / len(again)
        yield Line(name="the next searches, p95", value=1e3 * p95(again), unit="ms")
        yield Line(name="processor time of each, all processes", value=1e3 * each, unit="ms")
        for path in _SCREENS:
            page.get(path)
        yield Line(
            name="memory after all that and every screen",
            value=server.memory / _MB,
            unit="MB",
            wanted=80,
        )
        yield Line(name="the most it had", value=server.most_memory / _MB, unit="MB", wanted=80)
        yield Line(name="its children at work, all at once", value=children[0] / _MB, unit="MB")


def beside(sessions: int, rounds: int) -> None:
    """The first screens of both, or of ours alone where the other cannot be had."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root,
        first_screen.browser() as browser,
    ):
        if browser is None:
            return
        user = Path(root)
        claude_code(user, sessions, 0)
        with opened(user) as before:
            before.get("/overview/figures")
            before.get("/sessions")
        with opened(user) as page:
            try:
                with first_screen.their_server(user) as other:
                    _beside(browser, page, other, rounds)
            except (NotInstallableError, OSError, subprocess.SubprocessError) as error:
                sys.stderr.write(f"SKIPPED: agentsview {AGENTSVIEW} is not here: {error}\n")
                _beside(browser, page, None, rounds)


def _beside(browser: Browser, page: Page, theirs: first_screen.Server | None, rounds: int) -> None:
    servers = {"ours": page.server, **({"theirs": theirs} if theirs else {})}
    shown = first_screen.first_screen(browser, servers, rounds)
    print(first_screen.table(page.server, theirs, shown), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    common_options(parser)
    given = parser.parse_args()
    sessions = _QUICK_SESSIONS if given.quick else _SESSIONS
    large = _QUICK_TRANSCRIPT if given.quick else _TRANSCRIPT
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as root:
        user = Path(root)
        own_store(user, sessions // 2)
        claude_code(user, sessions - sessions // 2, large)
        print(_TEXT.format(sessions=sessions, transcript=large / _MB))
        print("| | measured | at most |")
        print("|---|---:|---:|")
        for line in measure(user, _QUICK_ROUNDS if given.quick else _ROUNDS):
            print(line, flush=True)
    print(_BESIDE_TEXT.format(sessions=_QUICK_BESIDE if given.quick else _BESIDE))
    beside(_QUICK_BESIDE if given.quick else _BESIDE, _QUICK_PAINTS if given.quick else _PAINTS)
    save(given.json, ())


if __name__ == "__main__":
    main()

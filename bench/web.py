"""The page over homes of 50,000 sessions: how soon it is there, how quickly it lists and filters,
how much memory it takes, and how a transcript of 100 MB opens.

Half of the sessions are in Holdfast's own store, half are transcripts of Claude Code. Requests go
over the loopback to `holdfast web`, one after the other, as a person asks. The first screen is what
a browser fetches for it: the page, its sheets, its scripts, its figures.

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
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from plotting import common_options, save
from prune import holdfast

_SESSIONS, _QUICK_SESSIONS = 50_000, 400
_TRANSCRIPT, _QUICK_TRANSCRIPT = 100_000_000, 2_000_000
_ROUNDS, _QUICK_ROUNDS = 200, 20
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
        if answer.status not in (200, 303):
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
    def memory(self) -> int:
        """What it has in memory."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)


@contextmanager
def opened(user: Path) -> Iterator[Page]:
    page = Page(user)
    try:
        yield page
    finally:
        page.close()


def first_screen(page: Page) -> tuple[int, int]:
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
    with opened(user) as page:
        yield Line(name="ready after the command", value=1e3 * page.ready, unit="ms", wanted=500)
        yield Line(name="memory when it is ready", value=page.memory / _MB, unit="MB", wanted=80)
        paint = page.timed("/")
        yield Line(name="overview, before any figures", value=1e3 * paint, unit="ms", wanted=300)
        requests, size = first_screen(page)
        yield Line(name="requests of the first screen", value=requests, unit="", wanted=8)
        yield Line(name="bytes of the first screen", value=size / 1e3, unit="kB", wanted=150)
        first = page.timed("/sessions")
        yield Line(name="the first list", value=1e3 * first, unit="ms")
        began = page.processor
        times = [page.timed(each) for each in questions(rounds)]
        each = (page.processor - began) / rounds
        yield Line(name="processor time of each list", value=1e3 * each, unit="ms")
        yield Line(
            name=f"list and filter, p95 of {rounds}", value=1e3 * p95(times), unit="ms", wanted=100
        )
        large = page.timed(f"/sessions/claude-code/read?id={_LARGE}")
        yield Line(name="the large transcript opens", value=1e3 * large, unit="ms", wanted=500)
        searched = page.timed("/sessions/results?q=backoff")
        yield Line(name="the first search", value=1e3 * searched, unit="ms")
        again = p95([page.timed(f"/sessions/results?q={each}") for each in _WORDS])
        yield Line(name="the next searches, p95", value=1e3 * again, unit="ms")
        yield Line(name="memory after all that", value=page.memory / _MB, unit="MB", wanted=80)


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
    save(given.json, ())


if __name__ == "__main__":
    main()

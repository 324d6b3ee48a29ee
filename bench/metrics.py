"""What a scrape of `holdfast metrics --listen` takes: the slowest of a hundred, and its memory.

    python -m bench.metrics [--scrapes 1000]

Makes a user with the homes of every agent that there is a recording of, each with as many figures
as are ever kept, and scrapes as Prometheus does: a connection for each. During the run looks are
added, which the server reads while it is being scraped.
"""

from __future__ import annotations

import argparse
import http
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.api.machine import Machine as Homes
from holdfast.api.metrics import homes_of
from holdfast.model.figures import HomeFigures
from holdfast.stores.figures_file import FiguresFile
from tests.cli.agents import settle_all
from tests.cli.machine import Machine
from tests.cli.runner import COMMAND

#: What the specification allows.
MOST_SECONDS = 0.020
_HOUR = 3_600.0
#: A look is added to every home after so many scrapes: with one a minute, twice a day.
_LOOK_EVERY = 500
_LOOKS = 250


def main() -> int:
    given = argparse.ArgumentParser()
    given.add_argument("--scrapes", type=int, default=1_000)
    asked = given.parse_args()
    with tempfile.TemporaryDirectory() as place:
        machine = Machine(root=Path(place))
        machine.user.mkdir()
        settle_all(machine)
        with Homes(machine.user, environ={}) as homes:
            states = [state for _, state in homes_of(homes).homes]
        now = time.time()
        for state in states:
            _fill(state, now)
        served = subprocess.Popen(
            [*COMMAND, "metrics", "--listen", "127.0.0.1:0"],
            env=machine.env(),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            port = _port(served)
            before, took = _used(served.pid), []
            for number in range(asked.scrapes):
                if number % _LOOK_EVERY == 0:
                    for state in states:
                        FiguresFile(state).add(HomeFigures(at=time.time(), bytes=number))
                took.append(_scrape(port))
            memory, used = _memory(served.pid), _used(served.pid) - before
        finally:
            served.send_signal(signal.SIGTERM)
            served.wait(30)
    took.sort()
    half, most = took[len(took) // 2], took[int(len(took) * 0.99)]
    sys.stdout.write(
        f"{len(states)} homes, {len(took):,} scrapes: half within {half * 1e3:.1f} ms, "
        f"99 % within {most * 1e3:.1f} ms, the slowest {took[-1] * 1e3:.1f} ms; "
        f"{used / len(took) * 1e3:.1f} ms of a processor each, {memory / 1e6:.1f} MB\n"
    )
    return 0 if most <= MOST_SECONDS else 1


def _fill(state: Path, now: float) -> None:
    """As many figures as a file ever has."""
    for number in range(_LOOKS, 0, -1):
        FiguresFile(state).add(HomeFigures(at=now - number * _HOUR, bytes=10**9 - number * 10**6))


def _port(served: subprocess.Popen[str]) -> int:
    for line in served.stderr or ():
        if found := re.search(r":(\d+)/metrics", line):
            return int(found[1])
    raise SystemExit("it does not serve")


def _scrape(port: int) -> float:
    began = time.perf_counter()
    peer = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    peer.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    answer = peer.getresponse()
    answer.read()
    peer.close()
    if answer.status != http.HTTPStatus.OK:
        raise SystemExit(f"it says {answer.status}")
    return time.perf_counter() - began


def _used(pid: int) -> float:
    """Seconds of a processor."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0]) * 1000


if __name__ == "__main__":
    raise SystemExit(main())

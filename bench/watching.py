"""What `holdfast maintain --watch` costs while nothing happens: processor time and memory.

    python -m bench.watching [--minutes 5] [--files 2000]

Makes a user with the homes of every agent that there is a recording of, and `files` more files in
each, and watches them. The first round is left out: it is the maintenance that was due.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cli.agents import settle_all
from tests.cli.machine import Machine
from tests.cli.runner import COMMAND

#: Seconds after the first round until everything is at rest.
_REST = 20.0
#: What the specification allows.
MOST_CPU, MOST_MEMORY = 0.001, 40_000_000
_TICK = os.sysconf("SC_CLK_TCK")


def main() -> int:
    given = argparse.ArgumentParser()
    given.add_argument("--minutes", type=float, default=5.0)
    given.add_argument("--files", type=int, default=2_000)
    given.add_argument("--place", help="where: on a disk that others fill it is not idle")
    asked = given.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.place) as place:
        machine = Machine(root=Path(place))
        machine.user.mkdir()
        settle_all(machine)
        homes = [each for each in machine.user.iterdir() if each.name.startswith(".")]
        for home in homes:
            folder = home / "many"
            folder.mkdir(exist_ok=True)
            for number in range(asked.files):
                (folder / f"{number}.txt").write_bytes(b"x")
        watched = subprocess.Popen(
            [*COMMAND, "maintain", "--watch"],
            env=machine.env(),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _after_the_first_round(watched)
            before, began = _used(watched.pid), time.monotonic()
            time.sleep(asked.minutes * 60)
            seconds = time.monotonic() - began
            cpu, memory = (_used(watched.pid) - before) / seconds, _memory(watched.pid)
        finally:
            watched.send_signal(signal.SIGTERM)
            watched.wait(30)
    files = len(homes) * asked.files
    sys.stdout.write(
        f"{len(homes)} folders of homes, {files:,} files more, {seconds:.0f} s idle: "
        f"{cpu:.4%} of a processor, {memory / 1e6:.1f} MB\n"
    )
    return 0 if cpu <= MOST_CPU and memory <= MOST_MEMORY else 1


def _after_the_first_round(watched: subprocess.Popen[str]) -> None:
    begun = done = 0
    for line in watched.stderr or ():
        begun += " watching " in line
        done += "maintenance of" in line
        if done and done >= begun:
            break
    time.sleep(_REST)


def _used(pid: int) -> float:
    """Processor time of a process and of its children that have ended."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, words[11:15])) / _TICK


def _memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(each.split()[1]) * 1_024 for each in lines if each.startswith("VmRSS"))


if __name__ == "__main__":
    sys.exit(main())

"""Archiving to a local object server beside archiving to a folder, on the same sessions in one run.

Whole processes are timed, the start of the interpreter included: `holdfast sessions archive` and
`holdfast sessions restore --all`. Every bundle is read back and compared on both sides. The server
is `rclone serve s3` over a folder of the same disk: what is measured is what the way over HTTP and
one more object for each bundle cost, not a network. Rounds alternate, medians are compared.

    .venv/bin/python bench/archives.py                 a few minutes; needs the development tools
    .venv/bin/python bench/archives.py --quick         whether it works
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import corpus
from plotting import common_options, save

_HOLDFAST = (sys.executable, "-m", "holdfast")
_KEYS = ("AKIDBENCHMARK000", "not-a-secret-0123456789")
_SESSIONS, _QUICK, _EACH, _ROUNDS = 500, 12, 20, 2
_TEXT = """\
## Archives on an object store

{count} sessions of {each} messages of about 1.4 kB, archived to a folder and to a local object
server (`rclone serve s3` over a folder of the same disk), and restored from there: whole processes,
medians of {rounds} alternating rounds. Every bundle is read back and compared on both sides.

| | folder | object server | ratio | wanted |
|---|---:|---:|---:|---:|
{rows}
"""


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The endpoint of an object server over a folder."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    program = Path(sys.executable).with_name("rclone")
    if not program.exists():
        raise SystemExit("bench/archives.py needs the development tools: make dev")
    (folder / "archive").mkdir(parents=True)
    serving = subprocess.Popen(
        [
            *(program, "serve", "s3", folder, "--addr", f"127.0.0.1:{port}"),
            *("--auth-key", ",".join(_KEYS), "--config", os.devnull, "--vfs-cache-mode", "off"),
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        while serving.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        serving.kill()
        serving.wait()


def a_home(root: Path, sessions: int) -> None:
    lines = root.with_suffix(".jsonl")
    made = corpus.sessions(sessions, _EACH, time.time())
    lines.write_text("".join(f"{json.dumps(each)}\n" for each in made))
    run(root, "sessions", "import", str(lines))


def run(root: Path, *words: str) -> float:
    keys = dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), _KEYS, strict=True))
    began = time.perf_counter()
    subprocess.run(
        [*_HOLDFAST, "--home", str(root), *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | keys | {"AWS_REGION": "us-east-1"},
    )
    return time.perf_counter() - began


def measured(sessions: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {"archive": {}, "restore": {}}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch:
        folder = Path(scratch)
        a_home(folder / "sample", sessions)
        with server(folder / "objects") as endpoint:
            for number in range(rounds):
                for place in ("folder", "object server"):
                    home = folder / f"{number}-{place[:6]}"
                    shutil.copytree(folder / "sample", home)
                    if place != "folder":
                        keys = f'url = "s3://archive/{number}"\nendpoint = "{endpoint}"\n'
                        (home / "config.toml").write_text(f"[archive]\n{keys}")
                    archive = ("sessions", "archive", "--older-than", "1d", "--yes")
                    found["archive"].setdefault(place, []).append(run(home, *archive))
                    restore = ("sessions", "restore", "--all")
                    found["restore"].setdefault(place, []).append(run(home, *restore))
                    shutil.rmtree(home)
    return found


def row(step: str, took: dict[str, list[float]], sessions: int) -> str:
    folder, objects = (statistics.median(took[place]) for place in ("folder", "object server"))
    wanted = "≤ 2 x" if step == "archive" else ""
    ratio = f"{objects / folder:.2f} x"
    return f"| {step} {sessions} | {folder:.2f} s | {objects:.2f} s | {ratio} | {wanted} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    common_options(parser)
    arguments = parser.parse_args()
    sessions, rounds = (_QUICK, 1) if arguments.quick else (_SESSIONS, _ROUNDS)
    found = measured(sessions, rounds)
    rows = "\n".join(row(step, took, sessions) for step, took in found.items())
    print(_TEXT.format(count=sessions, each=_EACH, rounds=rounds, rows=rows))
    save(arguments.json, [])


if __name__ == "__main__":
    main()

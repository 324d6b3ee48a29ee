"""A realistic home to show things on: session files in the proportions seen in the field.

728 transcripts, three quarters of them from cron jobs, two thirds with at most five messages, some
large ones, request dumps, and a few files that are somebody's state. Sizes are a tenth of what
was seen, so that the sample is made in a second. The same seed makes the same home.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.homes.artifact_scan import FOLDER
from holdfast.stores.files import make_private_dir, write_new

_TRANSCRIPTS = 728
_CRON_SHARE = 0.735
_TRIVIAL_SHARE = 0.673
_DUMPS = 180
_OLDEST_DAYS = 240
_SOURCES = ("cli", "telegram", "discord")
_JOBS = ("backup-check", "inbox-digest", "price-watch", "log-triage")
_SENTENCES = (
    "The nightly run finished without errors; 14 mails were filed.",
    "Please look at the failing test in the storage module and propose a fix.",
    "I read the file and found the retry loop that never backs off.",
    "The disk on the build machine is nearly full again.",
    "Done. The change is on a branch, with a test that failed before.",
    "Price of the watched item is unchanged since yesterday.",
)


def build(root: Path, now: float, seed: int = 7) -> None:
    """Fill an empty folder with a sample home whose newest files were touched just before `now`."""
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    sessions = root / FOLDER
    make_private_dir(sessions)
    transcripts = list(_transcripts(chance, now))
    for name, moment, content in transcripts:
        _write(sessions / name, moment, content)
    for name, moment, content in _dumps(chance, transcripts):
        _write(sessions / name, moment, content)
    _write(sessions / "sessions.json", now, {"agent:main": transcripts[0][0]})


_File = tuple[str, float, dict[str, Any]]


def _transcripts(chance: random.Random, now: float) -> Iterator[_File]:
    for number in range(_TRANSCRIPTS):
        # More recent than old ones, as with an agent that is used more and more.
        age = timedelta(days=_OLDEST_DAYS * chance.random() ** 1.5) if number else timedelta()
        started = datetime.fromtimestamp(now, UTC) - age
        stamp = started.strftime("%Y%m%d_%H%M%S")
        if chance.random() < _CRON_SHARE:
            source, session = "cron", f"cron_{chance.choice(_JOBS)}_{stamp}"
        else:
            source = chance.choice(_SOURCES)
            session = f"{stamp}_{chance.randrange(16**6):06x}"
        content = {
            "session_id": session,
            "platform": source,
            "session_start": started.isoformat(),
            "messages": _messages(chance),
        }
        yield f"session_{session}.json", started.timestamp(), content


def _messages(chance: random.Random) -> list[dict[str, str]]:
    trivial = chance.random() < _TRIVIAL_SHARE
    count = chance.randint(0, 5) if trivial else int(chance.paretovariate(1.1) * 20) % 900
    return [
        {
            "role": ("user", "assistant")[number % 2],
            "content": " ".join(chance.choices(_SENTENCES, k=chance.randint(1, 12))),
        }
        for number in range(count)
    ]


def _dumps(chance: random.Random, transcripts: list[_File]) -> Iterator[_File]:
    for name, moment, content in chance.choices(transcripts, k=_DUMPS):
        session = name.removeprefix("session_").removesuffix(".json")
        when = datetime.fromtimestamp(moment, UTC).strftime("%Y%m%d_%H%M%S")
        dump = {"session_id": session, "reason": "timeout", "request": content["messages"][:40]}
        yield f"request_dump_{session}_{when}_{chance.randrange(10**6):06}.json", moment, dump


def _write(path: Path, moment: float, content: dict[str, Any]) -> None:
    if path.exists():
        return  # two samples of one second and job: one is enough
    write_new(path, json.dumps(content, indent=1).encode())
    os.utime(path, (moment, moment))

"""A realistic home to show things on: stored sessions and files in the proportions of the field.

728 sessions in the store, files of some of them, files of sessions that the store never knew,
request dumps, and a file that is somebody's state. Texts are short, so that the sample is made in
a second or two. The same seed makes the same home.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.homes.sample_sessions import Sampled, memorable, sampled
from holdfast.homes.session_folder import FOLDER
from holdfast.homes.signs import DATABASE
from holdfast.stores import processes
from holdfast.stores.files import make_private_dir
from holdfast.stores.sqlite.session_import import SqliteImport
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from holdfast.value import replace

_SESSIONS = 728
_FILE_SHARE = 0.4
_ORPHANS = 60
_DUMPS = 120
_DUMPED_MESSAGES = 40
_PRIVATE = 0o600
#: More than the largest number that a system gives to a process: nobody has it.
_NOBODY = 2**30


def build(root: Path, now: float, seed: int = 7) -> str:
    """Fill an empty folder with a sample home that was in use just before `now`.

    Returns the id of the session in which `sample_sessions.MEMORABLE_WORD` was said.
    """
    chance = random.Random(seed)  # noqa: S311 - a sample, not a secret
    make_private_dir(root / FOLDER)
    one = memorable(chance, now)
    stored = [one, *sampled(chance, now, _SESSIONS - 1)]
    known = {each.session.id for each in stored}
    orphans = [each for each in sampled(chance, now, _ORPHANS) if each.session.id not in known]
    _store(root / DATABASE, stored, now)
    _write_files(root / FOLDER, chance, stored, orphans)
    return one.session.id


def _store(path: Path, sessions: Sequence[Sampled], now: float) -> None:
    """All of them in one transaction: only that makes it quick."""
    store = SqliteSessionStore(path)
    dead = replace(processes.this_process(), process=_NOBODY)
    with SqliteImport(store) as importing, importing.transaction():
        for each in sessions:
            importing.add(each.session, each.messages, now=now)
            if each.session.pinned:
                store.pin(each.session.id, pinned=True)
            if each.abandoned:
                store.hold(each.session.id, dead, now=each.session.last_active_at)
    store.close()


def _write_files(
    folder: Path, chance: random.Random, stored: Sequence[Sampled], orphans: Sequence[Sampled]
) -> None:
    with_file = [each for each in stored if chance.random() < _FILE_SHARE]
    for each in (*with_file, *orphans):
        _write(folder / f"session_{each.session.id}.json", each, _transcript(each))
    for name, each, content in _dumps(chance, [*stored, *orphans]):
        _write(folder / name, each, content)
    newest = stored[1]
    _write(folder / "sessions.json", newest, {"agent:main": newest.session.id})


def _transcript(each: Sampled) -> dict[str, Any]:
    session = each.session
    return {
        "session_id": session.id,
        "platform": session.source,
        "session_start": datetime.fromtimestamp(session.started_at, UTC).isoformat(),
        "messages": _plain(each),
    }


def _plain(each: Sampled) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": message.content} for message in each.messages]


def _dumps(
    chance: random.Random, sessions: Sequence[Sampled]
) -> Iterator[tuple[str, Sampled, dict[str, Any]]]:
    for each in chance.sample(sessions, k=_DUMPS):
        session = each.session
        when = datetime.fromtimestamp(session.last_active_at, UTC).strftime("%Y%m%d_%H%M%S")
        request = _plain(each)[:_DUMPED_MESSAGES]
        dump = {"session_id": session.id, "reason": "timeout", "request": request}
        yield f"request_dump_{session.id}_{when}_{chance.randrange(10**6):06}.json", each, dump


def _write(path: Path, each: Sampled, content: dict[str, Any]) -> None:
    """A file as old as its session. Not flushed to the disk: nobody would miss it."""
    path.touch(mode=_PRIVATE, exist_ok=False)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    moment = each.session.last_active_at
    os.utime(path, (moment, moment))

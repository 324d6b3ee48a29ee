"""A home with sessions to archive, and what a test wants to know of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.homes.holdfast import HoldfastHome
from holdfast.homes.options import ArchiveOptions, HomeOptions
from holdfast.model.item import SPACE
from holdfast.model.plan import Plan
from holdfast.model.report import Report
from holdfast.model.session import Message, Relation, Search, Session, SessionFilter, Tokens
from holdfast.policy.rules import DAY, Policy
from holdfast.services.plans import plan_archive
from holdfast.services.restore import chosen, restore
from holdfast.spine.apply import apply
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.sqlite.sessions import SqliteSessionStore
from tests.stored import file_of

NOW = 1_800_000_000.0
IDS = ("root", "middle", "leaf")
STAMPED = "20260325_112518_6995d1"

Everything = dict[str, tuple[Session, list[Message]]]
Files = dict[str, tuple[bytes | str, int, int]]


def clock() -> float:
    return NOW


def opened(root: Path, archive: ArchiveOptions | None = None) -> HoldfastHome:
    options = HomeOptions(archive=archive or ArchiveOptions())
    return HoldfastHome(root, clock=clock, options=options)


def folder_of(home: HoldfastHome) -> SessionArchive:
    """The folder that its doers work on."""
    return home.home_archive.folder


def store_of(home: HoldfastHome) -> SqliteSessionStore:
    return file_of(home.session_store())


def fill(home: HoldfastHome, *, messages: int = 12) -> None:
    """Three generations, all ended, with routes, titles and everything a message can have."""
    store = home.create_session_store()
    for session_id, parent in zip(IDS, (None, *IDS), strict=False):
        store.create(
            Session(
                id=session_id,
                source="cli",
                started_at=NOW - 100,
                last_active_at=NOW - 100,
                parent_id=parent,
                relation=Relation.BRANCH if parent else None,
                title=f"title of {session_id}",
                cwd="/work",
                model="m-1",
                routing_key=f"key of {session_id}",
                extra={"kept": [1, "two"], "title": "mine"},
            )
        )
        store.append(session_id, _messages(messages), now=NOW - 40)
        store.end(session_id, "done", at=NOW - 30)
    store.reopen("leaf", at=NOW - 20)  # later than its last message
    store.end("leaf", "done", at=NOW - 10)


def _messages(count: int) -> list[Message]:
    said = [
        Message(role="user", content=f"zebra {n} \ud800 " * 40, tokens=n, timestamp=NOW - 50)
        for n in range(count)
    ]
    called = Message(
        role="assistant",
        content=None,
        tool_calls=[{"id": "x", "function": {"arguments": '{"path": "quagga"}'}}],
        tokens=Tokens(input=1, output=2, cached=3),
        cost=0.5,
        extra={"role": "twice"},
    )
    return [*said, called]


def with_files(home: HoldfastHome, session_id: str) -> None:
    """A transcript, a dump and a link, with modes and times that nobody would choose."""
    folder = home.root / "sessions"
    folder.mkdir(exist_ok=True)
    transcript = folder / f"{session_id}.jsonl"
    transcript.write_bytes(b'{"session_id": "%s"}\n' % session_id.encode())
    transcript.chmod(0o640)
    os.utime(transcript, ns=(10**18 + 7, 10**18 + 123_456_789))
    dump = folder / f"request_dump_{session_id}_20260325_112518.json"
    dump.write_bytes(os.urandom(70_000))
    dump.chmod(0o400)
    os.utime(dump, ns=(10**18, 10**18 + 1))
    link = folder / f"request_dump_{session_id}_20260325_112519.json"
    link.symlink_to("/nowhere/at/all")
    os.utime(link, ns=(10**18, 10**18 + 2), follow_symlinks=False)


def a_stored_session(home: HoldfastHome, session_id: str = STAMPED) -> None:
    store = home.create_session_store()
    store.create(
        Session(id=session_id, source="cron", started_at=NOW - 90, last_active_at=NOW - 90)
    )
    store.append(session_id, _messages(3), now=NOW - 80)
    store.end(session_id, "done", at=NOW - 70)


def everything(home: HoldfastHome) -> Everything:
    store = store_of(home)
    return {
        session.id: (
            session,
            [replace(message, number=None) for message in store.messages(session.id)],
        )
        for session in store.find(SessionFilter())
    }


def files(home: HoldfastHome) -> Files:
    seen: Files = {}
    folder = home.root / "sessions"
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        status = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes()
        seen[path.name] = (content, status.st_mode, status.st_mtime_ns)
    return seen


def found(home: HoldfastHome, text: str = "zebra") -> set[str]:
    hits = store_of(home).search(Search(text=text, wanted=SessionFilter(), limit=2_000))
    return {hit.session.id for hit in hits}


def check_store(home: HoldfastHome) -> None:
    with store_of(home).database.write() as db:
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")


def planned(home: HoldfastHome, *ids: str) -> Plan:
    plan, _ = plan_archive(
        home, home.archive, ids=ids, policy=Policy(), now=NOW + DAY, command="sessions archive"
    )
    return plan


def archive(home: HoldfastHome, *ids: str) -> Report:
    return carried_out(planned(home, *ids), home)


def carried_out(plan: Plan, home: HoldfastHome) -> Report:
    """What became of sessions and files; that space is given back has its own tests."""
    report = apply(plan, home, clock=clock)
    outcomes = tuple(each for each in report.outcomes if each.kind != SPACE)
    return replace(report, outcomes=outcomes)


def bring(home: HoldfastHome, *ids: str) -> Report:
    wanted = chosen(home.archive, ids)
    return restore(home, wanted, command="sessions restore", clock=clock)


def archived(home: HoldfastHome) -> Sequence[str]:
    return sorted(each.file for each in home.archive.find(SessionFilter()))

"""Homes of Hermes with sessions: a recorded one, and those that a real release makes."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.homes.hermes.home import HermesHome
from holdfast.model.plan import Plan
from holdfast.model.report import Report
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.services.plans import plan_delete
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo_latest
from tests.compat import hermes_release
from tests.compat.hermes_release import NEWEST, NotInstallableError

#: When the recorded home was left.
NOW = 1_700_000_000.0
RECORDED = Path(__file__).parents[1] / "data" / f"hermes-{NEWEST}-sessions.tar.gz"
#: Those of its sessions that a retention of 90 days lets go, and those that it may not touch. Of
#: the latter one has no end, and whoever worked with it is gone.
OLD = {
    "20260101_101010_aaaaaa",
    "cron_backup_20260102_030405",
    "20260103_000000_titled",
    "20260104_000000_parent",
    "20260104_000100_follow",
    "20260105_000000_branch",
    "20260106_000000_delega",
    "20260107_000000_empty0",
    "api:chat/1",
}
ABANDONED = "20260109_000000_aband0"
LIVING = {
    "20260108_000000_routed",
    "20260501_000000_recent",
    "20260502_000000_open00",
    ABANDONED,
}

_WORKER = Path(__file__).with_name("hermes_session_worker.py")
_SEARCH = ("messages_fts", "messages_fts_trigram")


def recorded(place: Path) -> Path:
    """A home that the newest release made, under a name that says nothing."""
    with tarfile.open(RECORDED) as archive:
        archive.extractall(place, filter="tar")
    return place / "agent"


def opened(root: Path, now: float = NOW) -> HermesHome:
    return HermesHome(root, clock=lambda: now)


def prune_plan(root: Path, days: float = 90, now: float = NOW) -> Plan:
    policy = Policy(everywhere=Limits(rules=Rules(max_age=days * DAY)))
    return plan(policy, opened(root, now).scan(now), now, command="sessions prune")


def applied(root: Path, made: Plan, now: float = NOW) -> Report:
    return apply(made, opened(root, now), clock=lambda: now, progress=Silent())


def pruned(root: Path, days: float = 90, now: float = NOW) -> Report:
    return applied(root, prune_plan(root, days, now), now)


def deleted(root: Path, *ids: str, now: float = NOW) -> Report:
    made = plan_delete(opened(root, now), ids, now=now, command="sessions delete")
    return applied(root, made, now)


def undone(root: Path, now: float = NOW) -> Report:
    return undo_latest(opened(root, now), clock=lambda: now)[1]


def session_ids(root: Path) -> set[str]:
    with database(root) as db:
        return {name for (name,) in db.execute("SELECT id FROM sessions")}


@contextlib.contextmanager
def database(root: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(root / "state.db", isolation_level=None)) as db:
        yield db


@dataclass(frozen=True, slots=True)
class Seen:
    """All that Hermes has in a home, to the last bit."""

    rows: dict[str, list[tuple[Any, ...]]]
    searched: dict[str, list[tuple[Any, ...]]]
    files: dict[str, tuple[bytes, int, int]]


def seen(root: Path) -> Seen:
    check(root)
    with database(root) as db:
        names = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if not name.startswith(("sqlite_", *_SEARCH))
        ]
        rows = {
            name: db.execute(f"SELECT rowid, * FROM {name} ORDER BY rowid").fetchall()
            for name in names
        }
        searched = {
            name: db.execute(f"SELECT rowid, content FROM {name} ORDER BY rowid").fetchall()
            for name in _SEARCH
        }
    return Seen(rows, searched, files(root))


def files(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """What lies in the folder of session files: content, permissions, time."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in (root / "sessions").iterdir()
    }


def check(root: Path) -> None:
    """Raise unless the database is whole, and its search tables in step with its messages."""
    with database(root) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        for name in _SEARCH:
            db.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('integrity-check', 0)")
            missing = db.execute(
                f"""
                SELECT count(*) FROM messages m FULL JOIN {name} i ON i.rowid = m.id
                WHERE i.rowid IS NULL OR m.id IS NULL
                """
                if sqlite3.sqlite_version_info >= (3, 39)
                else f"SELECT (SELECT count(*) FROM messages) - (SELECT count(*) FROM {name})"
            ).fetchone()
            assert missing == (0,), name


def whole(root: Path) -> None:
    """Raise unless Hermes could open the database as a killed run left it: its tables whole, and
    search in step with the sessions that stay."""
    with database(root) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        for table in _SEARCH:
            db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 0)")
        lost = db.execute(
            """
            SELECT count(*) FROM messages
            WHERE session_id IN (SELECT value FROM json_each(?))
              AND id NOT IN (SELECT id FROM messages_fts_docsize)
            """,
            (json.dumps(sorted(LIVING)),),
        ).fetchone()
        assert lost == (0,), "Hermes cannot find what stays"


# --- Real releases --------------------------------------------------------------------------------


def hermes_python(version: str) -> Path:
    """The interpreter of a release; a test that cannot have it is skipped."""
    try:
        return hermes_release.hermes_python(version)
    except NotInstallableError as error:
        pytest.skip(f"Hermes {version} cannot be installed here: {error}")


def hermes(root: Path, work: str, *arguments: str, version: str = NEWEST) -> Any:
    """Let Hermes's own code do something in a home."""
    with started(root, work, *arguments, version=version) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


@contextlib.contextmanager
def started(
    root: Path, work: str, *arguments: str, version: str = NEWEST
) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [str(hermes_python(version)), str(_WORKER), str(root), work, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"HERMES_HOME": str(root), "HOME": str(root.parent)},
        cwd=root.parent,
    ) as process:
        yield process

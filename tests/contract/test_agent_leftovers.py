"""What OpenClaw and Vibe keep beside their sessions, and where Goose and gptme have their homes
when a variable says so."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from holdfast.homes.agents import openclaw as form
from holdfast.homes.agents import signs_of_life as life
from holdfast.model.item import LEFTOVER
from holdfast.stores.sqlite.foreign import add_newer_functions
from tests.contract.agent_homes import NOW
from tests.contract.agents import goose, gptme, openclaw, vibe

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_OLD = NOW - 200 * 86_400
_ONE = "agent.main.explicit.lab-one"
_ARCHIVE = "0123abcd.jsonl.zst"


@pytest.fixture(autouse=True)
def nobody_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of this machine would keep everything that is left over."""
    monkeypatch.setattr(life, "_processes", lambda: iter(()))


def opened(root: Path) -> Home:
    return holdfast.open(root, clock=lambda: NOW)


def write_old(path: Path, content: bytes = b"x" * 10_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (_OLD, _OLD))
    return path


def leftovers(home: Home) -> dict[str, tuple[str, int]]:
    """By the name of the file: its kind and its bytes."""
    items = [each for each in home.scan().items if each.kind == LEFTOVER]
    return {each.id.rpartition(":")[2]: (each.source, each.bytes) for each in items}


def put_away(root: Path) -> Path:
    """The events of a session in a file, as OpenClaw does it."""
    with closing(sqlite3.connect(root / openclaw.DATABASE)) as db, db:
        add_newer_functions(db)
        [window] = db.execute(
            "SELECT session_id FROM session_windows WHERE session_key = ?",
            (_ONE.replace(".", ":"),),
        ).fetchone()
        events = db.execute(
            "SELECT seq, event_json, event_zstd FROM transcript_events WHERE session_id = ?"
            " ORDER BY seq",
            (window,),
        ).fetchall()
        lines = [{"kind": "header", "version": 1, "sessionId": window, "generation": "g"}]
        for seq, text, packed in events:
            said = text or zstd.decompress(packed).decode()
            lines.append({"kind": "event", "row": {"seq": seq, "event_json": said}})
        content = zstd.compress("\n".join(map(json.dumps, lines)).encode())
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM transcript_events WHERE session_id = ?", (window,))
        db.execute(
            "INSERT INTO session_transcript_cold_archives VALUES"
            " (?, 'g', ?, ?, ?, 9, ?, ?, 1, 'file', NULL)",
            (window, _ARCHIVE, "0" * 64, len(events), len(content), len(events)),
        )
    return write_old(root / "agents/main/sessions/cold" / _ARCHIVE, content)


def test_what_openclaw_put_away_is_read_and_goes_with_its_session(tmp_path: Path) -> None:
    openclaw.make(tmp_path / "home")
    with opened(tmp_path / "home") as home:
        before = [str(each.content) for each in home.sessions.messages(_ONE)]
    archive = put_away(tmp_path / "home")
    content = archive.read_bytes()
    with opened(tmp_path / "home") as home:
        assert [str(each.content) for each in home.sessions.messages(_ONE)] == before
        assert archive.name not in leftovers(home)
        assert "cold" not in leftovers(home)
        report = home.delete([_ONE])
        assert not archive.exists()
        assert not report.undo().failed
        assert archive.read_bytes() == content
        assert [str(each.content) for each in home.sessions.messages(_ONE)] == before


def test_a_number_of_the_search_index_that_openclaw_gave_again(tmp_path: Path) -> None:
    """It numbers what was said through all sessions, and begins again where the last one left."""
    openclaw.make(tmp_path / "home")
    with opened(tmp_path / "home") as home:
        home.delete([_ONE.replace("one", "three")])
    with closing(sqlite3.connect(tmp_path / "home" / openclaw.DATABASE)) as db, db:
        rows = (
            "INSERT INTO session_transcript_fts_rows (session_id, message_id) VALUES ('new', '1')"
        )
        number = db.execute(rows).lastrowid
        db.execute(
            "INSERT INTO session_transcript_fts (rowid, text, session_id) VALUES (?, 'x', 'new')",
            (number,),
        )
    with opened(tmp_path / "home") as home:
        assert not home.undo_latest().failed
        assert home.sessions.get(_ONE.replace("one", "three")).message_count
    with closing(sqlite3.connect(tmp_path / "home" / openclaw.DATABASE)) as db:
        apart = db.execute(
            "SELECT count(*) FROM session_transcript_fts_rows AS r JOIN session_transcript_fts AS f"
            " ON f.rowid = r.id WHERE f.session_id IS NOT r.session_id"
        ).fetchone()
        assert apart == (0,)


def test_what_openclaw_forgot_to_remove_is_left_over(tmp_path: Path) -> None:
    """It keeps such a file after the events are back in the database."""
    openclaw.make(tmp_path / "home")
    archive = put_away(tmp_path / "home")
    forgotten = write_old(archive.with_name("4567.jsonl.zst"))
    config = "[sessions.source.cold-archive]\nleftovers_retention_days = 30\n"
    write_old(tmp_path / "home/.holdfast/config.toml", config.encode())
    with opened(tmp_path / "home") as home:
        assert leftovers(home)[forgotten.name] == ("cold-archive", 12_288)
        home.prune(kinds="leftover")
        assert (archive.exists(), forgotten.exists()) == (True, False)
        assert not home.undo_latest().failed
    assert forgotten.read_bytes() == b"x" * 10_000


def test_logs_of_openclaw_are_shown_with_the_home_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie outside, and are of all homes: the one at the usual place shows them."""
    home, other = tmp_path / "user" / ".openclaw", tmp_path / "other"
    home.parent.mkdir()
    openclaw.make(home)
    openclaw.make(other)
    log = write_old(tmp_path / "logs" / "openclaw-2026-01-01.log")
    write_old(tmp_path / "logs" / "secrets.json")
    monkeypatch.setattr(form, "LOGS", log.parent)
    entry = pwd.struct_passwd(("me", "x", 0, 0, "", str(home.parent), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry)
    with opened(home) as usual, opened(other) as elsewhere:
        assert leftovers(usual)[log.name][0] == "log"
        assert log.name not in leftovers(elsewhere)
        assert "secrets.json" not in leftovers(usual)
        assert not usual.prune(kinds="leftover").removed, "they stay until somebody says how long"
    write_old(home / ".holdfast/config.toml", b"[sessions]\nleftovers_retention_days = 30\n")
    with opened(home) as usual:
        usual.prune(kinds="leftover")
        assert not log.exists()
        assert not usual.undo_latest().failed
    assert log.stat().st_size == 10_000


def test_plugins_of_vibe(tmp_path: Path) -> None:
    """What they keep for a session goes with it. Unpacked ones are made again, so they are left
    over; what they are made from is not."""
    vibe.make(tmp_path / "home")
    plugins = tmp_path / "home/logs/session/plugins"
    data = write_old(plugins / "data" / vibe.HOME.whole / "vibe" / "state")
    stray = write_old(plugins / "data" / "gone" / "vibe" / "state")
    package = write_old(plugins / "packages/99/9966/plugin.json")
    blob = write_old(plugins / "blobs/6c/6c28")
    package.parent.chmod(0o500)  # as Vibe leaves it
    for folder in (package.parent, package.parents[1], stray.parent.parent):
        os.utime(folder, (_OLD, _OLD))
    write_old(
        tmp_path / "home/.holdfast/config.toml",
        b"[sessions.source.plugin-package]\nleftovers_retention_days = 30\n",
    )
    with opened(tmp_path / "home") as home:
        found = leftovers(home)
        assert found["plugin-package/99"][0] == "plugin-package"
        assert {kind for kind, _ in found.values()} >= {"plugin-package", "plugin-data"}
        report = home.delete([vibe.HOME.whole])
        assert (data.exists(), stray.exists()) == (False, True)
        assert not report.undo().failed
        assert data.read_bytes() == b"x" * 10_000
        home.prune(kinds="leftover")
        assert (package.exists(), stray.exists(), blob.exists()) == (False, True, True)
        assert not home.undo_latest().failed
    assert package.exists()


# --- Variables ------------------------------------------------------------------------------------


def test_the_variable_of_goose_names_a_folder_above(tmp_path: Path) -> None:
    (tmp_path / "goose-root").mkdir()
    goose.make(tmp_path / "goose-root" / "data")
    environ = {"GOOSE_PATH_ROOT": str(tmp_path / "goose-root")}
    with holdfast.machine(user_home=tmp_path / "user", environ=environ) as machine:
        [home] = machine.homes
        assert (home.agent, home.path) == ("goose", tmp_path / "goose-root" / "data")
        assert home.name == "goose"


@pytest.mark.parametrize("nested", [False, True], ids=("its own", "in a home"))
def test_the_variable_of_gptme_names_the_folder_of_conversations(
    tmp_path: Path, nested: bool
) -> None:
    gptme.make(tmp_path / "gptme")
    place = tmp_path / "gptme" / "logs"
    if not nested:
        place = Path(shutil.move(place, tmp_path / "chats"))
        shutil.rmtree(tmp_path / "gptme")
    environ = {"GPTME_LOGS_HOME": str(place)}
    with holdfast.machine(user_home=tmp_path / "user", environ=environ) as machine:
        [found] = machine.homes
        assert (found.agent, found.path) == ("gptme", place.parent if nested else place)
    with opened(found.path) as home:
        ids = {each.id for each in home.sessions.find()}
        assert len(ids) == gptme.HOME.sessions
        assert not leftovers(home)
        report = home.delete(sorted(ids))
        assert report.removed == len(ids)
    with opened(found.path) as home:  # nothing but ours is left, and it is still known
        assert home.kind == "gptme"
        assert not home.undo_latest().failed
        assert {each.id for each in home.sessions.find()} == ids

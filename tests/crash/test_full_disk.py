"""A disk that fills up in the middle of appends: the message is refused, the store stays whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.small_disk import with_a_disk

SCRIPT = """
import json, sys
from pathlib import Path
from holdfast.errors import StorageError
from holdfast.model.session import Message, Session
from holdfast.stores.sqlite.sessions import SqliteSessionStore
import os

root = Path(sys.argv[1])
store = SqliteSessionStore(root / "sessions.db")
store.create(Session(id="s", source="cli", started_at=0.0, last_active_at=0.0))
stored, refused = 0, ""
for number in range(10_000):
    try:
        store.append("s", [Message(role="user", content=os.urandom(3_000).hex())], now=1.0)
    except StorageError as error:
        refused = error.message
        break
    stored += 1
before = len(list(store.messages("s")))
(root / "ballast").unlink()
store.append("s", [Message(role="user", content="after")], now=1.0)
with store.database.write() as db:
    ok = db.execute("PRAGMA integrity_check").fetchone()[0]
    db.execute("INSERT INTO message_index (message_index, rank) VALUES ('integrity-check', 1)")
count = store.get("s").message_count
print(json.dumps([stored, refused, before, ok, count, len(list(store.messages("s")))]))
"""


def test_a_full_disk_refuses_the_message_and_keeps_the_store(tmp_path: Path) -> None:
    said = with_a_disk(tmp_path, SCRIPT, megabytes=8, ballast=2)
    stored, refused, before, integrity, count, after = json.loads(said)
    assert stored > 10
    assert "full" in refused
    assert before == stored
    assert integrity == "ok"
    assert count == after == stored + 1


READING = """
import sys
from pathlib import Path
from holdfast.model.session import SessionFilter
from tests.compat.hermes_sessions import opened, recorded

disk = Path(sys.argv[1])
home = opened(recorded(disk))
try:
    with (disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
except OSError:
    pass
print(len(list(home.session_store().find(SessionFilter()))))
"""


def test_the_sessions_of_hermes_can_be_read_on_a_full_disk(tmp_path: Path) -> None:
    assert int(with_a_disk(tmp_path, READING, megabytes=4)) > 10


PRUNING = """
import json, os, subprocess, sys
from pathlib import Path
from holdfast.model.session import Message, Session, SessionFilter
from holdfast.stores.sqlite.sessions import SqliteSessionStore

home = Path(sys.argv[1]) / "home"
home.mkdir()
store = SqliteSessionStore(home / "sessions.db")
for number in range(300):
    name = f"s{number:03}"
    store.create(Session(id=name, source="cli", started_at=1.0, last_active_at=1.0))
    texts = [os.urandom(600).hex() for _ in range(8)]
    store.append(name, [Message(role="user", content=text) for text in texts], now=2.0)
    store.end(name, "done", at=3.0)
store.close()

def free():
    at = os.statvfs(home)
    return at.f_bavail * at.f_frsize

def holdfast(*words):
    command = [sys.executable, "-m", "holdfast", "--home", str(home), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split())

holdfast("log")
with (home.parent / "filler").open("wb", buffering=0) as filler:
    while free() > int(sys.argv[2]):
        filler.write(bytes(4096))
before = free()
code, said = holdfast("sessions", "prune", "--older-than", "1d", "--yes")
after = free()
left = len(list(SqliteSessionStore(home / "sessions.db").find(SessionFilter())))
print(json.dumps([code, said, before - after, left, (home / "trash").exists()]))
"""


@pytest.mark.parametrize("kilobytes", [1_000, 2_000])
def test_a_prune_without_room_for_undo_copies_says_so_once_and_takes_no_room(
    tmp_path: Path, kilobytes: int
) -> None:
    said = with_a_disk(tmp_path, PRUNING, str(kilobytes * 1_000), megabytes=24)
    code, words, taken, left, trash = json.loads(said)
    assert code == 1
    assert words.count("there is no space") == 1
    assert words.count("--now") == 1
    assert "… and 296 more" in words
    assert left == 300
    assert not trash
    assert taken < 200_000  # the log of the operation


def test_what_would_only_go_to_the_trash_does_not_use_up_the_reserve(tmp_path: Path) -> None:
    held = PRUNING.replace(
        "before = free()",
        "(home / 'reserve').write_bytes(bytes(600_000))\nbefore = free()",
    )
    said = with_a_disk(tmp_path, held, "1000000", megabytes=24)
    code, words, taken, left, trash = json.loads(said)
    assert code == 1
    assert "the disk is full, and what goes to the trash stays on it" in words
    assert "--now" in words
    assert (left, trash, taken) == (300, False, 0)


AT_ZERO = """
import json, os, subprocess, sys, time
from pathlib import Path
from holdfast.model.session import Message, Session, SessionFilter
from holdfast.stores.sqlite.sessions import SqliteSessionStore

user = Path(sys.argv[1]) / "user"
home = user / ".holdfast"
home.mkdir(parents=True)
(home / "config.toml").write_text("[guardian]\\nreserve_mb = 4\\n")
store = SqliteSessionStore(home / "sessions.db")
for number in range(200):
    name = f"s{number:03}"
    store.create(Session(id=name, source="cli", started_at=1.0, last_active_at=1.0))
    texts = [os.urandom(600).hex() for _ in range(8)]
    store.append(name, [Message(role="user", content=text) for text in texts], now=2.0)
    store.end(name, "done", at=3.0)
store.close()
claude = user / ".claude" / "projects" / "-work"
claude.mkdir(parents=True)
for number in range(3):
    line = {"type": "user", "sessionId": f"{number:08}-0000-4000-8000-000000000000", "cwd": "/work",
            "version": "2.1.325", "timestamp": "2026-01-01T00:00:00.000Z", "uuid": str(number),
            "message": {"role": "user", "content": "hello " * 200}}
    path = claude / f"{line['sessionId']}.jsonl"
    path.write_text(json.dumps(line) + "\\n")
    os.utime(path, (time.time() - 9e6,) * 2)

def holdfast(*words):
    command = [sys.executable, "-m", "holdfast", *words]
    env = {**os.environ, "HOME": str(user), "HOLDFAST_HOME": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    return done.returncode, " ".join((done.stdout + done.stderr).split())

said = {"made": holdfast("maintain", "--all-homes", "--force")}
held = os.stat(home / "reserve").st_blocks * 512
filler = open(Path(sys.argv[1]) / "filler", "wb", buffering=0)
for piece in (1 << 20, 4096, 1):
    try:
        while True:
            filler.write(bytes(piece))
    except OSError:
        pass
disk = os.statvfs(home)
said["free"] = disk.f_bavail * disk.f_frsize
for words in (["status"], ["sessions", "list"], ["--home", "holdfast", "sessions", "list"],
              ["--home", "holdfast", "sessions", "prune", "--older-than", "1d", "--dry-run"]):
    said[" ".join(words)] = holdfast(*words)
said["prune"] = holdfast("--home", "holdfast", "sessions", "prune", "--older-than", "1d", "--now",
                         "--yes")
left = len(list(SqliteSessionStore(home / "sessions.db").find(SessionFilter())))
said["log"] = holdfast("--home", "holdfast", "log")
filler.close()
(Path(sys.argv[1]) / "filler").unlink()
said["again"] = holdfast("maintain", "--all-homes", "--force")
again = os.stat(home / "reserve").st_blocks * 512
print(json.dumps([said, held, left, again]))
"""


@pytest.mark.deep
def test_with_nothing_free_it_still_shows_plans_and_prunes(tmp_path: Path) -> None:
    printed = with_a_disk(tmp_path, AT_ZERO, megabytes=72)
    said, held, left, again = json.loads(printed.splitlines()[-1])
    free = said.pop("free")
    assert free == 0
    assert held >= 4_000_000
    for words, (code, text) in said.items():
        assert code == 0, (words, text)
    assert left <= 1, "the newest may stay"
    assert "released its reserve" in said["prune"][1]
    assert "200" in said["log"][1]
    assert again >= 4_000_000


EMPTYING = """
import json, os, subprocess, sys, time
from pathlib import Path

disk = Path(sys.argv[1])
home = disk / ".claude"
home.mkdir()
(home / "settings.json").write_text("{}")
for number in range(60):
    name = f"{number:08}-0000-4000-8000-000000000000"
    path = home / "projects" / "-work" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    at = time.time() - (300 if number < 30 else 100) * 86_400
    said = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at))
    line = {"type": "user", "sessionId": name, "cwd": "/work", "version": "2.1.325", "uuid": "1",
            "timestamp": said, "message": {"role": "user", "content": "hello " * 2_000}}
    path.write_text(json.dumps(line) + "\\n")
    os.utime(path, (at, at))

def holdfast(*words):
    command = [sys.executable, "-m", "holdfast", "--home", str(home), *words]
    env = {**os.environ, "HOME": str(disk), "HOLDFAST_HOME": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    return done.returncode, " ".join((done.stdout + done.stderr).split())

def fill():
    with (disk / "filler").open("ab", buffering=0) as filler:
        for piece in (1 << 20, 4096, 1):
            try:
                while True:
                    filler.write(bytes(piece))
            except OSError:
                pass

first = holdfast("sessions", "prune", "--older-than", "200d", "--yes")
assert first[0] == 0, first
holdfast("sessions", "list")
index = home / ".holdfast" / "index" / "units.json"
fill()
refused = holdfast("sessions", "prune", "--older-than", "1d", "--yes")
kept = index.exists()
shown = holdfast("status")
index.unlink()
fill()
emptied = holdfast("trash", "empty", "--yes", "--json")
left = [str(each) for each in (home / ".holdfast" / "trash").rglob("*") if each.is_file()]
again = holdfast("trash", "list")
print(json.dumps([refused, kept, shown, emptied, left, again]))
"""


def test_the_trash_can_be_emptied_with_nothing_free(tmp_path: Path) -> None:
    """What goes makes the room for the log of it. What would only go to the trash is refused, and
    costs Holdfast nothing that it remembers."""
    printed = with_a_disk(tmp_path, EMPTYING, megabytes=12)
    refused, kept, shown, emptied, left, again = json.loads(printed)
    assert refused[0] == 1
    assert "--now" in refused[1]
    assert kept
    assert shown[0] == 0
    assert "The disk is full: 0 B free." in shown[1]
    assert emptied[0] == 0, emptied
    report = json.loads(emptied[1].partition("{")[1] + emptied[1].partition("{")[2])["report"]
    assert report["bytes_freed"] > 300_000
    assert not left
    assert "empty" in again[1]

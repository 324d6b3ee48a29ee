"""A disk that fills up in the middle of appends: the message is refused, the store stays whole."""

from __future__ import annotations

import json
from pathlib import Path

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

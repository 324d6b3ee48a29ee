"""A disk that fills up in the middle of appends: the message is refused, the store stays whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

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


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_refuses_the_message_and_keeps_the_store(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    small = tmp_path / "small"
    small.mkdir()
    ballast = f"dd if=/dev/zero of={small}/ballast bs=1M count=2 status=none"
    mount = f"mount -t tmpfs -o size=8m tmpfs {small}"
    run = f"{sys.executable} {tmp_path}/script.py {small}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && {ballast} && {run}"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no small file system can be made here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    stored, refused, before, integrity, count, after = json.loads(done.stdout)
    assert stored > 10
    assert "full" in refused
    assert before == stored
    assert integrity == "ok"
    assert count == after == stored + 1

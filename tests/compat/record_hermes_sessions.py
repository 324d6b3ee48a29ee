"""Make the recorded home anew, with the real release.

python tests/compat/record_hermes_sessions.py
"""

from __future__ import annotations

import sqlite3
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.compat.hermes_sessions import NOW, RECORDED, hermes


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        home = Path(made).resolve() / "agent"
        hermes(home, "build", str(NOW))
        with closing(sqlite3.connect(home / "state.db")) as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        RECORDED.parent.mkdir(exist_ok=True)
        with tarfile.open(RECORDED, "w:gz") as archive:
            archive.add(home, "agent")
    print(f"{RECORDED}: {RECORDED.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

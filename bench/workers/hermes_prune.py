"""The same sessions in Hermes's own `SessionDB`, pruned by its own methods; runs in the environment
of the baseline.

    hermes_prune.py build HOME FILE     take the sessions of a JSONL file in
    hermes_prune.py prune HOME          prune with files, then VACUUM
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

from hermes_state import SessionDB

# Hermes takes at most 500 sessions and 25 MB in one import.
_AT_ONCE = 200


def build(home: str, file: str) -> dict[str, int]:
    store = SessionDB(Path(home, "state.db"))
    imported = 0
    with Path(file).open(encoding="utf-8") as lines:
        while some := list(itertools.islice(lines, _AT_ONCE)):
            sessions = [json.loads(line) for line in some]
            # Its own name for it.
            for message in itertools.chain.from_iterable(s["messages"] for s in sessions):
                message["token_count"] = message.pop("tokens")
            imported += store.import_sessions(sessions)["imported"]
    store.close()
    return {"sessions": imported}


def prune(home: str) -> dict[str, int]:
    store = SessionDB(Path(home, "state.db"))
    pruned = store.prune_sessions(older_than_days=90, sessions_dir=Path(home, "sessions"))
    store.vacuum()
    store.close()
    return {"sessions": pruned}


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    print(json.dumps(globals()[what](*arguments)))

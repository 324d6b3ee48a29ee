"""Sessions as a JSONL file, and a file for each of them as agents write them; in a process of its
own, so that the memory of the texts is not taken for that of what is measured."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import corpus


def main(file: str, count: int, per_session: int, folders: list[str]) -> None:
    for folder in folders:
        Path(folder).mkdir(parents=True)
    with Path(file).open("w", encoding="utf-8") as lines:
        for session in corpus.sessions(count, per_session, time.time()):
            lines.write(json.dumps(session) + "\n")
            for folder in folders:
                write(Path(folder), session)


def write(folder: Path, session: dict[str, object]) -> None:
    path = folder / f"session_{session['id']}.json"
    about = {"session_id": session["id"], "platform": session["source"]}
    path.write_text(json.dumps({**about, "messages": session["messages"]}), encoding="utf-8")
    moment = float(str(session["ended_at"]))
    os.utime(path, (moment, moment))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])

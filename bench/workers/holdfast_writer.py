"""An agent at work: appends a message every 5 ms until its standard input ends, and tells how long
each append took.

    holdfast_writer.py HOME
"""

from __future__ import annotations

import json
import select
import statistics
import sys
import time
from pathlib import Path

from holdfast.api.sessions import open_sessions
from holdfast.model.session import Message
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.session_limits import SessionLimits

_PAUSE = 0.005
_TEXT = "The nightly run finished without errors; 14 mails were filed. " * 3


def main(home: Path) -> dict[str, float]:
    options = SessionOptions(limits=SessionLimits(max_messages=0, max_bytes=0))
    waits: list[float] = []
    with open_sessions(home, options=options, clock=time.time) as sessions:
        session = sessions.create(source="cli")
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], _PAUSE)[0]:
            began = time.perf_counter()
            sessions.append(session.id, Message(role="user", content=_TEXT))
            waits.append(time.perf_counter() - began)
        sessions.end(session.id)
    return {
        "appends": len(waits),
        "median": statistics.median(waits),
        "p99": statistics.quantiles(waits, n=100)[-1],
        "longest": max(waits),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))

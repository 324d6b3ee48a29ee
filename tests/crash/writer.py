"""One writer of a session store: appends until it is killed, and says what was acknowledged.

`python -m tests.crash.writer DATABASE SESSION NAME SECONDS` prints one line for each message after
`append` has returned: from then on it must never be lost.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from holdfast.model.session import Message
from holdfast.stores.sqlite.sessions import SqliteSessionStore


def main(database: str, session: str, name: str, seconds: str) -> None:
    store = SqliteSessionStore(Path(database))
    chance = random.Random(name)
    end = time.monotonic() + float(seconds)
    number = 0
    while time.monotonic() < end:
        batch = [f"{name}-{number + index}" for index in range(chance.choice((1, 1, 1, 3)))]
        padding = " lorem ipsum" * chance.randrange(200)
        store.append(
            session,
            [Message(role="user", content=text + padding, tokens=1) for text in batch],
            now=time.time(),
        )
        sys.stdout.write("".join(text + "\n" for text in batch))
        sys.stdout.flush()
        number += len(batch)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""An agent on a home that is being pruned: opens sessions, talks, ends them, goes back to old ones.

`python -m tests.crash.talker HOME NAME SECONDS` prints one line for each message after `append` has
returned, `session message`: from then on it must never be lost.
"""

from __future__ import annotations

import random
import sys
import time

from holdfast.api.sessions import open_sessions
from holdfast.errors import HoldfastError, SessionEndedError, UnknownSessionError
from holdfast.model.session import Message
from holdfast.policy.lifecycle import SessionOptions, Transcript
from holdfast.services.sessions import Sessions


def talk(sessions: Sessions, session_id: str, text: str) -> None:
    sessions.append(session_id, Message(role="user", content=text + " lorem" * 50, tokens=1))
    sys.stdout.write(f"{session_id} {text}\n")
    sys.stdout.flush()


def go_back(sessions: Sessions, session_id: str, text: str) -> None:
    """It may have been pruned since, or be ended by whoever shares it; nothing else may happen."""
    try:
        sessions.reopen(session_id)
        talk(sessions, session_id, text)
        sessions.end(session_id)
    except (UnknownSessionError, SessionEndedError):
        return


def main(home: str, name: str, seconds: str) -> None:
    chance = random.Random(name)
    options = SessionOptions(transcripts={"default": Transcript.JSONL})
    end = time.monotonic() + float(seconds)
    ours: list[str] = []
    with open_sessions(home, options=options) as sessions:
        for number in range(1_000_000):
            if time.monotonic() > end:
                return
            if ours and chance.random() < 0.4:
                # Those of a moment ago, whether that is ten sessions or a thousand.
                lately = ours[-chance.choice((10, 100, 1_000)) :]
                go_back(sessions, chance.choice(lately), f"{name}-{number}-again")
                continue
            session = sessions.create(source=chance.choice(("cli", "cron")))
            ours.append(session.id)
            for part in range(chance.randrange(4)):
                talk(sessions, session.id, f"{name}-{number}-{part}")
            if chance.random() < 0.2:
                sessions.rename(session.id, f"title {number}")
            sessions.end(session.id)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except HoldfastError as error:
        sys.exit(f"{type(error).__name__}: {error.message}")

"""One process of an agent in a guarded session: calls until it is refused, or killed.

`python -m tests.crash.guarded_worker HOME SESSION THREADS EACH LIMITS` prints one line for each
thing it did: `began`, `used N`, `refused BUDGET`. LIMITS is JSON; each call uses EACH tokens,
which every other one says with its reply.
`hold` as EACH begins a call with an estimate and never ends it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import sys
import threading
import time

from holdfast import BudgetExceededError, Budgets, Message, Tokens
from holdfast.api.sessions import open_sessions
from holdfast.errors import SessionEndedError
from holdfast.guard.guard import Guard
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.session_limits import SessionLimits

_print = threading.Lock()
#: A session that is full would end before its budget.
_ENDLESS = SessionOptions(limits=SessionLimits(max_messages=0, max_bytes=0))


def say(text: str) -> None:
    with _print:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def run(guard: Guard, each: int, barrier: threading.Barrier) -> None:
    barrier.wait()
    for number in itertools.count():
        try:
            with guard.call() as call:
                say("began")
                if number % 2:
                    call.used(Tokens(input=each))
                else:
                    with contextlib.suppress(SessionEndedError):  # it is booked all the same
                        call.append(Message("assistant", "zebra", tokens=Tokens(input=each)))
                say(f"used {each}")
        except BudgetExceededError as error:
            say(f"refused {error.budget}")
            return


def hold(guard: Guard) -> None:
    with guard.call(tokens=Tokens(input=60)):
        say("began")
        time.sleep(600)


def main(home: str, session: str, threads: str, each: str, limits: str) -> None:
    logging.getLogger("holdfast").addHandler(logging.NullHandler())
    with open_sessions(home, options=_ENDLESS) as sessions:
        guard = sessions.guard(session, budgets=Budgets(**json.loads(limits)))
        if each == "hold":
            hold(guard)
        barrier = threading.Barrier(int(threads))
        running = [
            threading.Thread(target=run, args=(guard, int(each), barrier))
            for _ in range(int(threads))
        ]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])

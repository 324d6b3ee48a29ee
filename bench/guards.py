"""What a guard costs: turns of an agent's loop with one and without one, on the same store.

A turn stores one message, flushed to the disk as always. Guarded, a transaction before it decides
whether the call may begin, and its end is a part of storing the message. Rounds take turns, so that
a busy machine slows all of them alike; medians of rounds are compared.

    .venv/bin/python bench/guards.py --quick
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from plotting import Plot, common_options, save
from wanted import ROWS

import holdfast
from holdfast import Budgets, Message, Tokens
from holdfast.api.sessions import open_sessions
from holdfast.policy.budgets import GuardOptions
from holdfast.policy.lifecycle import SessionOptions
from holdfast.policy.prices import Price, Prices
from holdfast.policy.session_limits import SessionLimits

THREADS = (1, 2, 4, 8)
USED = Tokens(input=900, output=80)
#: Limits that nobody reaches: what is measured is the look at them.
FOUR = Budgets(tokens=10**12, iterations=10**9, wall_seconds=1e9, messages_per_minute=10**9)
OF_A_DAY = GuardOptions(everywhere=Budgets(daily_tokens=10**12, daily_cost=1e9))
PRICES = Prices(by_model={"m": Price(input=3, output=15)})
#: The limits on messages are no part of this.
ENDLESS = SessionOptions(limits=SessionLimits(max_messages=0, max_bytes=0))
_TEXT = """\
## Guards

A turn of an agent's loop stores one message, durable as always. A guard decides in a transaction
before it whether the call may begin, and `call.append` ends the call in the transaction that stores
the message. Turns with and without a guard, medians of {rounds} rounds of {turns}.

| one turn | time | to one without | wanted |
|---|---:|---:|---:|
{rows}

A guard decides nothing from memory, which a second process could not see: it reads the session and
writes down the call. Both turns are flushed to the disk once. A call of a model takes seconds.
"""
_BARE = "without a guard"
_GUARDED = "guarded, four budgets"
_DAILY = "guarded, budgets of the day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    rounds: int
    turns: int


_USUAL, _QUICK = Size(rounds=9, turns=60), Size(rounds=3, turns=8)
Turn = Callable[[], None]


def turns(stack: ExitStack, folder: Path) -> dict[str, Turn]:
    """One turn of each kind, all in one session of one store but for the budgets of the day."""
    plain = stack.enter_context(open_sessions(folder / "plain", options=ENDLESS))
    daily = stack.enter_context(
        open_sessions(folder / "daily", options=ENDLESS, guards=OF_A_DAY, prices=PRICES)
    )
    return {
        _BARE: _bare(plain),
        _GUARDED: _guarded(plain, FOUR),
        _DAILY: _guarded(daily, None),
    }


def _bare(sessions: holdfast.AgentSessions) -> Turn:
    session = sessions.create(source="cli", model="m").id
    message = Message(role="assistant", content="x" * 200, tokens=USED)

    def turn() -> None:
        sessions.append(session, message)

    return turn


def _guarded(sessions: holdfast.AgentSessions, budgets: Budgets | None) -> Turn:
    session = sessions.create(source="cli", model="m").id
    guard = sessions.guard(session, budgets=budgets)
    message = Message(role="assistant", content="x" * 200, tokens=USED)

    def turn() -> None:
        with guard.call() as call:
            call.append(message)

    return turn


def seconds(turn: Turn, count: int, threads: int) -> float:
    """How long a turn takes when so many threads take them, in all."""

    def some() -> None:
        for _ in range(count // threads):
            turn()

    running = [threading.Thread(target=some) for _ in range(threads)]
    began = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return (time.perf_counter() - began) / (count // threads * threads)


def measured(kinds: dict[str, Turn], size: Size) -> dict[tuple[str, int], float]:
    """The median of each kind with each number of threads. The first round only warms up."""
    rounds: dict[tuple[str, int], list[float]] = {}
    for number in range(-1, size.rounds):
        for threads in THREADS:
            for name, turn in kinds.items():
                took = seconds(turn, size.turns, threads)
                if number >= 0:
                    rounds.setdefault((name, threads), []).append(took)
    return {key: statistics.median(times) for key, times in rounds.items()}


def tool_seconds(folder: Path, count: int = 2_000) -> float:
    with open_sessions(folder / "tools") as sessions:
        guard = sessions.guard(sessions.create(source="cli").id)
        began = time.perf_counter()
        for number in range(count):
            guard.tool_result("shell", {"command": f"ls {number}"}, failed=False)
        return (time.perf_counter() - began) / count


def rows(found: dict[tuple[str, int], float], tool: float) -> str:
    lines = []
    for threads in (THREADS[0], THREADS[-1]):
        base = found[_BARE, threads]
        where = "" if threads == 1 else f", {threads} threads"
        for name in (_BARE, _GUARDED, _DAILY):
            took = found[name, threads]
            limit = ROWS["guarded turn"] if name != _BARE and threads == 1 else ""
            lines.append(f"| {name}{where} | {took * 1e3:.2f} ms | {took / base:.2f} x | {limit} |")
    share = tool / found[_BARE, 1]
    lines.append(
        f"| telling a guard the result of a tool | {tool * 1e3:.3f} ms | {share:.3f} x |  |"
    )
    return "\n".join(lines)


def plot(found: dict[tuple[str, int], float]) -> Plot:
    made = Plot(
        name="guards", title="Turns a second against threads", x="threads", y="turns a second"
    )
    for (name, threads), took in found.items():
        made.add(name, threads, 1 / took)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    common_options(parser)
    arguments = parser.parse_args()
    size = _QUICK if arguments.quick else _USUAL
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder, ExitStack() as stack:
        found = measured(turns(stack, Path(folder)), size)
        tool = tool_seconds(Path(folder))
    print(_TEXT.format(rounds=size.rounds, turns=size.turns, rows=rows(found, tool)))
    save(arguments.json, [plot(found)], {"guarded turn": found[_GUARDED, 1] / found[_BARE, 1]})


if __name__ == "__main__":
    main()

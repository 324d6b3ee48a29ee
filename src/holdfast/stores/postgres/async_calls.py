"""Calls of a store that wait on an event loop instead of in a thread.

There is one implementation of the store. A call runs in a greenlet; where it would block on the
server, it passes an awaitable to the loop and continues with the result. Meanwhile the loop runs
other tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
from greenlet import getcurrent, greenlet

from holdfast.stores.postgres.database import Result, Values

T = TypeVar("T")


class _Call(greenlet):  # type: ignore[misc] # it has no types
    """A call that can wait."""


def is_on_loop() -> bool:
    """True if this code runs in such a call."""
    return isinstance(getcurrent(), _Call)


def wait_for(something: Awaitable[T]) -> T:
    """Await something and return its result; only inside such a call."""
    parent = getcurrent().parent
    if parent is None:
        raise AssertionError("nothing to wait on")
    found: T = parent.switch(something)
    return found


async def run(call: Callable[[], T]) -> T:
    """Run a call and await here what it waits for."""
    running = _Call(call)
    handed: Any = running.switch()
    while not running.dead:
        try:
            value = await handed
        except BaseException as error:  # noqa: BLE001 - the call decides what becomes of it
            handed = running.throw(error)
        else:
            handed = running.switch(value)
    result: T = handed
    return result


class LoopRunner:
    """Runs the calls of one store one after the other, because they share a connection."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, call: Callable[[], T]) -> T:
        # Cancelling a task does not interrupt a call: it runs to completion, as in a thread.
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(call)))

    async def _in_turn(self, call: Callable[[], T]) -> T:
        async with self._turn:
            return await run(call)


class LoopWire:
    """A connection whose responses are awaited."""

    def __init__(self, conninfo: str) -> None:
        self._connection: psycopg.AsyncConnection[Any] = wait_for(
            psycopg.AsyncConnection.connect(conninfo, autocommit=True)
        )

    def execute(self, statement: str, values: Values | None = None) -> Result:
        return wait_for(self._execute(statement, values))

    async def _execute(self, statement: str, values: Values | None) -> Result:
        cursor = await self._connection.execute(
            statement, values, prepare=None if values is not None else False
        )
        while cursor.nextset():
            pass
        rows = cursor.pgresult is not None and cursor.pgresult.nfields > 0
        return Result(await cursor.fetchall() if rows else (), cursor.rowcount)

    @property
    def is_open(self) -> bool:
        return not self._connection.closed

    def close(self) -> None:
        if is_on_loop():
            wait_for(self._connection.close())
        else:  # the loop may be gone
            self._connection.pgconn.finish()


# The functions that `database.Loop` requires.


def connect(conninfo: str) -> LoopWire:
    return LoopWire(conninfo)


def pause(seconds: float) -> None:
    wait_for(asyncio.sleep(seconds))

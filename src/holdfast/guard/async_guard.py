"""The guard for asyncio: calls that need the store run in a thread.

A task that is cancelled while it waits for permission to call leaves no reservation behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from holdfast.guard.call import Call
from holdfast.guard.guard import Guard
from holdfast.model.append import Appended, MessageLike
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import instance
from holdfast.model.guard import Advice
from holdfast.model.session import Tokens
from holdfast.policy.budget_check import Measure


class AsyncCall:
    """A call of an `AsyncGuard`: `async with guard.call() as call:`."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def __aenter__(self) -> Self:
        entering = asyncio.ensure_future(asyncio.to_thread(self._call.__enter__))
        try:
            await asyncio.shield(entering)
        except asyncio.CancelledError:
            await asyncio.wait((entering,))
            if entering.exception() is None:
                await asyncio.to_thread(self._call.__exit__, None, None, None)
            raise
        return self

    async def used(
        self, tokens: Tokens | None = None, *, cost: float | None = None, model: str | None = None
    ) -> None:
        """Like `Call.used`. It completes even if the task is cancelled meanwhile."""
        await asyncio.to_thread(self._call.used, tokens, cost=cost, model=model)

    async def append(self, *messages: MessageLike | Iterable[MessageLike]) -> Appended:
        """Like `Call.append`. It completes even if the task is cancelled meanwhile."""
        return await asyncio.to_thread(self._call.append, *messages)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self._call.__exit__, kind, error, trace))


@checked
class AsyncGuard:
    """A guard for an event loop: `AsyncGuard(sessions.guard(session_id))`."""

    def __init__(self, guard: Guard) -> None:
        self.guard = instance(guard, Guard, "The guard of an AsyncGuard")

    def call(self, *, tokens: Tokens | None = None, cost: float = 0.0) -> AsyncCall:
        """Like `Guard.call`, to be used with `async with`."""
        return AsyncCall(self.guard.call(tokens=tokens, cost=cost))

    def tool_result(self, tool: str, arguments: object = None, *, failed: bool) -> Advice:
        """Like `Guard.tool_result`. Not awaited: it only counts."""
        return self.guard.tool_result(tool, arguments, failed=failed)

    async def measures(self) -> Sequence[Measure]:
        return await asyncio.to_thread(self.guard.measures)

"""The same sessions for asyncio. A store that can wait on the event loop does so; otherwise calls
run in one thread, off the loop.

There is only one implementation: each method here is the method of `Sessions`, made awaitable by
`_awaitable`, which keeps its signature and types.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from holdfast.model.arguments import instance
from holdfast.model.session import Message, SessionRef
from holdfast.services.session_reader import no_such_method
from holdfast.services.sessions import Sessions

P = ParamSpec("P")
R = TypeVar("R")
_PAGE = 200


def _awaitable(
    method: Callable[Concatenate[Sessions, P], R],
) -> Callable[Concatenate[AsyncSessions, P], Awaitable[R]]:
    @functools.wraps(method)
    async def call(self: AsyncSessions, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._run(functools.partial(method, self.sessions, *args, **kwargs))

    return call


class AsyncSessions:
    """Sessions for an event loop. Calls run in the order in which they were made."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = instance(sessions, Sessions, "The sessions of AsyncSessions")
        self._runner = self.sessions.loop_runner()
        self._worker: ThreadPoolExecutor | None = None
        if self._runner is None:
            # One thread keeps a task's calls in order, and needs only one connection.
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="holdfast-sessions")

    if not TYPE_CHECKING:  # as in `SessionReader`

        def __getattr__(self, name: str) -> object:
            raise no_such_method(self, name)

    async def _run(self, call: Callable[[], R]) -> R:
        if self._runner is not None:
            return await self._runner.run(call)
        return await asyncio.get_running_loop().run_in_executor(self._worker, call)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._run(self.sessions.close)
        if self._worker is not None:
            self._worker.shutdown(wait=False)

    create = _awaitable(Sessions.create)
    append = _awaitable(Sessions.append)
    replace_messages = _awaitable(Sessions.replace_messages)
    take_back = _awaitable(Sessions.take_back)
    compact = _awaitable(Sessions.compact)
    update = _awaitable(Sessions.update)
    end = _awaitable(Sessions.end)
    reopen = _awaitable(Sessions.reopen)
    rename = _awaitable(Sessions.rename)
    pin = _awaitable(Sessions.pin)
    get = _awaitable(Sessions.get)
    resolve = _awaitable(Sessions.resolve)
    find = _awaitable(Sessions.find)
    count = _awaitable(Sessions.count)
    sources = _awaitable(Sessions.sources)
    ancestors = _awaitable(Sessions.ancestors)
    children = _awaitable(Sessions.children)
    descendants = _awaitable(Sessions.descendants)
    tip = _awaitable(Sessions.tip)
    search = _awaitable(Sessions.search)
    current = _awaitable(Sessions.current)
    reset = _awaitable(Sessions.reset)
    dump_request = _awaitable(Sessions.dump_request)
    delivered = _awaitable(Sessions.delivered)
    end_abandoned = _awaitable(Sessions.end_abandoned)

    async def messages(
        self,
        session: SessionRef,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        last: int | None = None,
        with_replaced: bool = False,
    ) -> AsyncIterator[Message]:
        """Like `Sessions.messages`, fetched a page at a time; with `last`, all at once."""
        remaining = limit
        while remaining is None or remaining > 0:
            page = _PAGE if remaining is None else min(_PAGE, remaining)
            found = await self._list(
                session,
                after=after,
                before=before,
                limit=page if last is None else limit,
                last=last,
                with_replaced=with_replaced,
            )
            for message in found:
                yield message
            if len(found) < page or last is not None:
                return
            after = found[-1].number or after
            remaining = None if remaining is None else remaining - len(found)

    @_awaitable
    def _list(sessions: Sessions, *args: Any, **wanted: Any) -> list[Message]:  # noqa: N805 - it is wrapped
        return list(sessions.messages(*args, **wanted))

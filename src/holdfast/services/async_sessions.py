"""The same sessions for asyncio: every call runs in a thread of its own, off the loop.

There is one implementation. Each method here is the one of `Sessions`, with its signature, made
awaitable by `_off_loop`; types follow by themselves.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from holdfast.model.given import instance
from holdfast.model.session import Message
from holdfast.services.sessions import Sessions

P = ParamSpec("P")
R = TypeVar("R")
_PAGE = 200


def _off_loop(
    method: Callable[Concatenate[Sessions, P], R],
) -> Callable[Concatenate[AsyncSessions, P], Awaitable[R]]:
    @functools.wraps(method)
    async def call(self: AsyncSessions, /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound = functools.partial(method, self.sessions, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._worker, bound)

    return call


class AsyncSessions:
    """Sessions for an event loop. Calls are carried out in the order in which they were made."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = instance(sessions, Sessions, "The sessions of AsyncSessions")
        # One thread: the order of a task's calls is kept, and there is one connection to hold.
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-sessions")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._worker, self.sessions.close)
        self._worker.shutdown(wait=False)

    create = _off_loop(Sessions.create)
    append = _off_loop(Sessions.append)
    end = _off_loop(Sessions.end)
    reopen = _off_loop(Sessions.reopen)
    rename = _off_loop(Sessions.rename)
    pin = _off_loop(Sessions.pin)
    get = _off_loop(Sessions.get)
    find = _off_loop(Sessions.find)
    search = _off_loop(Sessions.search)
    current = _off_loop(Sessions.current)
    reset = _off_loop(Sessions.reset)
    dump_request = _off_loop(Sessions.dump_request)
    delivered = _off_loop(Sessions.delivered)
    end_abandoned = _off_loop(Sessions.end_abandoned)

    async def messages(
        self, session_id: str, *, after: int = 0, limit: int | None = None
    ) -> AsyncIterator[Message]:
        """The messages of a session in order, fetched a page at a time."""
        remaining = limit
        while remaining is None or remaining > 0:
            page = _PAGE if remaining is None else min(_PAGE, remaining)
            read = functools.partial(_page, self.sessions, session_id, after, page)
            found = await asyncio.get_running_loop().run_in_executor(self._worker, read)
            for message in found:
                yield message
            if len(found) < page:
                return
            after = found[-1].number or after
            remaining = None if remaining is None else remaining - len(found)


def _page(sessions: Sessions, session_id: str, after: int, limit: int) -> list[Message]:
    return list(sessions.messages(session_id, after=after, limit=limit))

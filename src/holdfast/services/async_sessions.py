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
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from holdfast.model.arguments import instance
from holdfast.model.session import Message, SessionRef
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
    replace_messages = _off_loop(Sessions.replace_messages)
    take_back = _off_loop(Sessions.take_back)
    compact = _off_loop(Sessions.compact)
    update = _off_loop(Sessions.update)
    end = _off_loop(Sessions.end)
    reopen = _off_loop(Sessions.reopen)
    rename = _off_loop(Sessions.rename)
    pin = _off_loop(Sessions.pin)
    get = _off_loop(Sessions.get)
    resolve = _off_loop(Sessions.resolve)
    find = _off_loop(Sessions.find)
    count = _off_loop(Sessions.count)
    sources = _off_loop(Sessions.sources)
    ancestors = _off_loop(Sessions.ancestors)
    children = _off_loop(Sessions.children)
    descendants = _off_loop(Sessions.descendants)
    tip = _off_loop(Sessions.tip)
    search = _off_loop(Sessions.search)
    current = _off_loop(Sessions.current)
    reset = _off_loop(Sessions.reset)
    dump_request = _off_loop(Sessions.dump_request)
    delivered = _off_loop(Sessions.delivered)
    end_abandoned = _off_loop(Sessions.end_abandoned)

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
        """As `Sessions.messages`, fetched a page at a time; the `last` ones all at once."""
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

    @_off_loop
    def _list(sessions: Sessions, *args: Any, **wanted: Any) -> list[Message]:  # noqa: N805 - it is wrapped
        return list(sessions.messages(*args, **wanted))

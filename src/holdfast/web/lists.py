"""The lists of sessions and the search indexes, as the server holds them.

A child process scans the homes and writes the list into a file; the server reads pages from it. The
file has no name while it is in use, so nothing of it is left behind.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.api.catalogue import (
    Catalogue,
    Known,
    Listing,
    count_all,
    count_more,
    make_indexes,
    read_entries,
    write_catalogue,
)
from holdfast.errors import FullDiskError
from holdfast.model.session import SessionOrder
from holdfast.web.child_process import undisturbed
from holdfast.web.jobs import Run
from holdfast.web.query_threads import QueryThreads
from holdfast.web.refresh import Refresh

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine
    from holdfast.api.machine_sessions import MachinePage
    from holdfast.model.session import SessionFilter
    from holdfast.web.child_process import Link

_T = TypeVar("_T")
#: Sorting by these has to read every session once, which may take a while.
_COUNTED = (SessionOrder.MESSAGES, SessionOrder.TOKENS, SessionOrder.COST)
#: How long a search waits for the index to be up to date, in seconds.
_PATIENCE = 1.5
_SHORT = 0.01
_IN_MEMORY = "/dev/shm"  # noqa: S108 - only a folder of our own in it
_LOOKING = ("looking for changes", 0, None)


class Lists:
    """`named` decides whether a home is the one in an address."""

    def __init__(self, threads: QueryThreads, named: Callable[[AgentHome, str], bool]) -> None:
        self._threads = threads
        self._named = named
        self._refresh = Refresh(threads, self._look)
        self._catalogue: Catalogue | None = None
        self._all_counted: Catalogue | None = None
        self._is_closed = False
        #: Folders that still contain a file: of a running scan, or because an open file cannot be
        #: unlinked.
        self._folders: list[Path] = []

    def close(self) -> None:
        with undisturbed():
            self._is_closed = True  # a look may still be running
            if self._catalogue is not None:
                self._catalogue.close()
            self._catalogue = None
        self._tidy(self._folders)

    def prepare(self) -> None:
        """Start a scan, because a request for the list is likely."""
        self._refresh.wanted()

    async def homes(self) -> Sequence[AgentHome]:
        await self._fresh()
        return await self._ask(lambda listed: [each.home for each in listed.listing.homes])

    async def home(self, slug: str) -> AgentHome | None:
        """The home in an address. One that is not in the list may be new, so a second look is
        taken."""
        for _ in range(2):
            for each in await self.homes():
                if self._named(each, slug):
                    return each
            self._refresh.forget()
        return None

    async def page(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder,
        limit: int,
        offset: int = 0,
        home: AgentHome | None = None,
    ) -> MachinePage:
        await self._fresh()
        if order_by in _COUNTED:
            await self._count_all()

        def page(listed: Catalogue) -> tuple[Any, int, Any]:
            entries, total = listed.page(
                wanted, order_by=order_by, limit=limit, offset=offset, home=home
            )
            return entries, total, listed.waiting(entries)

        entries, total, waiting = await self._ask(page)
        if waiting:

            def read(machine: Machine) -> Sequence[Any]:
                return [
                    each
                    for home, members in waiting.items()
                    for each in read_entries(machine, home, members)
                ]

            found = await self._threads.read(read)
            known = {(each.home, each.session.id): each for each in found}
            entries = [known.get((each.home, each.session.id), each) for each in entries]
            await self._ask(lambda listed: listed.learn(found))
        return await self._ask(lambda listed: listed.shown(entries, total, home))

    async def known(self, home: AgentHome, session_id: str) -> Known | None:
        await self._fresh()
        return await self._ask(lambda listed: listed.known(home, session_id))

    async def ask(self, what: Callable[[Catalogue], _T]) -> _T:
        """Query the current list."""
        await self._fresh()
        return await self._ask(what)

    async def _ask(self, what: Callable[[Catalogue], _T]) -> _T:
        return await asyncio.to_thread(self._asked, what)

    def _asked(self, what: Callable[[Catalogue], _T]) -> _T:
        with undisturbed():
            assert self._catalogue is not None  # noqa: S101 - there was a look
            return what(self._catalogue)

    async def _fresh(self) -> None:
        waiting = self._refresh.wanted()
        if waiting is not None:
            await asyncio.wrap_future(waiting)

    async def _count_all(self) -> None:
        if self._all_counted is self._catalogue:
            return
        await self._threads.work(count_all)
        self._refresh.forget()
        await self._fresh()
        self._all_counted = self._catalogue

    def _look(self, shown: Callable[[], None]) -> None:
        folders = _folders()
        self._folders += folders
        made: Catalogue | None = None

        def look(link: Link) -> None:
            with self._threads.machine("web") as machine, machine.one_look():
                path, listing = _written(machine, [each / "list.db" for each in folders])
                link.say((path, listing))
                for some in count_more(machine, listing, link.wants_end):
                    link.say(some)

        def heard(said: Any) -> None:
            nonlocal made
            with undisturbed():
                if self._is_closed:
                    return
                if isinstance(said, tuple):
                    path, listing = said
                    made = Catalogue(path, listing)
                    self._tidy(folders)
                    old, self._catalogue = self._catalogue, made
                    if old is not None:
                        old.close()
                elif made is not None and made is self._catalogue:
                    made.learn(said)
            shown()

        try:
            self._threads.children.read(look, heard=heard)
        finally:
            self._tidy(folders)

    def _tidy(self, folders: Sequence[Path]) -> None:
        for each in [*folders]:
            shutil.rmtree(each, ignore_errors=True)
            if each in self._folders and not each.exists():
                self._folders.remove(each)


def _folders() -> Sequence[Path]:
    """Where the file may be written: the disk, or memory for a user who is here because the disk is
    full."""
    places = [None, _IN_MEMORY] if os.access(_IN_MEMORY, os.W_OK) else [None]
    return [Path(tempfile.mkdtemp(prefix="holdfast-web-", dir=each)) for each in places]


def _written(machine: Machine, paths: Sequence[Path]) -> tuple[Path, Listing]:
    for each in paths[:-1]:
        try:
            return each, write_catalogue(machine, each)
        except FullDiskError:
            each.unlink(missing_ok=True)
    return paths[-1], write_catalogue(machine, paths[-1])


class Index:
    """The search indexes. `step` is the progress of their first creation."""

    def __init__(self, threads: QueryThreads) -> None:
        self._threads = threads
        self._refresh = Refresh(threads, self._make)
        self._began = time.monotonic()
        self.step: tuple[str, int, int | None] = _LOOKING

    async def ready(self) -> bool:
        """True if the indexes are up to date; False if updating takes longer, which then continues
        in the background."""
        waiting = self._refresh.wanted()
        if waiting is None:
            return True
        # A user who continues typing does not wait a second time.
        left = max(_SHORT, _PATIENCE - (time.monotonic() - self._began))
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(waiting)), left)
        except TimeoutError:
            return False
        return True

    def is_made(self) -> bool:
        """True if no update is in progress that a search would wait for."""
        return not self._refresh.is_busy()

    def _make(self, shown: Callable[[], None]) -> None:
        self._began = time.monotonic()
        self.step = _LOOKING

        def make(link: Link) -> None:
            with self._threads.machine("web") as machine:
                make_indexes(machine, Run(link))

        self._threads.children.read(make, heard=self._heard)
        shown()

    def _heard(self, step: tuple[str, int, int | None]) -> None:
        self.step = step

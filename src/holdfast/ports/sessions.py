"""A store of sessions, in a file or on a server, and its book for guards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from holdfast.model.plan import Action

if TYPE_CHECKING:  # only for annotations: a command loads only the values that it uses
    from holdfast.model.guard import Estimate, Standing, Work
    from holdfast.model.item import Problem
    from holdfast.model.plan import PlanItem
    from holdfast.model.session import (
        Addition,
        Hit,
        Message,
        Search,
        Session,
        SessionChange,
        SessionFilter,
        SessionOrder,
    )
    from holdfast.model.stored_session import Copied, End, Found, Holder, Returned
    from holdfast.model.usage import Share, StoreStats, Usage, UsageEntry
    from holdfast.policy.prices import Prices


class SessionStore(Protocol):
    """Sessions and messages. Every call is durable on return, unless it is part of a
    `transaction`."""

    def transaction(self) -> AbstractContextManager[object]: ...

    def create(self, new: Session) -> Session: ...

    def append(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        now: float,
        then: Callable[[Addition], None] | None = None,
    ) -> Addition:
        """Add messages to an open session. `then` is called in the same transaction."""

    def replace(
        self, session_id: str, messages: Sequence[Message], *, after: int, mark: str, now: float
    ) -> Addition:
        """Replace all messages after number `after`. Replaced messages stay in the store with their
        usage, and get the extra field `mark`. A given message that is already stored, unchanged and
        under its number, is not stored again."""

    def update(self, session_id: str, change: SessionChange) -> Session:
        """Change fields of a session. Its usage so far stays in the ledger under the model it was
        for."""

    def end(self, session_id: str, reason: str, *, at: float) -> Session: ...

    def reopen(self, session_id: str, *, at: float) -> Session: ...

    def rename(self, session_id: str, title: str | None) -> Session: ...

    def as_title(self, title: str | None) -> str | None:
        """Return the title as `rename` would store it; raises `UsageError` for one that it
        refuses."""

    def pin(self, session_id: str, pinned: bool) -> Session: ...

    def pins_of(self, session_id: str) -> tuple[bool, str]:
        """Whether the session is pinned here, and the name of the agent in which its user pinned
        it, which we never change; "" if in none."""

    @property
    def edits(self) -> frozenset[Action]:
        """Which of renaming, pinning and ending this store supports."""

    def route(self, key: str, session_id: str) -> None: ...

    def routed(self, key: str) -> Session | None: ...

    def get(self, session_id: str) -> Session: ...

    def resolve(self, prefix: str) -> str: ...

    def find(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = ...,
        limit: int | None = None,
        offset: int = 0,
        prices: Prices | None = None,
    ) -> Sequence[Session]:
        """When sorting by cost, `prices` determine the cost of tokens without a reported cost."""

    def count(self, wanted: SessionFilter) -> int: ...

    def sources(self) -> Sequence[str]: ...

    def folders(self) -> Mapping[str, str]:
        """The working directory of each session that has one, by id."""

    @property
    def deletes_every_delegate(self) -> bool:
        """True if deleting a session deletes all its delegates, and not only small ones."""

    def delegates_of(self, ids: Sequence[str]) -> Sequence[str]:
        """The delegates of these sessions, their delegates, and so on."""

    def messages(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Message]:
        """All stored messages between two numbers, including replaced ones."""

    def openings(self, ids: Sequence[str]) -> Mapping[str, str]:
        """How each of these sessions began, in one line; empty for a session without text."""

    def search(self, asked: Search) -> Sequence[Hit]: ...

    def close_words(self, text: str) -> Sequence[str]:
        """Words in the store that are similar to those of a query without results."""

    def unlisted(self) -> Sequence[Problem]:
        """What could not be read when the sessions were scanned, in words."""

    def unsearched(self) -> Sequence[Problem]:
        """What the latest search could not cover, and why a search takes long here, in words."""

    def hold(self, session_id: str, holder: Holder, *, now: float) -> bool:
        """Take or renew a lease; False if there is no such session, or it has ended."""

    def release(self, session_id: str, holder: Holder) -> None: ...

    def weigh(self, wanted: SessionFilter) -> Share:
        """How many sessions match, and their size on the disk. Reads none of them."""

    def statistics(self, *, now: float, ages: Sequence[tuple[str, float]]) -> StoreStats: ...

    @property
    def keeps_usage(self) -> bool:
        """True if the usage of removed sessions stays in `usage_entries`."""

    def usage_entries(self, *, on: float | None = None) -> Sequence[UsageEntry]:
        """The lines of the ledger; with `on`, only those of the UTC day of this time."""

    def count_messages(self) -> None:
        """Make sure that statistics and usage include every message."""

    def refresh(self) -> None:
        """Pick up changes since the last look, in a store that does not notice them by itself."""

    def close(self) -> None: ...


T = TypeVar("T")


class LoopRunner(Protocol):
    """Runs calls of a store on an event loop, one after the other. While a call waits for the
    store, the loop continues."""

    async def run(self, call: Callable[[], T]) -> T: ...


@runtime_checkable
class RunsOnLoop(Protocol):
    """A session store whose calls do not need a thread of their own to wait in."""

    def loop_runner(self) -> LoopRunner: ...


class SessionCopies(Protocol):
    """Undo copies of the sessions of one operation, several to a file. In a store that keeps them
    itself, a path is only a name."""

    def holding(self, numbers: Sequence[int]) -> Mapping[Path, list[int]]:
        """The files that contain these removals, by the ranges in their names, each with its
        removals."""

    def contents(self, path: Path) -> Sequence[Copied]:
        """The sessions in a file. Raises `DamageError` if it cannot be read."""

    def check(self, path: Path) -> None:
        """Raises `DamageError` unless the file is byte for byte what was written."""

    def without(self, path: Path, ids: Collection[str]) -> Path | None:
        """Remove sessions from a file. Returns the new file, or None if nothing is left."""

    def drop(self, path: Path) -> None:
        """Remove a file with everything in it."""

    def size(self, path: Path) -> int: ...

    def bytes(self) -> int:
        """The size of all copies on the disk."""

    def clear_unfinished(self) -> None: ...

    def drop_if_empty(self) -> None: ...


class SessionEngine(Protocol):
    """How sessions leave a store and come back. The calls inside `transaction` take effect together
    or not at all. Errors of a store are raised as `HoldfastError`.

    `most_copied` is how many messages one undo copy may have in a store where everything leaves at
    once, because a copy is restored in one transaction. `copiers` is how many copies can be made at
    the same time, each in its own thread.
    """

    most_copied: int
    copiers: int

    @property
    def place(self) -> Path | None:
        """A file or folder on the disk that the store fills; None if it is not on this machine."""

    def transaction(self, *, empties: bool = False) -> AbstractContextManager[None]:
        """With `empties`, everything that `prepare` was given leaves in this transaction."""

    def reading(self) -> AbstractContextManager[None]:
        """A context in which several calls see the same state of the store."""

    def prepare(self, items: Sequence[PlanItem]) -> int:
        """Prepare for a run that removes these items. Returns the message limit of a transaction,
        or `EVERYTHING`."""

    def state(self) -> object:
        """While this value stays equal, nothing was written, and a session that `look` found is
        unchanged. None if a store cannot tell."""

    def look(self, ids: Sequence[str]) -> Mapping[str, Found]:
        """The existing sessions among these, with their signs of life."""

    def copies(self, folder: Path) -> SessionCopies:
        """The undo copies in a folder, in the format of this store."""

    def copy(self, folder: Path, going: Sequence[Found], first: int, last: int) -> Path:
        """Write an undo copy, for the removals from `first` to `last`; durable on return."""

    def delete(self, going: Sequence[Found], *, for_good: bool = False) -> None:
        """Delete sessions, inside a transaction. Sessions that go `for_good` have no copy: none of
        their text may stay behind."""

    def left_for_good(self) -> None:
        """Note that messages which were removed earlier no longer have a copy: `give_back` must not
        leave any of their text behind."""

    def made_ready(self, bundles: Mapping[Path, Sequence[str]]) -> Generator[Path]:
        """Yield these bundles one after the other, each when the wanted sessions in it can be put
        back. A store may prepare the next ones in advance."""

    def put_back(self, bundle: Path, ids: Collection[str]) -> Returned:
        """Put sessions back from their copies."""

    def is_copied(self, found: Found, copied: Copied) -> bool:
        """True if a session is the one that was copied, and not a newer one with its id."""

    def ends(self, ids: Sequence[str]) -> Mapping[str, End]:
        """The existing sessions among these, with their ends."""

    def set_end(self, chosen: Sequence[End], at: float | None, reason: str | None) -> None:
        """Give sessions an end, or remove their end. Nothing else changes."""

    def rest(self) -> None:
        """Called between two transactions, so that other writers get a turn."""

    def begin_to_give_back(self) -> None:
        """Everything that leaves has left: a store may start giving space back in the background.
        `give_back` waits for it."""

    def give_back(self) -> None:
        """Give unused space back to the file system."""

    def footprint(self) -> int:
        """The size of the store on the disk, as the file system reports it."""

    def truncate_log(self) -> None:
        """Truncate the write-ahead log now, if that is possible."""


#: None when the home has no store.
SessionEngines = Callable[[], SessionEngine | None]


class GuardBook(Protocol):
    """What guards read and write. A decision and the changes it makes are one `transaction`."""

    def transaction(self, *, flushed: bool = True) -> AbstractContextManager[object]:
        """Changes that are not `flushed` at its end survive the end of any process and, after some
        milliseconds, also a loss of power."""

    def before_append(self, *, today: float | None) -> AbstractContextManager[object]:
        """A transaction for appending messages, followed by a decision in `then`: it takes the
        locks of that decision first, so that no two calls wait for each other."""

    def standing(
        self, session_id: str, *, today: float | None, session: Session | None = None
    ) -> Standing:
        """The state of a session, which is not read again if it is given. With `today`, also the
        usage of that day, by source and model. Raises `UnknownSessionError`."""

    def keep(self, session_id: str, work: Work, *, was: Work) -> None:
        """Store the work of a session, replacing `was`."""

    def reserve(self, session_id: str, holder: Holder, estimate: Estimate, *, now: float) -> int:
        """Record a call in flight. Returns the number of the reservation."""

    def give_up(self, reservations: Sequence[int]) -> None:
        """Drop the reservations of calls that are over, or whose process has ended."""

    def book(self, session: Session, work: Work, usage: Usage, *, model: str, now: float) -> Work:
        """Book usage that is part of no message, in the ledger and in the totals of the session,
        even if it has ended. Returns the work to `keep` in the same transaction."""

    def end(self, session_id: str, reason: str, *, at: float) -> Session: ...

    def warned_on(self, today: float) -> Sequence[str]:
        """The warnings about daily budgets that were sent on that day."""

    def warn_on(self, today: float, told: Sequence[str]) -> None: ...

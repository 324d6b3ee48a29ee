"""Where archived sessions lie, and the vault that keeps transcripts as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # named here only: a command pays for the values that it uses
    from holdfast.model.archive import ArchivedSession, ArchiveHits, ArchiveWeight, Blob
    from holdfast.model.item import Item, Problem
    from holdfast.model.operation import Removal
    from holdfast.model.session import Message, Search, SessionFilter, SessionOrder
    from holdfast.model.vault import Sweep, VaultFigures, VaultRefresh
    from holdfast.policy.prices import Prices
    from holdfast.ports.runs import Progress


class Puts(Protocol):
    """Several new blobs of a store."""

    def put_new(
        self,
        name: str,
        write: Callable[[IO[bytes]], object],
        checks: Sequence[Callable[[IO[bytes]], object]] = (),
    ) -> None:
        """As that of the store, but it may be durable, and have its name, only after `finish`."""

    def finish(self) -> Mapping[str, OSError]:
        """Make all of them durable under their names. Returns why some have none, by name; raises
        when it cannot tell which."""


class Blobs(Protocol):
    """A store of immutable data under names, such as a folder or a bucket of an object store.

    A blob is written once, whole, and never changes. Every call is durable on return. `/` in a name
    separates folders, which exist as long as something is in them. A name that points outside the
    store is refused with `DamageError`. A name without a blob raises `FileNotFoundError`, a name
    that is taken by other content `FileExistsError`; what else fails is an `OSError` or a
    `StorageError`.

    Nothing here renames, appends to or replaces a blob: an object store cannot.
    """

    @property
    def place(self) -> str:
        """Where people find it: the path of a folder, the address of a bucket."""

    def check(self) -> bool:
        """Whether it exists. Raises `StorageError` when it should exist and does not, when it
        belongs to another home, or when it cannot be used."""

    def check_usable(self) -> bool:
        """`check`, and raise as well when nothing could be written to it."""

    def make(self) -> None:
        """Create it unless it exists, and claim it for this home."""

    def put_new(
        self,
        name: str,
        write: Callable[[IO[bytes]], object],
        checks: Sequence[Callable[[IO[bytes]], object]] = (),
    ) -> None:
        """Store what `write` writes under a new name, whole or not at all.

        Each of `checks` then reads it from its start. If one raises, there is no blob. A store that
        can read only what has a name proves, under its name, that it holds what they have read.
        """

    def together(self, number: int) -> AbstractContextManager[Puts]:
        """For about so many new blobs that are to be durable together. What has no name at the end
        of this is gone."""

    def copy(self, name: str, new_name: str) -> None:
        """Give the content of a blob to a new one as well."""

    def get(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """The content as a stream that can be read once, from its start."""

    def find(self, name: str) -> Blob | None:
        """None when the name is free."""

    def names(self, folder: str = "") -> Iterator[Blob]:
        """The blobs directly in a folder, in any order. None when there is no such folder."""

    def delete(self, names: Iterable[str]) -> None:
        """Names without a blob are fine."""

    def clear_unfinished(self) -> None:
        """Remove what killed processes left of blobs that never got their names. Only while no
        other process writes."""


class Archive(Protocol):
    """Sessions that left the store, to be seen, read and searched. Creates nothing."""

    def check(self) -> None:
        """Raise `StorageError` if the archive is not available."""

    def find(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = ...,
        limit: int | None = None,
        offset: int = 0,
        prices: Prices | None = None,
        everywhere: bool = True,
    ) -> Sequence[ArchivedSession]:
        """`everywhere` finds what other homes archived too that share it."""

    def count(self, wanted: SessionFilter) -> int: ...

    def problems(self) -> Sequence[Problem]: ...

    def damage(self, trash: Sequence[Removal], progress: Progress) -> Sequence[Problem]:
        """Bundles whose bytes are not those that were written, and what is missing of those that
        were removed into the `trash`. Reads every byte."""

    def leftovers(self) -> Sequence[Path]:
        """Files of earlier versions next to the bundles. The doer of bundles adopts them in
        `prepare`."""

    def remark(self) -> str:
        """What people should know about its store although nothing is wrong; mostly nothing."""

    def left_behind(self) -> Problem | None:
        """Bundles in the usual folder, when the configuration names another one."""

    def resolve(self, prefix: str) -> str: ...

    def get(self, session_id: str) -> ArchivedSession: ...

    def messages(self, session_id: str) -> Iterator[Message]: ...

    def search(self, asked: Search) -> ArchiveHits: ...

    def items(self, *, everywhere: bool = False) -> Sequence[Item]:
        """What this home archived as items of a plan; their age is their time in the archive. With
        `everywhere`, also what other homes archived that share it."""

    def made_by(self, operation: str) -> Sequence[ArchivedSession]:
        """What an operation of this home archived."""

    def weight(self) -> ArchiveWeight:
        """What all of it takes on the disk: bundles, the catalogue, and what is no bundle."""


class Vault(Protocol):
    """Second names of sessions, so that what an agent deletes by itself is not lost."""

    def refresh(self, progress: Progress | None = None) -> VaultRefresh:
        """Take in what is new, and notice what the agent deleted. Only while this process alone may
        change the home. Removes no session."""

    def items(self) -> Sequence[Item]:
        """Sessions that only the vault has, as items of a plan. Their age is the time since their
        agent deleted them."""

    def figures(self) -> VaultFigures: ...

    def sweep(self) -> Sweep | None:
        """What the agent deletes by itself; None when it deletes no session."""

    def unused_since(self, before: float) -> int:
        """Sessions of the agent that were last used before a time, as its sweep sees it."""

    def problems(self) -> Sequence[Problem]:
        """What in it cannot be read."""

    def damage(self, progress: Progress) -> Sequence[Problem]:
        """What is not what the agent left. Reads every byte that only the vault has."""

"""The storage of archived sessions, and the vault that keeps original transcripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # only for annotations: a command loads only the values that it uses
    from holdfast.model.archive import ArchivedSession, ArchiveHits, ArchiveWeight, Blob
    from holdfast.model.item import Item, Problem
    from holdfast.model.operation import Removal
    from holdfast.model.session import Message, Search, SessionFilter, SessionOrder
    from holdfast.model.vault import Sweep, VaultFigures, VaultRefresh
    from holdfast.policy.prices import Prices
    from holdfast.ports.runs import Progress


class Puts(Protocol):
    """Adds several new blobs to a store."""

    def put_new(
        self,
        name: str,
        write: Callable[[IO[bytes]], object],
        checks: Sequence[Callable[[IO[bytes]], object]] = (),
    ) -> None:
        """Like `put_new` of the store, but the blob may be durable, and have its name, only after
        `finish`."""

    def finish(self) -> Mapping[str, OSError]:
        """Make all of them durable under their names. Returns the errors of those that have none,
        by name; raises if it cannot tell which."""


class Blobs(Protocol):
    """A store of immutable data under names, such as a folder or a bucket of an object store.

    A blob is written once, as a whole, and never changes. Every call is durable on return. `/` in a
    name separates folders, which exist as long as something is in them. A name that points outside
    the store is refused with `DamageError`. A name without a blob raises `FileNotFoundError`, a
    name that is taken by other content `FileExistsError`; any other failure is an `OSError` or a
    `StorageError`.

    Nothing here renames, appends to or replaces a blob: an object store cannot.
    """

    @property
    def place(self) -> str:
        """Its location for people: the path of a folder, or the address of a bucket."""

    def check(self) -> bool:
        """Return whether it exists. Raises `StorageError` if it should exist and does not, if it
        belongs to another home, or if it cannot be used."""

    def check_usable(self) -> bool:
        """Like `check`, and also raises if nothing could be written to it."""

    def make(self) -> None:
        """Create it unless it exists, and claim it for this home."""

    def put_new(
        self,
        name: str,
        write: Callable[[IO[bytes]], object],
        checks: Sequence[Callable[[IO[bytes]], object]] = (),
    ) -> None:
        """Store what `write` writes under a new name, completely or not at all.

        Each of `checks` then reads it from its start. If one raises, there is no blob. A store that
        can read only named blobs verifies, under the name, that it holds what the checks have read.
        """

    def together(self, number: int) -> AbstractContextManager[Puts]:
        """A context for about `number` new blobs that are to become durable together. Blobs without
        a name at its end are gone."""

    def copy(self, name: str, new_name: str) -> None:
        """Store the content of a blob under a second name as well."""

    def get(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """The content as a stream that can be read once, from its start."""

    def find(self, name: str) -> Blob | None:
        """Return the blob, or None if the name is free."""

    def names(self, folder: str = "") -> Iterator[Blob]:
        """The blobs directly in a folder, in any order; none if there is no such folder."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete these blobs. Names without a blob are ignored."""

    def clear_unfinished(self) -> None:
        """Remove what killed processes left of blobs that never got their names. Call it only while
        no other process writes."""


class Archive(Protocol):
    """Sessions that left the store, to be listed, read and searched. Creates nothing."""

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
        """With `everywhere`, also find what other homes archived that share the archive."""

    def count(self, wanted: SessionFilter) -> int: ...

    def problems(self) -> Sequence[Problem]: ...

    def damage(self, trash: Sequence[Removal], progress: Progress) -> Sequence[Problem]:
        """Bundles whose bytes are not what was written, and missing ones among those removed to the
        `trash`. Reads every byte."""

    def leftovers(self) -> Sequence[Path]:
        """Files of earlier versions next to the bundles. The doer of bundles adopts them in
        `prepare`."""

    def remark(self) -> str:
        """A remark about its store although nothing is wrong; usually empty."""

    def left_behind(self) -> Problem | None:
        """Bundles in the usual folder, if the configuration names another one."""

    def resolve(self, prefix: str) -> str: ...

    def get(self, session_id: str) -> ArchivedSession: ...

    def messages(self, session_id: str) -> Iterator[Message]: ...

    def search(self, asked: Search) -> ArchiveHits: ...

    def items(self, *, everywhere: bool = False) -> Sequence[Item]:
        """What this home archived, as items of a plan; their age is their time in the archive. With
        `everywhere`, also what other homes archived that share it."""

    def made_by(self, operation: str) -> Sequence[ArchivedSession]:
        """What an operation of this home archived."""

    def weight(self) -> ArchiveWeight:
        """What everything in it takes on the disk: bundles, the catalogue, and other files."""


class Vault(Protocol):
    """Second names of sessions, so that what an agent deletes by itself is not lost."""

    def refresh(self, progress: Progress | None = None) -> VaultRefresh:
        """Take in what is new, and notice what the agent deleted. Call it only while this process
        holds the home's lock. Removes no session."""

    def items(self) -> Sequence[Item]:
        """Sessions that only the vault has, as items of a plan. Their age is the time since their
        agent deleted them."""

    def figures(self) -> VaultFigures: ...

    def sweep(self) -> Sweep | None:
        """What the agent deletes by itself; None if it deletes no sessions."""

    def unused_since(self, before: float) -> int:
        """How many sessions of the agent were last used before a time, by the rule of its sweep."""

    def problems(self) -> Sequence[Problem]:
        """What in it cannot be read."""

    def damage(self, progress: Progress) -> Sequence[Problem]:
        """Sessions that differ from what the agent left. Reads every byte that only the vault
        has."""

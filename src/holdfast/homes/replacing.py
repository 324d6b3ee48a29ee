"""Sessions that an import replaces go into the archive first, as an operation of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from holdfast.homes.archive_packing import Packer
from holdfast.model.item import SESSION
from holdfast.model.operation import OperationAction, Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.session import Message, Session
from holdfast.ports import Clock, Doer, Home, Journal
from holdfast.spine.settle import settle
from holdfast.stores.archive.archive import SessionArchive


class Replacing:
    """Told of each session before it is replaced, in the transaction that replaces it.

    Its bundle is whole, on the disk and in the catalogue when that returns. Whether the transaction
    came to its end, the rows say afterwards: a bundle of a session that was not replaced is dropped
    again, by this run or by whoever settles it.
    """

    def __init__(
        self, begin: Callable[[], Journal], archive: SessionArchive, packer: Packer
    ) -> None:
        """`begin` opens the journal: not before there is something to write into it."""
        self._begin = begin
        self._archive = archive
        self._packer = packer
        self._journal: Journal | None = None
        self._kept: list[Removal] = []

    @property
    def folder(self) -> str:
        """Where the replaced sessions are."""
        return self._archive.place

    @property
    def operation(self) -> str | None:
        """The operation that can be undone; None when nothing was replaced."""
        return None if self._journal is None else self._journal.operation

    def keep(self, session: Session, messages: Iterable[Message]) -> None:
        if self._journal is None:
            self._archive.make()
            self._journal = self._begin()
        item = PlanItem(
            kind=SESSION,
            id=session.id,
            source=session.source,
            session=session.id,
            bytes=session.bytes,
            last_active_at=session.last_active_at,
            version=session.version,
            action=Action.ARCHIVE,
            reason="replaced by an import",
            undoable=True,
        )
        removal = Removal(operation=self._journal.operation, number=len(self._kept), item=item)
        self._journal.intend([removal])
        self._kept.append(removal)
        made = self._packer.session(removal, session, messages)
        self._archive.catalogue.add([made])

    def finish(self, doer: Doer, at: float) -> None:
        """Ask the rows what became of each, and write it down."""
        if self._journal is not None:
            self._journal.record(self._kept, doer.settle(self._kept))
            self._journal.finish(at=at)


@contextmanager
def replacing(
    home: Home, archive: SessionArchive, packer: Packer, *, command: str, clock: Clock
) -> Iterator[Replacing]:
    """For one import. Meanwhile nobody else changes the home."""
    with home.log.writing(command) as log, ExitStack() as stack:
        settle(log, home, clock=clock)

        def begin() -> Journal:
            made = log.begin(action=OperationAction.REMOVE, command=command, at=clock())
            return stack.enter_context(made)

        kept = Replacing(begin, archive, packer)
        try:
            yield kept
        finally:
            kept.finish(home.doer(SESSION, Action.ARCHIVE), clock())

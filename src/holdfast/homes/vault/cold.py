"""The bundles of the vault: where they are stored, and reading and writing them.

A vault that holds everything by second names does not need this module, and so neither tar nor
zstd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.errors import DamageError
from holdfast.homes.archive.bundles import Packer
from holdfast.homes.archive.packed_folder import packed, unpack
from holdfast.homes.archive.place import folder_archive, object_archive
from holdfast.homes.archive.reader import bundle_messages
from holdfast.homes.options import ArchiveOptions
from holdfast.homes.vault.names import COLD, Entry
from holdfast.homes.vault.vault import BY_THE_VAULT
from holdfast.model.archive import ArchivedSession
from holdfast.model.item import SESSION
from holdfast.model.operation import Removal
from holdfast.model.plan import Action, PlanItem
from holdfast.model.session import Message, Session
from holdfast.parts.unit_record import RECORD
from holdfast.stores.archive.codec import Codec


class ColdBundles:
    """The bundles of one vault, in its folder or in an object store."""

    def __init__(self, folder: Path, options: ArchiveOptions) -> None:
        self._codec = Codec(options.codec)
        self.archive = (
            object_archive(folder, options) if options.url else folder_archive(folder / COLD)
        )

    def pack(
        self, session: Session, said: Iterable[Message], folder: Path, now: float
    ) -> ArchivedSession:
        """Pack a session into a bundle from a folder of the vault."""
        self.archive.make()
        number = int(folder.name.rpartition("-")[2])
        removal = Removal(operation=BY_THE_VAULT, number=number, item=_as_item(session))
        packer = Packer(self.archive, self._codec, lambda: now)
        made = packer.session(removal, session, said, files=packed(folder))
        self.archive.catalogue.add([made])
        return made

    def said(self, entry: Entry) -> Iterator[Message]:
        return bundle_messages(self.archive, entry.bundle, entry.session)

    def said_inside(
        self, entry: Entry, transcript: str, read: Callable[[Path], Iterator[Message]]
    ) -> Iterator[Message]:
        """Yield the messages of a session that is stored in another session's bundle, as a file."""
        with TemporaryDirectory(prefix="holdfast-vault-") as scratch:
            yield from read(self.unpacked(entry, Path(scratch)) / transcript)

    def unpacked(self, entry: Entry, parent: Path | None = None) -> Path:
        """Unpack the bundle of a session once, into a folder of the vault or of `parent`."""
        manifest = self.archive.manifest(entry.bundle)
        folder = (parent or entry.folder.parent) / f"units-{manifest.number}"
        if folder == entry.folder:
            raise DamageError(
                f"The manifest of {entry.bundle} does not name the folder that was packed"
            )
        if not (folder / RECORD).exists():
            unpack(self.archive, entry.bundle, folder)
        return folder


def _as_item(session: Session) -> PlanItem:
    return PlanItem(
        kind=SESSION,
        id=session.id,
        source=session.source,
        session=session.id,
        bytes=session.bytes,
        last_active_at=session.last_active_at,
        version="",
        action=Action.ARCHIVE,
        reason="kept in the vault",
    )

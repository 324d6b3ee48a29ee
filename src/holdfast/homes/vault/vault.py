"""The vault of a home: sessions that another agent may delete by itself, kept by second names.

A second name protects from deletion, and costs no space while the agent has the file too. It does
not protect from a change in place: if an agent truncates or edits a file, that shows under every
name. So only files that are appended to or never changed get one; a document that is rewritten as a
whole is copied.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.homes.foreign.notes import Seen, Vaulted
from holdfast.homes.options import VAULT
from holdfast.homes.vault.names import Entry, Names
from holdfast.homes.vault.second_names import kept_parts, trees_of
from holdfast.homes.vault.superseded import Said, goes_on, is_transcript_superseded
from holdfast.homes.vault.unread import Kept, is_folder_superseded
from holdfast.model.arguments import file_stem
from holdfast.model.item import VAULTED, VAULTED_BUNDLE, Item
from holdfast.model.part import FolderPart, Role, Unit, digest, version_of_parts
from holdfast.model.session import Message, Session
from holdfast.parts.trees import is_folder, remove_tree, tree_stamp
from holdfast.parts.unit_record import BatchRecord, UnitRecord
from holdfast.stores.files import Doubled, allocated_below, sync_dir
from holdfast.stores.sqlite.mirror import IDLE
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.homes.home import Ground
    from holdfast.homes.vault.cold import ColdBundles
    from holdfast.model.archive import ArchivedSession
    from holdfast.model.vault import Sweep
    from holdfast.ports.formats import Format
    from holdfast.stores.archive.archive import SessionArchive

#: The operation in the vault's catalogue for every bundle: no operation of the log made them.
BY_THE_VAULT = "vault"


class Vault:
    """The vault of one home: lists and reads its sessions, and drops them."""

    def __init__(self, ground: Ground, form: Format) -> None:
        self._ground = ground
        self._format = form
        self.folder = ground.state / VAULT
        self._going = self.folder / "going"
        self._dropped = self.folder / "dropped"
        self.names = Names(ground.state)

    @property
    def exists(self) -> bool:
        return self.folder.is_dir() and not self.folder.is_symlink()

    @cached_property
    def bundles(self) -> ColdBundles:
        from holdfast.homes.vault.cold import ColdBundles  # noqa: PLC0415 - unused by lists

        return ColdBundles(self.folder, self._ground.options.vault.cold)

    @property
    def cold(self) -> SessionArchive:
        """The archive with the bundles."""
        return self.bundles.archive

    def alone(self, ids: Iterable[str]) -> Sequence[Entry]:
        """Return the sessions that the home no longer has. `ids`: the sessions that it has."""
        if not self.exists:
            return ()
        gone = self.names.stems().difference(map(file_stem, ids))
        return [entry for stem in sorted(gone) if (entry := self.names.at(stem)) is not None]

    def seen(self, here: Iterable[Seen]) -> Sequence[Seen]:
        """Return the sessions that only the vault has, in the form in which a look at the home
        returns sessions. `here` is the result of such a look."""
        known = {each.unit.id for each in here}
        alone = self.alone(self.whole(here))
        inner = [each for entry in alone for each in self._seen_inside(entry)]
        return [*map(self._seen, alone), *(each for each in inner if each.unit.id not in known)]

    def whole(self, here: Iterable[Seen]) -> set[str]:
        """Return the ids of sessions that their agent still has. One that lost its transcript (a
        row in a database without its file) counts as only in the vault."""
        if not self.exists:
            return {each.unit.id for each in here}
        stems = self.names.stems()
        return {each.unit.id for each in here if not self._is_lost(each, stems)}

    def is_lost(self, seen: Seen) -> bool:
        return self._is_lost(seen, self.names.stems())

    def _is_lost(self, seen: Seen, stems: Collection[str]) -> bool:
        path, stem = seen.unit.transcript, file_stem(seen.unit.id)
        if seen.inside or stem not in stems:
            return False
        stamp = "" if path is None else seen.stamps.get(str(path)) or tree_stamp(path)
        if _says_something(stamp):
            return False
        entry = self.names.at(stem)
        if entry is None or not entry.transcript:
            return False
        # An empty file, a folder or a link does not count, unless the vault's was one too.
        if not stamp or entry.bundle:
            return True
        return _says_something(tree_stamp(entry.folder / entry.transcript))

    def _seen(self, entry: Entry) -> Seen:
        session = entry.session
        linked = entry.transcript and not entry.bundle
        path = entry.folder / entry.transcript if linked else None
        told = (lambda: self.bundles.said(entry)) if entry.bundle else None
        return self._held(session, path, entry.version, self.bytes_of(entry), told)

    def _seen_inside(self, entry: Entry) -> Iterator[Seen]:
        for each in entry.inner:
            path = entry.folder / each.transcript
            version = digest([entry.version, each.session.id])
            seen = self._held(each.session, path, version, 0, None)
            if entry.bundle:
                told = partial(self._told_inside, entry, each.transcript, seen.unit)
                seen = self._held(each.session, None, version, 0, told)
            yield seen

    def _told_inside(self, entry: Entry, transcript: str, unit: Unit) -> Iterator[Message]:
        def read(path: Path) -> Iterator[Message]:
            return self._format.messages(self._ground.root, replace(unit, transcript=path))

        return self.bundles.said_inside(entry, transcript, read)

    def _held(
        self,
        session: Session,
        path: Path | None,
        version: str,
        size: int,
        told: Callable[[], Iterator[Message]] | None,
    ) -> Seen:
        # Ended, because its agent can no longer write to it.
        ended = session.last_active_at if session.ended_at is None else session.ended_at
        reason = session.end_reason or IDLE
        held = replace(session, vaulted=True, ended_at=ended, end_reason=reason, bytes=size)
        return Seen(
            unit=Unit(
                id=session.id,
                active=session.last_active_at,
                parts=(),
                started=session.started_at,
                parent=session.parent_id or "",
                relation=session.relation,
                source=session.source,
                cwd=session.cwd or "",
                title=session.title or "",
                model=session.model or "",
                transcript=path,
            ),
            version=version,
            bytes=size,
            changed=session.last_active_at,
            vaulted=Vaulted(session=held, told=told),
        )

    def said(self, entry: Entry) -> Iterator[Message]:
        """Return the messages of a session in the vault."""
        return self._seen(entry).messages(self._format, self._ground.root)

    def bytes_of(self, entry: Entry) -> int:
        """Return the disk space that is freed when a session leaves the vault."""
        return entry.bundle_bytes if entry.bundle else allocated_below(entry.folder)

    def items(self, ids: Iterable[str]) -> Sequence[Item]:
        """Return the sessions that only the vault has as items of a plan. Their age counts from
        when their agent deleted them."""
        return [self._item(entry) for entry in self.alone(ids)]

    def _item(self, entry: Entry) -> Item:
        session = entry.session
        return Item(
            kind=VAULTED_BUNDLE if entry.bundle else VAULTED,
            id=entry.bundle or session.id,
            source=session.source,
            session=session.id,
            bytes=self.bytes_of(entry),
            last_active_at=entry.seen_at if entry.alone_since is None else entry.alone_since,
            version=entry.bundle_sha256 or self._version(session.id),
        )

    def part_of(self, session_id: str) -> FolderPart:
        """Return all second names of a session as a part that can be moved."""
        return FolderPart(path=self.names.root / file_stem(session_id), role=Role.REFERENCE)

    def _version(self, session_id: str) -> str:
        part = self.part_of(session_id)
        return version_of_parts((part,), (tree_stamp(part.path),))

    def note(self, bundle: ArchivedSession) -> None:
        """Record a bundle that has no entry in the vault: a killed run left it, or its session
        comes back from the trash."""
        session = bundle.session
        # The folder that it was made from had a lower number, and comes back under that.
        number = self.cold.manifest(bundle.file).number + 1
        Entry(
            folder=self.names.folder(file_stem(session.id), number),
            session=session,
            version=bundle.sha256,
            seen_at=bundle.archived_at,
            bundle=bundle.file,
            bundle_sha256=bundle.sha256,
            bundle_bytes=bundle.archive_bytes,
        ).write()

    def doubled(self) -> Doubled:
        return self.names.doubled() if self.exists else {}

    def forget(self, left: Sequence[UnitRecord]) -> None:
        """Drop sessions that Holdfast itself took out of the home: their space has to be freed, and
        the trash or the archive has them. Never raises: a name that stays behind is listed as
        vaulted, where the user sees it."""
        if not self.exists:
            return
        for each in left:
            with contextlib.suppress(HoldfastError, OSError):
                if not self._has_more_than(each):
                    self.drop(file_stem(each.unit.id))

    def kept_at(self, unit: Unit, where: Callable[[Path], Iterable[Path]]) -> Kept:
        """What an agent has of a session, or had. `where` lists where the file of a place is."""
        parts = replace(unit, parts=tuple(kept_parts(unit, self._ground.root)))
        slots = UnitRecord.of(0, parts, self.folder).slots
        says = partial(self._reader, unit)
        return Kept(slots=slots, where=where, transcript=unit.transcript, says=says)

    def kept_in(self, entry: Entry) -> Kept:
        """What an entry holds of a session, and the agent in its place."""
        slots = trees_of(entry)
        place = next(
            (
                each.part.place / held.relative_to(each.copy)
                for each in slots
                if (held := entry.folder / entry.transcript).is_relative_to(each.copy)
            ),
            None,
        )

        def where(place: Path) -> Iterator[Path]:
            yield place
            for each in slots:
                if place.is_relative_to(each.part.place):
                    yield each.copy / place.relative_to(each.part.place)

        unit = self._seen(entry).unit
        return Kept(slots=slots, where=where, transcript=place, says=partial(self._reader, unit))

    def _has_more_than(self, left: UnitRecord) -> bool:
        """True if the vault has a transcript that did not leave with the session of this id."""
        entry = self.names.find(left.unit.id)
        if entry is None:
            return self._has_unread_beside(left)
        if not entry.transcript:
            return False
        if entry.bundle:
            return True  # it was sealed as deleted, so what left is another session with this id
        top, *below = Path(entry.transcript).parts
        record = BatchRecord.read(entry.folder)
        slots = () if record is None else record.records[entry.number].slots
        place = next((slot.part.place for slot in slots if slot.copy.name == top), None)
        copies = (slot.copy for slot in left.slots if slot.part.place == place)
        found = [each for copy in copies if os.path.lexists(each := copy.joinpath(*below))]
        return not any(
            self.is_superseded(entry, each, self._reader(left.unit, each)) for each in found
        )

    def _has_unread_beside(self, left: UnitRecord) -> bool:
        """The same of a session whose entry cannot be read."""

        def where(place: Path) -> Iterator[Path]:
            for slot in left.slots:
                if place.is_relative_to(slot.part.place):
                    yield slot.copy / place.relative_to(slot.part.place)

        kept = self.kept_at(left.unit, where)
        folders = self.names.folders(file_stem(left.unit.id))
        return not all(is_folder_superseded(each, kept) for each in folders)

    def _reader(self, unit: Unit, transcript: Path) -> Said:
        there = replace(unit, transcript=transcript)
        return lambda: self._format.messages(self._ground.root, there)

    def is_superseded(self, entry: Entry, path: Path, says: Said) -> bool:
        """True if a transcript covers the one in the vault. A sealed transcript must be in it to
        the last byte."""
        kept = entry.folder / entry.transcript
        if entry.alone_since is not None:
            return goes_on(kept, path)
        return is_transcript_superseded(kept, path, lambda: self.said(entry), says)

    def drop(self, stem: str) -> None:
        """Remove everything the vault has of a session. A rename hides it first: half removed, it
        would pass for complete, or for damaged."""
        self.clear()
        with contextlib.suppress(FileNotFoundError):
            (self.names.root / stem).rename(self._going)
            sync_dir(self.names.root)
        self.clear()

    def drop_folder(self, folder: Path) -> None:
        """Remove one folder of a session, of which another one holds everything. A rename hides it
        first: half removed, it would pass for damaged."""
        remove_tree(self._dropped)
        with contextlib.suppress(FileNotFoundError):
            folder.rename(self._dropped)
        remove_tree(self._dropped)

    def clear(self) -> None:
        """Remove what is being dropped, or what a killed run left of it. The folder names its
        bundles until they are gone: a bundle without an entry would be taken in again."""
        bundles = []
        for each in self._going.iterdir() if is_folder(self._going) else ():
            with contextlib.suppress(HoldfastError, OSError):
                bundles.append(Entry.read(each).bundle)
        if any(bundles):
            self.cold.drop_in_time(filter(None, bundles), BY_THE_VAULT)
        remove_tree(self._going)
        remove_tree(self._dropped)


def _says_something(stamp: str) -> bool:
    """True for the stamp of a non-empty file."""
    return stamp.startswith("8:") and not stamp.startswith("8:0:")


def sweep_of(form: Format, root: Path) -> Sweep | None:
    """Return what an agent deletes by itself, according to its own settings; None if it deletes no
    sessions as far as we know."""
    find = getattr(form, "sweep", None)
    found: Sweep | None = None if find is None else find(root)
    return found

"""The location of a home's archive: a local folder, or an object store that other homes may
share."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.homes.options import USUAL_ARCHIVE, ArchiveOptions
from holdfast.stores.archive import catalogue
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.codec import codec_of
from holdfast.stores.archive.line_blobs import LineBlobs
from holdfast.stores.blobs.address import Address
from holdfast.stores.blobs.folder import FolderBlobs
from holdfast.stores.blobs.membership import Membership, homes_at, path_of
from holdfast.stores.blobs.object_store import ObjectBlobs
from holdfast.stores.blobs.ownership import Ownership
from holdfast.stores.blobs_to_delete import BlobsToDelete
from holdfast.stores.line_file import CacheFile, LineFile

if TYPE_CHECKING:
    from holdfast.homes.home import Ground

#: Cached lines of the catalogue, so that each is fetched only once.
CACHE = "archive-lines.jsonl"
#: Bundles to be deleted when the store can be reached again.
OWED = "archive-owed.json"
_REPLACES = (
    "fine; this object store would replace an object that exists (it ignores If-None-Match), "
    "so every name is looked up before it is used"
)


def archive_at(ground: Ground) -> SessionArchive:
    """The archive that the home's configuration names."""
    chosen = ground.options.archive
    if not chosen.url:
        return folder_archive(ground.archive, chosen_by=ground.state if chosen.folder else None)
    return object_archive(ground.state, chosen)


def folder_archive(path: Path, *, chosen_by: Path | None = None) -> SessionArchive:
    """The archive in a local folder. `chosen_by` is the state folder of the home whose
    configuration names this folder; None for the default folder inside the home."""
    if chosen_by is None:
        blobs, former = FolderBlobs(path), None
    else:
        with contextlib.suppress(OSError, RuntimeError):  # a cycle of links has no target
            path = path.resolve()
        usual = chosen_by / USUAL_ARCHIVE
        owner = Ownership(chosen_by, path, usual=usual, is_archive=_is_archive)
        blobs, former = FolderBlobs(path, owner), FolderBlobs(usual)
        with contextlib.suppress(OSError):
            former = None if usual.samefile(path) else former
    lines = catalogue.Catalogue(LineFile(path / catalogue.NAME))
    return SessionArchive(
        blobs,
        lines,
        spool=blobs.spool,
        former=former,
        is_here=lambda: chosen_by is None or _on_one_disk(chosen_by, path),
    )


def _on_one_disk(*folders: Path) -> bool:
    with contextlib.suppress(OSError):
        return len({folder.stat().st_dev for folder in folders}) == 1
    return False


def _is_archive(name: str) -> bool:
    return name == catalogue.NAME or codec_of(name) is not None


def object_archive(state: Path, chosen: ArchiveOptions) -> SessionArchive:
    """The archive in an object store. `state` is the folder of the home, which stores the address;
    large bundles wait there for their upload."""
    member = Membership(state, chosen.member)
    address = Address(
        url=chosen.url, endpoint=chosen.endpoint, region=chosen.region, profile=chosen.profile
    )
    blobs = ObjectBlobs(address, member=member, temporary=state)
    return SessionArchive(
        blobs,
        LineBlobs(blobs, CacheFile(state / CACHE)),
        spool=blobs.spool,
        homes=_Members(member, blobs),
        owed=BlobsToDelete(state / OWED),
        remark=lambda: _REPLACES if member.knows(blobs.place) and not blobs.creates_only else "",
        former=FolderBlobs(state / USUAL_ARCHIVE),
        is_here=lambda: False,
    )


class _Members:
    """The homes that share the store."""

    shared = True

    def __init__(self, member: Membership, blobs: ObjectBlobs) -> None:
        self._member = member
        self._blobs = blobs

    def own(self) -> Sequence[str]:
        return self._member.names

    def did(self, home: str, operation: str) -> bool:
        return self._member.did(home, operation)

    def path(self, home: str) -> str:
        return path_of(self._blobs, home)

    def all(self) -> Sequence[str]:
        return homes_at(self._blobs)

"""The archive of a home in an object store, which it may share with other homes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.homes.options import ArchiveOptions
from holdfast.stores.archive import USUAL_FOLDER
from holdfast.stores.archive.archive import SessionArchive
from holdfast.stores.archive.line_blobs import LineBlobs
from holdfast.stores.blobs.address import Address
from holdfast.stores.blobs.folder import FolderBlobs
from holdfast.stores.blobs.membership import Membership, homes_at, path_of
from holdfast.stores.blobs.objects import ObjectBlobs
from holdfast.stores.line_file import CacheFile
from holdfast.stores.owed_file import OwedFile

#: Lines of the catalogue, so that each is fetched once.
CACHE = "archive-lines.jsonl"
#: Bundles that are to be deleted when the store can be reached again.
OWED = "archive-owed.json"
_REPLACES = (
    "fine; this object store would replace an object that exists (it ignores If-None-Match), "
    "so every name is looked up before it is used"
)


def object_archive(state: Path, chosen: ArchiveOptions) -> SessionArchive:
    """`state` is the folder of the home that remembers the address; large bundles wait there for
    their upload."""
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
        owed=OwedFile(state / OWED),
        remark=lambda: _REPLACES if member.knows(blobs.place) and not blobs.creates_only else "",
        former=FolderBlobs(state / USUAL_FOLDER),
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

"""The first look at many files: all of them are new, and are read by several processes."""

from __future__ import annotations

from holdfast.stores.checkpoints.look import Looked, Seeing, note_young
from holdfast.stores.checkpoints.readers import Readers, Reading
from holdfast.stores.git.pack_writer import Pack
from holdfast.stores.git.trees import LINK


def read_all(seeing: Seeing, looked: Looked, new: Pack) -> None:
    """Read every file that the walk found, and store its content."""
    how = Reading(
        root=seeing.root,
        limit=seeing.limit,
        moment=seeing.moment,
        objects=seeing.trees.objects.folder,
    )
    # Nobody asks for these again, and they are as large as everything else.
    looked.walked.new.clear()
    looked.walked.fresh = {folder: set() for folder in looked.walked.fresh}
    modes: dict[int, int] = {}  # each number once
    with Readers(how) as readers:
        for path, found in readers.read(sorted(looked.paths)):
            if isinstance(found, str):
                looked.left.setdefault(path, found)
            elif found is not None:
                kind, permissions, size, signature, status, oid, stored = found
                looked.size += size
                note_young(seeing, looked, path, signature)
                looked.rows[path] = status + oid
                if kind != LINK:
                    looked.permissions[path] = modes.setdefault(permissions, permissions)
                new.copy(oid, stored)

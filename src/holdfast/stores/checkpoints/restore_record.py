"""Records of a project's restores: the one in progress, and the latest.

The first is on disk from before the first change until after the last: a process that holds the
project's lock and finds it knows that a restore was interrupted. When the restore ends, a rename
turns it into the second, which shows which checkpoints undo needs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from holdfast.model.json_value import NO_RECORD, fields_from_json, fields_to_json
from holdfast.stores import files
from holdfast.stores.checkpoints.repository import write_cache
from holdfast.stores.files import read_file, storage_errors, sync_dir
from holdfast.value import dataclass, field, replace

_UNDER_WAY = "restore.json"
_LATEST = "restored.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """A restore from the checkpoint `safety` to `target`. `safety` is "" until it is taken.

    `fresh` are new paths of the restore that the rules of the safety checkpoint exclude: only this
    record shows that they are ours and that undo deletes them. `undoes` means that this restore
    undoes the one before it. `held` are paths that the restore leaves alone because they changed
    after the preview, with reasons. `remade` are directories that it creates although both
    checkpoints have them, because they were gone.
    """

    target: str
    safety: str
    paths: tuple[str, ...] | None
    started_at: float
    fresh: tuple[str, ...] = ()
    undoes: bool = False
    held: Mapping[str, str] = field(default_factory=dict)
    remade: tuple[str, ...] = ()

    def is_same_as(self, other: Restoration) -> bool:
        mine = (self.target, self.safety, self.paths)
        return mine == (other.target, other.safety, other.paths)

    def is_reverse_of(self, other: Restoration) -> bool:
        mine = (self.target, self.safety, self.paths)
        return mine == (other.safety, other.target, other.paths)

    def following(self, other: Restoration, *, cut: bool) -> Restoration:
        """Return this restore with what the previous record knows. After a complete undo no fresh
        path is left; an interrupted undo may have left some."""
        same = self.is_same_as(other)
        if not same and not (self.is_reverse_of(other) and (cut or not other.undoes)):
            return self
        return replace(
            self,
            fresh=other.fresh,
            undoes=other.undoes if same else not other.undoes,
            held=other.held,
            remade=other.remade if cut else (),
        )


def under_way(folder: Path) -> Restoration | None:
    """Return the interrupted restore, if there is one. If its record is damaged it cannot be
    finished, but the safety checkpoint still has everything."""
    return _read(folder / _UNDER_WAY)


def latest(folder: Path) -> Restoration | None:
    return _read(folder / _LATEST)


def held(folder: Path) -> frozenset[str]:
    """Return the checkpoints of a project that a restore or its undo still needs. Rotation and the
    cap must not drop them."""
    records = (_read(folder / _UNDER_WAY), _read(folder / _LATEST))
    ends = {end for record in records if record for end in (record.target, record.safety)}
    return frozenset(ends - {""})


def announce(folder: Path, target: str, now: float) -> None:
    """Protect the target before the safety checkpoint is taken, which may rotate it out. No fsync:
    a power cut ends the restore as well."""
    coming = Restoration(target=target, safety="", paths=None, started_at=now)
    path = folder / _LATEST
    with storage_errors(f"write {path}"):
        write_cache(path, _bytes(coming))


def begin(folder: Path, restoration: Restoration) -> None:
    path = folder / _UNDER_WAY
    with storage_errors(f"write {path}"):
        files.replace(path, _bytes(restoration))


def end(folder: Path) -> None:
    """Mark the restore as the latest. One rename, so it is never in both states."""
    path = folder / _UNDER_WAY
    with storage_errors(f"rename {path}"):
        with contextlib.suppress(FileNotFoundError):
            path.replace(folder / _LATEST)
        sync_dir(folder)


def _read(path: Path) -> Restoration | None:
    try:
        return fields_from_json(Restoration, json.loads(read_file(path)))
    except (FileNotFoundError, *NO_RECORD):
        return None


def _bytes(restoration: Restoration) -> bytes:
    return json.dumps({"format": _FORMAT, **fields_to_json(restoration)}).encode("ascii")

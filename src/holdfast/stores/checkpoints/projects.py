"""Projects: which directories may have checkpoints, and the record of each project.

A record holds where the project is, when it was last used, and the names and pins of its
checkpoints. A process that writes a record holds the project's lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast import value
from holdfast.errors import UsageError
from holdfast.model.checkpoint import Checkpoint, ProjectState
from holdfast.model.json_value import NO_RECORD, fields_from_json, fields_to_json
from holdfast.stores.checkpoints.repository import Layout, machine_of, project_lock, used
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors
from holdfast.value import dataclass, field

_FORMAT = 1
_FSTAB = Path("/etc/fstab")
_MEDIA = ("/mnt", "/media", "/run/media", "/Volumes", "/net")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRecord:
    """A record. `mount` is the mount point of the project, "" for the root's disk, and `disk` is
    the file system that was mounted there. Names and pins are by id."""

    project: str
    workdir: str
    created_at: float
    last_touch: float
    mount: str = ""
    disk: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    pins: frozenset[str] = frozenset()


def read_record(layout: Layout, project: str) -> ProjectRecord | None:
    """The record; None when it is missing or unreadable. The next take writes a new one."""
    with contextlib.suppress(OSError, *NO_RECORD):
        data = json.loads(read_file(_path(layout, project)))
        return fields_from_json(ProjectRecord, data, project=project)
    return None


def write_record(layout: Layout, record: ProjectRecord) -> None:
    fields = fields_to_json(record, without=("project", "pins"))
    data = {"format": _FORMAT, **fields, "pins": sorted(record.pins)}
    path = _path(layout, record.project)
    with storage_errors(f"write {path}"):
        make_private_dir(path.parent)
        replace(path, json.dumps(data).encode("ascii"))


def remove_record(layout: Layout, project: str) -> None:
    with storage_errors(f"remove {_path(layout, project)}"):
        _path(layout, project).unlink(missing_ok=True)


def recorded(layout: Layout) -> dict[str, ProjectRecord]:
    """Every readable record, by project."""
    try:
        names = [path.stem for path in layout.projects.iterdir() if path.suffix == ".json"]
    except FileNotFoundError:
        return {}
    records = {name: read_record(layout, name) for name in names if not name.startswith(".")}
    return {name: record for name, record in records.items() if record is not None}


def state_of(record: ProjectRecord) -> ProjectState:
    """A directory is unmounted, not missing, if its disk is gone. If the directory around it is
    gone as well, we cannot tell."""
    if machine_of(record.project):
        return ProjectState.ELSEWHERE
    return _state(Path(record.workdir), lambda _: unmounted(record) is not None)


def state_without_record(workdir: str) -> ProjectState:
    """The same for a directory whose disk was not recorded. If it may have been on a disk that is
    not mounted now, it does not count as missing."""
    place = Path(workdir)
    return _state(place, _may_be_mounted_later) if place.is_absolute() else ProjectState.UNKNOWN


def _state(place: Path, is_unmounted: Callable[[Path], bool]) -> ProjectState:
    if _is_directory(place, in_doubt=True):
        return ProjectState.LIVE
    if is_unmounted(place):
        return ProjectState.UNMOUNTED
    is_missing = _is_directory(place.parent, in_doubt=False)
    return ProjectState.MISSING if is_missing else ProjectState.UNKNOWN


def _is_directory(place: Path, *, in_doubt: bool) -> bool:
    """`in_doubt` is the answer for a place that cannot be looked at."""
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return in_doubt


def _may_be_mounted_later(place: Path) -> bool:
    """Whether a place is where disks are mounted, or on a disk of fstab that is not mounted."""
    if any(place.is_relative_to(root) for root in _MEDIA):
        return True
    with contextlib.suppress(OSError, UnicodeDecodeError):
        lines = (line.split() for line in _FSTAB.read_text().splitlines())
        named = [Path(words[1]) for words in lines if len(words) > 1 and words[1] != "/"]
        return any(place.is_relative_to(each) and not os.path.ismount(each) for each in named)
    return False


def unmounted(record: ProjectRecord) -> str | None:
    """Why the disk of a project is not there; None when it is."""
    if not record.mount:
        return None
    if not os.path.ismount(record.mount):
        return f"the disk at {record.mount} is not mounted"
    if record.disk and record.disk != _disk_at(record.mount):
        return f"another disk is mounted at {record.mount}"
    return None


def whereabouts(workdir: Path) -> tuple[str, str]:
    """The mount point above a directory, and the file system there; "" for the root's disk, which
    is never missing."""
    place = workdir
    while not place.is_mount():
        place = place.parent
    return ("", "") if place == place.parent else (str(place), _disk_at(str(place)))


def _disk_at(place: str) -> str:
    """An id of the file system at a place; "" if it has none."""
    try:
        number = os.statvfs(place).f_fsid
    except OSError:
        return ""
    return f"{number:x}" if number else ""


def _path(layout: Layout, project: str) -> Path:
    return layout.projects / f"{project}.json"


def pin(layout: Layout, checkpoint: Checkpoint, pinned: bool) -> Checkpoint:
    """Pin a checkpoint, or unpin it."""

    def change(record: ProjectRecord) -> ProjectRecord:
        pins = record.pins | {checkpoint.id} if pinned else record.pins - {checkpoint.id}
        return value.replace(record, pins=pins)

    _change(layout, checkpoint, change)
    return value.replace(checkpoint, pinned=pinned)


def rename(layout: Layout, checkpoint: Checkpoint, name: str | None) -> Checkpoint:
    """Give a checkpoint a name; None removes its name."""

    def change(record: ProjectRecord) -> ProjectRecord:
        others = {key: value for key, value in record.names.items() if key != checkpoint.id}
        return value.replace(record, names=others | ({checkpoint.id: name} if name else {}))

    _change(layout, checkpoint, change)
    return value.replace(checkpoint, name=name)


def _change(
    layout: Layout, checkpoint: Checkpoint, change: Callable[[ProjectRecord], ProjectRecord]
) -> None:
    with used(layout), project_lock(layout, checkpoint.project, checkpoint.workdir):
        record = read_record(layout, checkpoint.project) or ProjectRecord(
            project=checkpoint.project,
            workdir=checkpoint.workdir,
            created_at=checkpoint.time,
            last_touch=checkpoint.time,
        )
        write_record(layout, change(record))


def unreachable(workdir: Path, record: ProjectRecord | None) -> str | None:
    """Why a directory cannot be looked at; None if it can. `record` is its record, if any."""
    if not workdir.exists():
        away = None if record is None else unmounted(record)
        return away or "there is no such directory"
    if not workdir.is_dir():
        return "it is not a directory"
    if not os.access(workdir, os.R_OK | os.X_OK):
        return "it cannot be read: check its permissions"
    return None


def relative(workdir: Path, path: str) -> bytes:
    """A path relative to the project; raises `UsageError` for a path outside.

    Nothing is resolved: a symlink is part of the project, its target is not.
    """
    whole = os.path.normpath(Path(workdir, path))
    if whole == str(workdir):
        return b""
    try:
        inside = Path(whole).relative_to(workdir)
    except ValueError:
        raise UsageError(f"{path!r} is not in {workdir}.") from None
    return os.fsencode(str(inside))

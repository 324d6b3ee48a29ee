"""What is known of a project beside its checkpoints: where it is, when it was used, names, pins.

Whoever writes a record holds the project's lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.model.checkpoint import ProjectState
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors
from holdfast.stores.shadowgit.repository import Layout

_FORMAT = 1
_FSTAB = Path("/etc/fstab")
_MEDIA = ("/mnt", "/media", "/run/media", "/Volumes", "/net")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRecord:
    """What a record says. `mount` is the mount point that it lay on, "" for the root's disk, and
    `disk` the file system that was mounted there; names and pins are by id."""

    project: str
    workdir: str
    created_at: float
    last_touch: float
    mount: str = ""
    disk: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    pins: frozenset[str] = frozenset()


def read_record(layout: Layout, project: str) -> ProjectRecord | None:
    """The record, or None when there is none that can be read: it can be made anew."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        return _from_json(project, json.loads(read_file(_path(layout, project))))
    return None


def write_record(layout: Layout, record: ProjectRecord) -> None:
    data = {
        "format": _FORMAT,
        "workdir": record.workdir,
        "created_at": record.created_at,
        "last_touch": record.last_touch,
        "mount": record.mount,
        "disk": record.disk,
        "names": dict(record.names),
        "pins": sorted(record.pins),
    }
    path = _path(layout, record.project)
    with storage_errors(f"write {path}"):
        make_private_dir(path.parent)
        replace(path, json.dumps(data).encode("ascii"))


def remove_record(layout: Layout, project: str) -> None:
    with storage_errors(f"remove {_path(layout, project)}"):
        _path(layout, project).unlink(missing_ok=True)


def recorded(layout: Layout) -> dict[str, ProjectRecord]:
    """Every record that can be read."""
    try:
        names = [path.stem for path in layout.projects.iterdir() if path.suffix == ".json"]
    except FileNotFoundError:
        return {}
    records = {name: read_record(layout, name) for name in names if not name.startswith(".")}
    return {name: record for name, record in records.items() if record is not None}


def state_of(record: ProjectRecord, *, stale_before: float | None) -> ProjectState:
    """A directory that is gone together with its disk is not a deleted one, and neither is one
    that is gone with everything around it: nobody can tell."""
    workdir = Path(record.workdir)
    if not _is_there(workdir):
        if unmounted(record) or not _is_seen(workdir.parent):
            return ProjectState.UNMOUNTED
        return ProjectState.MISSING
    if stale_before is not None and record.last_touch < stale_before:
        return ProjectState.STALE
    return ProjectState.LIVE


def state_without_record(workdir: str) -> ProjectState:
    """The same for a directory of which nobody noted the disk: one that may have been on a disk
    that is not mounted now is not gone."""
    place = Path(workdir)
    if not place.is_absolute():
        return ProjectState.UNMOUNTED
    if _is_there(place):
        return ProjectState.LIVE
    if not _is_seen(place.parent) or _may_be_mounted_later(place):
        return ProjectState.UNMOUNTED
    return ProjectState.MISSING


def _is_there(place: Path) -> bool:
    """Whatever cannot be looked at may be there."""
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _is_seen(place: Path) -> bool:
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except OSError:
        return False


def _may_be_mounted_later(place: Path) -> bool:
    """Whether it lies where disks come and go, or on one of fstab that is not mounted."""
    if any(place.is_relative_to(root) for root in _MEDIA):
        return True
    with contextlib.suppress(OSError, UnicodeDecodeError):
        lines = (line.split() for line in _FSTAB.read_text().splitlines())
        named = [Path(words[1]) for words in lines if len(words) > 1 and words[1] != "/"]
        return any(place.is_relative_to(each) and not os.path.ismount(each) for each in named)
    return False


def unmounted(record: ProjectRecord) -> str | None:
    """Why the disk that a project lay on is not there; None when it is."""
    if not record.mount:
        return None
    if not os.path.ismount(record.mount):
        return f"the disk at {record.mount} is not mounted"
    if record.disk and record.disk != _disk_at(record.mount):
        return f"another disk is mounted at {record.mount}"
    return None


def whereabouts(workdir: Path) -> tuple[str, str]:
    """The mount point above a directory, and the file system there; nothing for the root, which
    is never missing."""
    place = workdir
    while not place.is_mount():
        place = place.parent
    return ("", "") if place == place.parent else (str(place), _disk_at(str(place)))


def _disk_at(place: str) -> str:
    """What tells one file system from another that takes its place; "" where nothing does."""
    try:
        number = os.statvfs(place).f_fsid
    except OSError:
        return ""
    return f"{number:x}" if number else ""


def _from_json(project: str, data: Mapping[str, Any]) -> ProjectRecord:
    return ProjectRecord(
        project=project,
        workdir=str(data["workdir"]),
        created_at=float(data["created_at"]),
        last_touch=float(data["last_touch"]),
        mount=str(data.get("mount", "")),
        disk=str(data.get("disk", "")),
        names={str(key): str(value) for key, value in data.get("names", {}).items()},
        pins=frozenset(str(pin) for pin in data.get("pins", ())),
    )


def _path(layout: Layout, project: str) -> Path:
    return layout.projects / f"{project}.json"

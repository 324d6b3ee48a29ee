"""Projects: which directories may have checkpoints, and the record of each project.

A record contains where the project is, when it was last used, and the names and pins of its
checkpoints. Writing a record requires the project's lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from holdfast import value
from holdfast.errors import StorageError, UnknownCheckpointError, UsageError
from holdfast.model.checkpoint import Checkpoint, ProjectState
from holdfast.model.json_value import NO_RECORD, fields_from_json, fields_to_json
from holdfast.stores import lock
from holdfast.stores.checkpoints.agent_homes import home_at
from holdfast.stores.checkpoints.checkpoint_commit import project_refs
from holdfast.stores.checkpoints.repository import Layout, machine_of, project_lock, used
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors
from holdfast.value import dataclass, field

_FORMAT = 1
_RUNS = "runs"
RUNNING = "the run that started from it is still in progress"
_FSTAB = Path("/etc/fstab")
#: Places that are never captured.
_UNIX = (
    "bin boot etc home lib lib32 lib64 media mnt opt private private/etc private/tmp private/var"
    " root run sbin snap srv tmp usr usr/bin usr/lib usr/local usr/sbin usr/share var var/lib"
    " var/log var/tmp"
)
_MACOS = "Applications Library System Users Volumes"
_BROAD = frozenset(Path("/", name) for names in (_UNIX, _MACOS) for name in names.split())
#: Kernel file systems: they contain no files that could be restored.
_KERNEL = tuple(Path(name) for name in ("/dev", "/proc", "/sys"))
#: A memory file system; folders in it may have checkpoints.
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a name to compare with
_MEDIA = ("/mnt", "/media", "/run/media", "/Volumes", "/net")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRecord:
    """A record. `mount` is the mount point of the project, "" for the root's disk; `disk` is the
    file system that was mounted there. Names and pins are by id."""

    project: str
    workdir: str
    created_at: float
    last_touch: float
    mount: str = ""
    disk: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    pins: frozenset[str] = frozenset()


def read_record(layout: Layout, project: str) -> ProjectRecord | None:
    """Return the record; None if it is missing or unreadable. The next take replaces one that is
    missing."""
    with contextlib.suppress(OSError, *NO_RECORD):
        data = json.loads(read_file(_path(layout, project)))
        return fields_from_json(ProjectRecord, data, project=project)
    return None


def is_unreadable(layout: Layout, project: str) -> bool:
    """True if there is a record that cannot be read: what it pins is unknown."""
    return os.path.lexists(_path(layout, project)) and read_record(layout, project) is None


def write_record(layout: Layout, record: ProjectRecord) -> None:
    """Raises `StorageError` rather than replace a record that cannot be read."""
    if is_unreadable(layout, record.project):
        raise StorageError(
            f"Cannot read {_path(layout, record.project)}, so it was not changed: it has the names "
            "and pins of checkpoints.",
            hint="Fix the file, or delete it and pin the checkpoints again.",
        )
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
    """Return every readable record, by project."""
    try:
        names = [path.stem for path in layout.projects.iterdir() if path.suffix == ".json"]
    except FileNotFoundError:
        return {}
    records = {name: read_record(layout, name) for name in names if not name.startswith(".")}
    return {name: record for name, record in records.items() if record is not None}


def state_of(record: ProjectRecord) -> ProjectState:
    """Return the state of a project. It is unmounted, not missing, if its disk is gone. If the
    parent directory is gone as well, the state is unknown."""
    if machine_of(record.project):
        return ProjectState.ELSEWHERE
    return _state(Path(record.workdir), lambda _: unmounted(record) is not None)


def state_without_record(workdir: str) -> ProjectState:
    """Return the same for a directory whose disk was not recorded. If it may have been on a disk
    that is not mounted now, it does not count as missing."""
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
    """`in_doubt` is the result for a place that cannot be inspected."""
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return in_doubt


def _may_be_mounted_later(place: Path) -> bool:
    """True if disks are mounted at this place, or it is on a disk in fstab that is not mounted."""
    if any(place.is_relative_to(root) for root in _MEDIA):
        return True
    with contextlib.suppress(OSError, UnicodeDecodeError):
        lines = (line.split() for line in _FSTAB.read_text().splitlines())
        named = [Path(words[1]) for words in lines if len(words) > 1 and words[1] != "/"]
        return any(place.is_relative_to(each) and not os.path.ismount(each) for each in named)
    return False


def unmounted(record: ProjectRecord) -> str | None:
    """Return why the disk of a project is not available; None if it is."""
    if not record.mount:
        return None
    if not os.path.ismount(record.mount):
        return f"the disk at {record.mount} is not mounted"
    if record.disk and record.disk != _disk_at(record.mount):
        return f"another disk is mounted at {record.mount}"
    return None


def whereabouts(workdir: Path) -> tuple[str, str]:
    """Return the mount point above a directory, and the file system there; "" for the root's disk,
    which is never missing."""
    place = workdir
    while not place.is_mount():
        place = place.parent
    return ("", "") if place == place.parent else (str(place), _disk_at(str(place)))


def _disk_at(place: str) -> str:
    """Return an id of the file system at a place; "" if it has none."""
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
    """Return why a directory cannot be looked at; None if it can. `record` is its record."""
    if not workdir.exists():
        away = None if record is None else unmounted(record)
        return away or "there is no such directory"
    if not workdir.is_dir():
        return "it is not a directory"
    if not os.access(workdir, os.R_OK | os.X_OK):
        return "it cannot be read: check its permissions"
    return None


def relative(workdir: Path, path: str) -> bytes:
    """Return a path relative to the project; raises `UsageError` for a path outside.

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


def refused(workdir: Path, layout: Layout, user_home: Path | None) -> str | None:
    """Return why no checkpoint is taken of a resolved directory; None if it may be taken."""
    if workdir == workdir.parent:
        return "it is the root of the file system"
    why = _holds_a_home(workdir, user_home) or _meets_the_store(workdir, layout)
    if why is None and _is_system(workdir):
        return "it is a system folder"
    return why or in_a_home(workdir)


def in_a_home(workdir: Path) -> str | None:
    """Return whose home a directory is or lies in, as a reason to refuse it; None if it is in none.

    A repository inside a home is a project: some agents keep their worktrees and plugins there.
    """
    for place in (workdir, *workdir.parents):
        if place in _BROAD:
            return None  # no agent has its home there, nor above
        home = home_at(bytes(place))
        if home is not None:
            return f"it is {home}" if place == workdir else f"it lies in {home}: {place}"
        if os.path.lexists(f"{place}/.git"):
            return None
    return None


def _is_system(workdir: Path) -> bool:
    if _SHARED_MEMORY in workdir.parents:
        return False
    return workdir in _BROAD or any(workdir.is_relative_to(place) for place in _KERNEL)


def _holds_a_home(workdir: Path, user_home: Path | None) -> str | None:
    if user_home is None:
        return None
    home = Path(os.path.realpath(user_home))
    if workdir == home:
        return "it is your home directory"
    return "it contains your home directory" if home.is_relative_to(workdir) else None


def _meets_the_store(workdir: Path, layout: Layout) -> str | None:
    store = Path(os.path.realpath(layout.folder))
    if workdir.is_relative_to(store):
        return "it is part of the checkpoint store"
    return "it contains the checkpoint store" if store.is_relative_to(workdir) else None


# --- Runs -----------------------------------------------------------------------------------------
#
# A run holds the checkpoint that it started from with a locked file, named after the checkpoint and
# the session. While it is locked, nothing removes the checkpoint. After the run, rotation still
# spares the checkpoint until the next run in that project: neither the checkpoints taken during the
# run nor the next one may push out the way back.


@contextlib.contextmanager
def held_by_run(layout: Layout, checkpoint: Checkpoint, session: str) -> Iterator[None]:
    """Hold a checkpoint for a run; raises `UnknownCheckpointError` if it is already gone."""
    folder = layout.private(checkpoint.project) / _RUNS
    path = folder / f"{checkpoint.id}.{session}"
    with contextlib.ExitStack() as stack:
        with used(layout), project_lock(layout, checkpoint.project, checkpoint.workdir):
            there = {ref.checkpoint for ref in project_refs(layout, checkpoint.project)}
            if checkpoint.id not in there:
                raise UnknownCheckpointError(f"Checkpoint {checkpoint.id} was removed.")
            with storage_errors(f"write {path}"):
                make_private_dir(folder)
            stack.enter_context(lock.exclusive(path, holder="run", wait=0.0, inherited=False))
            for name in _names(folder):
                if name != path.name and not lock.is_held(folder / name):
                    with contextlib.suppress(OSError):
                        (folder / name).unlink()
        yield


def kept_for_runs(private: Path) -> frozenset[str]:
    """Return the checkpoints of a project from before runs in progress and the last run."""
    return frozenset(_held_in(name) for name in _names(private / _RUNS))


def under_a_run(private: Path) -> frozenset[str]:
    """Return the checkpoints of a project from before the runs in progress."""
    folder = private / _RUNS
    return frozenset(_held_in(name) for name in _names(folder) if lock.is_held(folder / name))


def _held_in(name: str) -> str:
    return name.partition(".")[0]


def _names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:
        return []

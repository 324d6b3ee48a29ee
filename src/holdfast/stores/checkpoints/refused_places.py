"""Places that no checkpoint captures: the system's, a whole home directory, the store itself."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.stores.checkpoints.repository import Layout

_UNIX = (
    "bin boot etc home lib lib32 lib64 media mnt opt private private/etc private/tmp private/var"
    " root run sbin snap srv tmp usr usr/bin usr/lib usr/local usr/sbin usr/share var var/lib"
    " var/log var/tmp"
)


_MACOS = "Applications Library System Users Volumes"
_BROAD = frozenset(Path("/", name) for names in (_UNIX, _MACOS) for name in names.split())
#: Folders of the kernel: they hold no files that could be restored.
_KERNEL = tuple(Path(name) for name in ("/dev", "/proc", "/sys"))
#: Memory that looks like a disk; folders in it may have checkpoints.
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - a name to compare with


def refused(workdir: Path, layout: Layout, user_home: Path | None) -> str | None:
    """Why no checkpoint is taken of a resolved directory; None if it may be taken."""
    if workdir == workdir.parent:
        return "it is the root of the file system"
    why = _holds_a_home(workdir, user_home) or _meets_the_store(workdir, layout)
    return "it is a folder of the system" if why is None and _is_system(workdir) else why


def _is_system(workdir: Path) -> bool:
    if _SHARED_MEMORY in workdir.parents:
        return False
    return workdir in _BROAD or any(workdir.is_relative_to(place) for place in _KERNEL)


def _holds_a_home(workdir: Path, user_home: Path | None) -> str | None:
    if user_home is None:
        return None
    home = Path(os.path.realpath(user_home))
    if workdir == home:
        return "it is the home directory"
    return "the home directory is in it" if home.is_relative_to(workdir) else None


def _meets_the_store(workdir: Path, layout: Layout) -> str | None:
    store = Path(os.path.realpath(layout.folder))
    if workdir.is_relative_to(store):
        return "it is part of the checkpoint store"
    return "the checkpoint store is in it" if store.is_relative_to(workdir) else None

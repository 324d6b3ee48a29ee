"""Free space of a disk."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.model.figures import DiskRoom


def disk_room(path: Path) -> DiskRoom | None:
    """The free space of the disk that holds a path; None if the system does not report it."""
    try:
        disk = os.statvfs(path)
    except (OSError, AttributeError):  # Windows has no such call
        return None
    return DiskRoom(free=disk.f_bavail * disk.f_frsize, size=disk.f_blocks * disk.f_frsize)

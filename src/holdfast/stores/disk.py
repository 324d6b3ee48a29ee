"""How much room a disk has."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.model.figures import DiskRoom


def disk_room(path: Path) -> DiskRoom | None:
    """The disk below a path; None where the system does not tell."""
    try:
        disk = os.statvfs(path)
    except (OSError, AttributeError):  # Windows has no such call
        return None
    return DiskRoom(free=disk.f_bavail * disk.f_frsize, size=disk.f_blocks * disk.f_frsize)

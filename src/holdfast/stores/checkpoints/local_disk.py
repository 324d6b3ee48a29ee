"""Which file systems only the kernel of this machine changes: it tells of every change of theirs,
and gives a directory a new time whenever a name in it comes or goes."""

from __future__ import annotations

import os

_LOCAL = (b"ext2", b"ext3", b"ext4", b"xfs", b"btrfs", b"tmpfs", b"f2fs", b"bcachefs", b"ramfs")
_MOUNTS = "/proc/self/mountinfo"


def mounts() -> bytes:
    """What is mounted; nothing where the system does not say."""
    try:
        with open(_MOUNTS, "rb") as file:  # noqa: PTH123 - every take reads it
            return file.read()
    except OSError:
        return b""


def is_local(mounted: bytes, device: int) -> bool:
    """Whether a device has such a file system. `mounted` is what `mounts` gives."""
    wanted = b" %d:%d " % (os.major(device), os.minor(device))
    for line in mounted.splitlines():
        # The first is before the path, which may contain anything but blanks.
        if wanted in line.partition(b"/")[0]:
            return line.partition(b" - ")[2].partition(b" ")[0] in _LOCAL
    return False

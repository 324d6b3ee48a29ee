"""Which folders are git worktrees of their own, where another agent may be working.

A linked worktree has a `.git` file that names its folder in the repository's `worktrees`. The
`.git` file of a submodule names a whole repository; a submodule's files are captured like others.
"""

from __future__ import annotations

import os
import stat

WORKTREE = "a git worktree of its own"

_GIT = b".git"
_GITDIR = b"gitdir:"
#: git writes no more than a path; whatever is longer is nothing that it wrote.
_LONGEST = 8_192
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_worktree(folder: bytes, *, inside: int | None = None) -> bool:
    """Whether a folder is a linked worktree; `inside` is a descriptor that its path begins at."""
    gitdir = _gitdir(folder + b"/" + _GIT if folder else _GIT, inside)
    if gitdir is None:
        return False
    place = gitdir if gitdir.startswith(b"/") else folder + b"/" + gitdir
    try:
        os.stat(place, dir_fd=inside)
    except OSError:
        return _reads_like_one(gitdir)  # the repository moved, or cannot be entered
    try:
        os.stat(place + b"/commondir", dir_fd=inside)
    except OSError:
        return False
    return True


def _gitdir(path: bytes, inside: int | None) -> bytes | None:
    """What a `.git` file names; None for anything else that has this name."""
    try:
        if not stat.S_ISREG(os.stat(path, dir_fd=inside, follow_symlinks=False).st_mode):
            return None
        fd = os.open(path, _READ, dir_fd=inside)
    except OSError:
        return None
    try:
        text = os.read(fd, _LONGEST) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    line = text.strip()
    return line[len(_GITDIR) :].strip() or None if line.startswith(_GITDIR) else None


def _reads_like_one(gitdir: bytes) -> bool:
    """`…/worktrees/NAME`; `…/modules/worktrees/NAME` is a submodule called `worktrees/NAME`."""
    parts = [part for part in gitdir.split(b"/") if part]
    return parts[-2:-1] == [b"worktrees"] and parts[-3:-2] != [b"modules"]

"""Watch a directory: which paths may have changed since the last call.

Events that were lost are reported as lost, and then the caller looks at the whole tree.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.errors import GitFailedError
from holdfast.model.checkpoint import ChangedPaths
from holdfast.stores import lock
from holdfast.stores.checkpoints.ignore_rules import Ignoring
from holdfast.stores.checkpoints.repository import Layout, project_of
from holdfast.stores.git.program import Git

if sys.platform == "linux":
    from holdfast.stores.checkpoints.watch_inotify import Inotify
elif sys.platform == "darwin":
    from holdfast.stores.checkpoints.watch_fsevents import FsEvents


class Following(Protocol):
    """A directory that is being followed. `blind` is why nothing more will be told, if so."""

    @property
    def blind(self) -> str: ...

    def wait(self, seconds: float) -> ChangedPaths:
        """What was told since the last call, after waiting for the first of it."""

    def close(self) -> None: ...


class Unfollowed:
    """A system without file events: the caller looks at the whole tree from time to time."""

    blind = "this system does not tell what changes"

    def wait(self, seconds: float) -> ChangedPaths:
        time.sleep(seconds)
        return ChangedPaths()

    def close(self) -> None:
        """There is nothing to close."""


@contextlib.contextmanager
def following(layout: Layout, workdir: Path) -> Iterator[Following]:
    """Be the one process that follows a directory; raises `BusyError` when another one does.

    It has a checkpoint already: rules and index of that say which directories do not matter.
    """
    folder = layout.private(project_of(workdir))
    # Its name does not end like those of git's locks: reclaiming clears these.
    with lock.exclusive(
        folder / "watching", holder="checkpoints watch", wait=0.0, doing="watching", place=workdir
    ):
        found = _follow(workdir, Git(store=layout.store, folder=folder, work_tree=workdir))
        try:
            yield found
        finally:
            found.close()


def ignored_directories(git: Git, directories: Sequence[str]) -> Collection[str]:
    """Directories that the rules leave out whole, and that hold no captured file."""
    if not directories:
        return ()
    by_name = {os.fsencode(each) + b"/": each for each in directories}
    try:
        with Ignoring(git) as rules:
            ignored = {by_name[name] for name in rules.ask(list(by_name))}
        captured = _captured_though_ignored(git) if ignored else ()
    except GitFailedError:  # a directory that went away meanwhile is enough; then all are watched
        return ()
    for path in captured:
        ignored.difference_update(_above(path))
    return ignored


def _captured_though_ignored(git: Git) -> Sequence[str]:
    said = git.run("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
    return [os.fsdecode(name) for name in said.output.split(b"\0") if name]


def _above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path


def _follow(workdir: Path, git: Git) -> Following:
    if sys.platform == "linux":
        return Inotify(workdir, lambda directories: ignored_directories(git, directories))
    elif sys.platform == "darwin":  # noqa: RET505 - mypy knows platforms in this form alone
        return FsEvents(workdir)
    else:
        return Unfollowed()

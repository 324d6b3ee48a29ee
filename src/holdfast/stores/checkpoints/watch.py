"""Watch a directory: which paths may have changed since the last call.

If events were lost, that is reported, and the caller looks at the whole tree.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from holdfast.errors import GitFailedError
from holdfast.model.checkpoint import ChangedPaths
from holdfast.stores import lock
from holdfast.stores.checkpoints.default_excludes import Ignoring
from holdfast.stores.checkpoints.repository import Layout, project_of
from holdfast.stores.checkpoints.restore_plan import above
from holdfast.stores.git.program import Git

if sys.platform == "linux":
    from holdfast.stores.checkpoints.watch_inotify import Inotify

_STEP_MS, _LONGEST_MS, _TICK_MS = 50, 500, 1_000


class Following(Protocol):
    """A directory that is being watched. `blind` is the reason if no more events will come."""

    @property
    def blind(self) -> str: ...

    def wait(self, seconds: float) -> ChangedPaths:
        """Return the changes since the last call; wait for the first one."""

    def close(self) -> None: ...


class Unfollowed:
    """A system without file events: the caller looks at the whole tree from time to time."""

    blind = "this system does not report changes of files"

    def wait(self, seconds: float) -> ChangedPaths:
        time.sleep(seconds)
        return ChangedPaths()

    def close(self) -> None:
        """Nothing to close."""


class FsEvents(Unfollowed):
    """FSEvents on macOS, through watchfiles. It may silently drop events, so each batch of events
    means a look at the whole tree."""

    blind = ""

    def __init__(self, workdir: Path) -> None:
        self._workdir = workdir
        self._batches = self._start()

    def _start(self) -> Iterator[set[Any]]:
        import watchfiles  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - macOS

        return iter(
            watchfiles.watch(
                self._workdir,
                watch_filter=None,
                step=_STEP_MS,
                debounce=_LONGEST_MS,
                rust_timeout=_TICK_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
            )
        )

    def wait(self, seconds: float) -> ChangedPaths:
        try:
            changed = bool(next(self._batches))
        except StopIteration:  # it saw a signal before we did
            self._batches, changed = self._start(), False
        except RuntimeError:  # a name that is not UTF-8, or a broken watcher
            self._batches, changed = self._start(), True
        return ChangedPaths(lost="something changed") if changed else ChangedPaths()


@contextlib.contextmanager
def following(
    layout: Layout, workdir: Path, *, holder: str = "checkpoints watch"
) -> Iterator[Following]:
    """Watch a directory as the only process; raises `BusyError` if another one does. `holder` is
    the command that other processes are shown.

    The directory has a checkpoint, whose rules and index show which directories do not matter.
    """
    folder = layout.private(project_of(workdir))
    # The name does not end in `.lock`: reclaiming removes such files.
    with lock.exclusive(
        folder / "watching", holder=holder, wait=0.0, doing="watching", place=workdir
    ):
        found = _follow(workdir, Git(store=layout.store, folder=folder, work_tree=workdir))
        try:
            yield found
        finally:
            found.close()


def ignored_directories(git: Git, directories: Sequence[str]) -> Collection[str]:
    """Return the directories that the rules ignore as a whole, and without captured files."""
    if not directories:
        return ()
    by_name = {os.fsencode(each) + b"/": each for each in directories}
    try:
        with Ignoring(git) as rules:
            ignored = {by_name[name] for name in rules.ask(list(by_name))}
        captured = _captured_though_ignored(git) if ignored else ()
    except GitFailedError:  # for example, a directory is gone; then watch them all
        return ()
    for path in captured:
        ignored.difference_update(above(path))
    return ignored


def _captured_though_ignored(git: Git) -> Sequence[str]:
    said = git.run("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
    return [os.fsdecode(name) for name in said.output.split(b"\0") if name]


def _follow(workdir: Path, git: Git) -> Following:
    if sys.platform == "linux":
        return Inotify(workdir, lambda directories: ignored_directories(git, directories))
    elif sys.platform == "darwin":  # noqa: RET505 - mypy checks platforms only in this form
        return FsEvents(workdir)
    else:
        return Unfollowed()

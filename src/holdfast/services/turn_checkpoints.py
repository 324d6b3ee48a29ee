"""For an agent to embed: takes a checkpoint before the first change in each directory of a turn.

Nothing here raises into the agent: errors are logged, and are part of the return value.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.model.argument_checks import made_by
from holdfast.model.arguments import StrPath, expanded, flag, paths_of, real
from holdfast.model.checkpoint import TakeOutcome, Taking, cut_words
from holdfast.model.session import SessionRef, id_of
from holdfast.policy.project_root import project_root
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.ports.runs import Clock
from holdfast.value import dataclass, field

_log = logging.getLogger("holdfast")

OFF = "checkpoints are off"
_THERE = "this turn already has a checkpoint here"
_REASON = "before a change"


@dataclass(slots=True)
class _Directory:
    """The checkpoint of this turn in one directory. The lock is held while it is taken: no change
    may begin before it exists."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    taking: Taking | None = None
    whole: bool = False
    paths: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Turn:
    name: str
    directories: dict[Path, _Directory] = field(default_factory=dict)


@made_by("`home.checkpoints.recorder()`, or with `open_recorder(home)`")
class Recorder:
    """Takes checkpoints for an agent. Safe to use from several threads.

    `session` is the session that the agent works in, or its id. `workdirs` are one or several
    directories that the agent works in: a file in one of them belongs to it. For any other file,
    the project is found by its version control folder or project file. An argument that could
    never work raises `UsageError` here, because nothing raises later.
    """

    def __init__(
        self,
        store: CheckpointStore,
        *,
        clock: Clock,
        session: SessionRef | None = None,
        workdirs: StrPath | Iterable[StrPath] = (),
        enabled: bool = True,
    ) -> None:
        self.store = store
        self._clock = clock
        self._session = None if session is None else id_of(session, "The session of a recorder")
        self._workdirs = tuple(map(real, paths_of(workdirs, "The workdirs of a recorder")))
        self._enabled = flag(enabled, "`enabled` of a recorder")
        self._told_off = False
        self._lock = threading.Lock()
        self._turns = 0
        self._turn = _Turn(name="0")

    def new_turn(self, turn: str | int | None = None) -> None:
        """Begin a turn: the next change in each directory gets a checkpoint again. Without a name
        or number, turns are counted."""
        with self._lock:
            self._turns += 1
            self._turn = _Turn(name=str(self._turns if turn in (None, "") else turn))

    def before_change(
        self,
        place: StrPath,
        paths: StrPath | Iterable[StrPath] | None = None,
        reason: str | None = None,
    ) -> Taking:
        """Call this before a file is written, or a program is run that may write files.

        `place` is the file or a directory. If you know all paths that are about to change, pass
        them as `paths`, one or several, absolute or relative to the project: only those are read.
        """
        if not self._enabled:
            if not self._told_off:
                self._told_off = True
                _log.warning("No checkpoint before a change of %s: %s", place, OFF)
            return _skipped(OFF)
        try:
            [changed] = paths_of([place], "`place`")
            named = None if paths is None else paths_of(paths, "`paths`")
            return self._ensure(expanded(changed).absolute(), named, reason or _REASON)
        except HoldfastError as error:
            _log.warning("No checkpoint before a change of %s: %s", place, error.message)
            return _skipped(error.message)
        except Exception as error:  # noqa: BLE001 - law 7: harmless in the host
            _log.warning("No checkpoint before a change of %s", place, exc_info=True)
            return _skipped(f"{type(error).__name__}: {error}")

    def _ensure(self, place: Path, paths: Sequence[str] | None, reason: str) -> Taking:
        directory = directory_of(place)
        root = project_root(directory, exists=os.path.lexists, known=self._workdirs)
        taking = self._once(root, paths, reason)
        if taking.outcome is not TakeOutcome.SKIPPED or root == directory:
            return taking
        # The root that looked like a project was refused as too broad: use the directory itself.
        return self._once(directory, None, reason)

    def _once(self, root: Path, paths: Sequence[str] | None, reason: str) -> Taking:
        with self._lock:
            turn = self._turn
            done = turn.directories.setdefault(root, _Directory())
        with done.lock:
            new = None if paths is None else sorted(set(paths) - done.paths)
            if done.taking is not None and (_is_settled(done) or new == []):
                return _again(done.taking)
            # Even after a failure: a second take would capture what the agent has changed by now.
            done.whole = done.whole or new is None
            done.paths.update(new or ())
            done.taking = self._take(root, new, reason, turn.name)
            return done.taking

    def _take(self, root: Path, paths: Sequence[str] | None, reason: str, turn: str) -> Taking:
        try:
            taking = self.store.take(
                root,
                reason=reason,
                now=self._clock(),
                session=self._session,
                turn=turn,
                paths=paths,
            )
        except HoldfastError as error:
            hint = "" if error.hint is None else f" {error.hint}"
            taking = _skipped(f"{error.message}{hint}")
        if taking.outcome is TakeOutcome.SKIPPED:
            _log.warning("No checkpoint of %s: %s", root, taking.reason)
        if taking.cut_restore is not None:
            _log.warning("%s", cut_words(taking.cut_restore, str(root)))
        for left in taking.not_captured:
            _log.debug("Not captured in %s: %s: %s", root, left.path, left.reason)
        return taking


def _is_settled(done: _Directory) -> bool:
    return done.whole or (done.taking is not None and done.taking.outcome is TakeOutcome.SKIPPED)


def _again(taking: Taking) -> Taking:
    if taking.outcome is TakeOutcome.SKIPPED:
        return taking
    return Taking(
        outcome=TakeOutcome.UNCHANGED,
        id=taking.id,
        reason=_THERE,
        not_captured=taking.not_captured,
    )


def directory_of(place: Path) -> Path:
    """The directory of a change: the nearest one that exists, with symlinks resolved."""
    directory = place
    while not directory.is_dir() and directory != directory.parent:
        directory = directory.parent
    return Path(os.path.realpath(directory))


def _skipped(reason: str) -> Taking:
    return Taking(outcome=TakeOutcome.SKIPPED, id=None, reason=reason)

"""Taking checkpoints: only the code that a hook needs before every change."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.api.place import Place, find_home
from holdfast.errors import UsageError
from holdfast.homes.checkpoints.open_store import checkpoint_store, checkpoint_writer
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import (
    StrPath,
    expanded,
    is_path,
    paths_of,
    shown,
    text,
)
from holdfast.model.checkpoint import Capturing, Excluded, Taking
from holdfast.value import replace

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:  # a hook that takes a checkpoint should import little
    from holdfast.model.session import SessionRef
    from holdfast.ports.runs import Clock
    from holdfast.services.turn_checkpoints import Recorder
    from holdfast.stores.checkpoints.store import ShadowGitStore
    from holdfast.stores.checkpoints.writer import CheckpointWriter

BY_HAND = "by hand"


@checked
class Capture:
    """Takes checkpoints into a home; the first one creates the home.

    `here` is the current directory of a person; a library has none. `user_home` is a place that is
    too broad for a checkpoint: by default, the home directory of the current user. Without
    `configured` the defaults apply, whatever config.toml says, and nothing makes room: a
    configuration that cannot be read may allow more than the default bounds.
    """

    def __init__(
        self,
        place: Place,
        *,
        here: Path | None = None,
        user_home: StrPath | None = None,
        configured: bool = True,
    ) -> None:
        self._place = place
        self._configured = configured
        self._here = here
        self._user_home = user_home

    @property
    def root(self) -> Path:
        """The home that the checkpoints are in."""
        return self._place.root

    def take(
        self,
        path: StrPath,
        *,
        reason: str = BY_HAND,
        session: SessionRef | None = None,
        turn: str | int | None = None,
        paths: StrPath | Iterable[StrPath] | None = None,
        hash_all: bool = False,
    ) -> Taking:
        """Capture a directory as it is now, if it changed since its last checkpoint.

        With `paths`, one or several, only these and everything below them are looked at. `session`
        is a session or its id. `hash_all` reads every file, whatever its mtime is. The checkpoint
        belongs to exactly this directory; `project_root` returns the project of a file.
        """
        workdir = self._to_capture(path)
        name = str(turn) if type(turn) is int else turn  # agents count their turns
        texts = {"A reason": reason, "A session": session_id(session), "A turn": name or ""}
        reason, belongs_to, turn_name = (text(value, what).strip() for what, value in texts.items())
        within = self.inside(workdir, () if paths is None else paths) or None
        whole = workdir if within is None else None
        writer = self.writer(hash_all=hash_all, create=False, looking_at=whole)
        if not writer.layout.store.parent.exists():  # a refused checkpoint creates no home
            if (refusal := writer.refusal(workdir)) is not None:
                return refusal
            writer = self.writer(hash_all=hash_all)
        return writer.take(
            workdir,
            reason=reason,
            now=self._place.clock(),
            session=belongs_to or None,
            turn=turn_name or None,
            paths=within,
        )

    def foresee(
        self,
        path: StrPath,
        *,
        paths: StrPath | Iterable[StrPath] | None = None,
        hash_all: bool = False,
    ) -> Taking:
        """What `take` would do now. Nothing is captured, and no store is created for it."""
        from holdfast.stores.checkpoints.store import foresee  # noqa: PLC0415 - no take needs it

        workdir = self._to_capture(path)
        within = self.inside(workdir, () if paths is None else paths) or None
        return foresee(self.own_store(hash_all=hash_all, create=False), workdir, paths=within)

    def recorder(
        self,
        *,
        session: SessionRef | None = None,
        workdirs: StrPath | Iterable[StrPath] = (),
        enabled: bool | None = None,
        hash_all: bool = False,
    ) -> Recorder:
        """What an agent calls before it changes a file: one checkpoint per turn and directory.

        It is on, unless config.toml has `enabled = false` or you pass that. A recorder that is off
        logs that once, and every `before_change` returns why it was skipped. It never raises into
        the agent, so an argument that cannot work raises `UsageError` here.
        """
        if enabled is None:
            settings = self._place.settings
            enabled = settings.checkpoints.enabled or not settings.is_in_file(
                "checkpoints", "enabled"
            )
        from holdfast.services.turn_checkpoints import Recorder  # noqa: PLC0415 - loads logging, threads

        return Recorder(
            self.own_store(hash_all=hash_all),
            clock=self._place.clock,
            session=session,
            workdirs=workdirs,
            enabled=enabled,
        )

    def project_root(self, path: StrPath) -> Path:
        """The directory that `recorder().before_change(path)` takes a checkpoint of: the nearest
        directory above the path that looks like a project, for example because of `.git`; else the
        directory itself."""
        from holdfast.policy.project_root import project_root  # noqa: PLC0415 - no take needs it
        from holdfast.services.turn_checkpoints import directory_of  # noqa: PLC0415 - as in `recorder`

        if not is_path(path):
            raise UsageError(f"A path must be a string or a Path, not {shown(path)}.")
        return project_root(directory_of(expanded(path).absolute()), exists=os.path.lexists)

    def excluded(self, path: StrPath) -> Sequence[Excluded]:
        """What checkpoints of a directory leave out by default, each path with the rule."""
        return self.own_store(create=False).excluded(directory(path))

    def capturing(self, *, hash_all: bool = False) -> Capturing:
        """What checkpoints capture, by the configuration."""
        configured = self._place.capturing() if self._configured else Capturing()
        return replace(
            configured,
            user_home=expanded(self._user_home or "~"),
            here=self._here,
            hash_all=hash_all or configured.hash_all,
        )

    def writer(
        self, *, hash_all: bool = False, create: bool = True, looking_at: Path | None = None
    ) -> CheckpointWriter:
        """The part of the store that takes checkpoints, which loads less than the whole. Without
        `create` no home is made for it. `looking_at` is the directory of the next checkpoint."""
        how = self.capturing(hash_all=hash_all)  # first, to report wrong settings
        state = self._place.create_state() if create else self._place.state.resolve()
        home = self._place.root.resolve()
        return checkpoint_writer(state, how, home=home, looking_at=looking_at)

    def own_store(self, *, hash_all: bool = False, create: bool = True) -> ShadowGitStore:
        """The store that Holdfast takes checkpoints into. In the home of another agent it is
        in our folder there. Without `create` nothing is made."""
        how = self.capturing(hash_all=hash_all)
        state = self._place.create_state() if create else self._place.state.resolve()
        return checkpoint_store(state, how, home=self._place.root.resolve())

    def _to_capture(self, path: StrPath) -> Path:
        """The directory of a take. A command reports one that does not exist like every other of
        which it takes no checkpoint."""
        return directory(path)

    def inside(self, workdir: Path, paths: StrPath | Iterable[StrPath]) -> tuple[str, ...]:
        """One path or several as a checkpoint has them: relative to its directory.

        A relative path begins at the project; for a person inside the project, at the current
        directory, as with git.
        """
        here = self._here
        start = here if here is not None and here.is_relative_to(workdir) else workdir
        return tuple(_inside(workdir, start, path) for path in paths_of(paths, "`paths`"))


@checked
def open_recorder(
    home: StrPath,
    *,
    session: SessionRef | None = None,
    workdirs: StrPath | Iterable[StrPath] = (),
    enabled: bool | None = None,
    hash_all: bool = False,
    user_home: StrPath | None = None,
    clock: Clock | None = None,
) -> Recorder:
    """The recorder of a home alone, for an agent that needs nothing else of it. `home` is a path or
    the name of an agent, as in `holdfast.open`; the home is created if it does not exist. See
    `Capture.recorder`."""
    place = Place(find_home(home), clock=clock)
    return Capture(place, user_home=user_home).recorder(
        session=session, workdirs=workdirs, enabled=enabled, hash_all=hash_all
    )


def directory(path: object) -> Path:
    """Check a working directory and return it with links resolved."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError(
            "The directory name is empty." if path == "" else f"{path!r} is not a directory."
        )
    try:
        return expanded(path).resolve()
    except (RuntimeError, OSError, ValueError) as error:
        raise UsageError(f"Cannot resolve {os.fspath(path)}: {error}.") from None


def session_id(session: SessionRef | None) -> str:
    """Return the id of the session that a checkpoint belongs to, or ""."""
    if session is None or isinstance(session, str):
        return session or ""
    from holdfast.model.session import id_of  # noqa: PLC0415 - commands pass an id and do not need this

    return id_of(session, "The session of a checkpoint")


def _inside(workdir: Path, start: Path, path: str) -> str:
    # Compared lexically: a symlink in the project is content and must not be followed.
    found = os.path.relpath(os.path.normpath(start / expanded(path)), workdir)
    if not path or found == os.pardir or found.startswith(f"{os.pardir}{os.sep}"):
        raise UsageError(
            f"{path!r} is not in {workdir}." if path else "A path cannot be empty.",
            hint="Name only paths inside the project.",
        )
    return "" if found == os.curdir else found

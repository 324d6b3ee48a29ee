"""What the commands about checkpoints share: their store, directories and paths."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.invocation import Invocation, quoted
from holdfast.errors import UnknownCheckpointError, UsageError
from holdfast.model.checkpoint import SHORTEST_PREFIX

if TYPE_CHECKING:
    from holdfast.config import Settings
    from holdfast.model.checkpoint import Capturing, Checkpoint
    from holdfast.ports import CheckpointStore, Home
    from holdfast.stores.checkpoints.store import ShadowGitStore
    from holdfast.stores.checkpoints.writer import CheckpointWriter

_CLOSE = 0.7
_Function = Callable[..., Any]
_LOOKS_LIKE_AN_ID = re.compile(r"[0-9a-f]{4,40}", re.IGNORECASE)

directory_argument = click.argument("directory", metavar="[DIR]", required=False, type=click.Path())
id_argument = click.argument("checkpoint", metavar="ID")


def paths_argument(function: _Function) -> _Function:
    return click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())(function)


def hash_option(function: _Function) -> _Function:
    return click.option(
        "--hash",
        "hash_all",
        is_flag=True,
        help="Read every file, even where size and times say that nothing changed.",
    )(function)


def resolved(directory: str | None) -> Path:
    """The working directory that was named: by default, the current one."""
    if directory == "":
        raise UsageError("The directory is an empty name.")
    try:
        return (Path.cwd() if directory is None else Path(directory)).resolve()
    except FileNotFoundError:
        raise UsageError("The current directory is gone.", hint="Name another one.") from None
    except (RuntimeError, OSError) as error:
        raise UsageError(f"{directory} leads nowhere: {error}.") from None


def opened(
    invocation: Invocation, *, hash_all: bool = False
) -> tuple[Home, Settings, CheckpointStore | None]:
    """The chosen home with its settings and its checkpoint store, if it has one."""
    home, settings = invocation.open_home()
    how = _capturing(invocation, settings, hash_all=hash_all)
    return home, settings, home.checkpoint_store(how)


def store_of(invocation: Invocation) -> CheckpointStore | None:
    """The checkpoint store of the chosen home; None when it has none. Creates nothing."""
    return opened(invocation)[2]


def checkpoints_in(home: Home) -> Sequence[Checkpoint]:
    """All checkpoints of a home, the newest first; none when it has no store."""
    store = home.checkpoint_store()
    return () if store is None else store.list()


def project_names(home: Home) -> dict[str, str]:
    """The directories of the projects of a home, by their ids."""
    store = home.checkpoint_store()
    return {} if store is None else {each.id: each.workdir for each in store.projects()}


def create_store(invocation: Invocation, *, create: bool = True) -> ShadowGitStore:
    """The store that Holdfast takes checkpoints into. Home and store are made when there are none;
    with `create=False` nothing is made, for a command that only looks.

    In the home of another agent it lies in the folder there that is ours.
    """
    from holdfast.homes.checkpoints import checkpoint_store
    from holdfast.homes.registry import create_state, state_folder

    state = (create_state if create else state_folder)(invocation.home_path).resolve()
    return checkpoint_store(state, _how(invocation), home=invocation.home_path.resolve())


def create_writer(invocation: Invocation, *, hash_all: bool = False) -> CheckpointWriter:
    """The part of that store which takes checkpoints."""
    from holdfast.homes.checkpoints import checkpoint_writer
    from holdfast.homes.registry import create_state

    state = create_state(invocation.home_path).resolve()
    how = _how(invocation, hash_all=hash_all)
    return checkpoint_writer(state, how, home=invocation.home_path.resolve())


def _how(invocation: Invocation, *, hash_all: bool = False) -> Capturing:
    return _capturing(invocation, invocation.settings(invocation.home_path), hash_all=hash_all)


def _capturing(invocation: Invocation, settings: Settings, *, hash_all: bool) -> Capturing:
    from holdfast.model.checkpoint import Capturing

    return Capturing(
        user_home=invocation.user_home,
        max_file_size=settings.checkpoints.max_file_bytes,
        max_snapshots=settings.checkpoints.max_snapshots,
        max_bytes=settings.checkpoints.max_bytes,
        excludes=settings.checkpoints.exclude,
        here=_here(),
        hash_all=hash_all or settings.checkpoints.hash_all,
    )


def _here() -> Path | None:
    try:
        return Path.cwd().resolve()
    except OSError:
        return None


def need_store(invocation: Invocation, *, hash_all: bool = False) -> CheckpointStore:
    """The checkpoint store of the chosen home, for commands that name a checkpoint in it."""
    return need_home(invocation, hash_all=hash_all)[1]


def need_home(invocation: Invocation, *, hash_all: bool = False) -> tuple[Home, CheckpointStore]:
    """The same with the home, for commands that leave a trace in its log."""
    home, _, store = opened(invocation, hash_all=hash_all)
    if store is None:
        raise UsageError(
            f"{invocation.home_path} has no checkpoints yet.",
            hint=f"Take one with `holdfast {invocation.home_flag}checkpoints take`.",
        )
    return home, store


def within(checkpoint: Checkpoint, paths: Sequence[str]) -> tuple[str, ...]:
    """Paths as a checkpoint has them: relative to its directory, wherever we are now.

    Inside the project they are meant relative to the current directory, as git takes them.
    """
    workdir = Path(checkpoint.workdir)
    return tuple(_within(workdir, _start(workdir), path) for path in paths)


def in_directory(workdir: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """The same for a directory that may have no checkpoint yet."""
    return tuple(_within(workdir, _start(workdir), path) for path in paths)


def _start(workdir: Path) -> Path:
    here = _here()
    return here if here is not None and here.is_relative_to(workdir) else workdir


def _within(workdir: Path, start: Path, path: str) -> str:
    # By its words alone: a symlink in the project is content, and not to be followed here.
    found = os.path.relpath(os.path.normpath(start / path), workdir)
    if not path or found == os.pardir or found.startswith(f"{os.pardir}{os.sep}"):
        raise UsageError(
            f"{path!r} is not in {workdir}." if path else "A path is an empty name.",
            hint="Name paths inside the project only.",
        )
    return "" if found == os.curdir else found


def chosen(store: CheckpointStore, text: str) -> Checkpoint:
    """The checkpoint that an id or the start of one names; a mistyped one gets its neighbour.

    The store brings in a checkpoint of an older layout under a new id.
    """
    wanted = text.lower()
    try:
        found = store.get(wanted)
    except UnknownCheckpointError as error:
        starts = {each.id[: max(len(wanted), SHORTEST_PREFIX)] for each in store.list()}
        near = get_close_matches(wanted, starts, n=1, cutoff=_CLOSE)
        if not near or near[0].startswith(wanted):
            raise
        hint = f"Did you mean {near[0]}? {error.hint or ''}".rstrip()
        raise UnknownCheckpointError(error.message, hint=hint) from None
    if not found.id.startswith(wanted):
        from holdfast.cli.output import note

        note(f"note: {wanted[:12]} is of an older layout; here it is checkpoint {found.id[:12]}")
    return found


def newest_here(store: CheckpointStore) -> Checkpoint:
    """The newest checkpoint of the project that the current directory is in."""
    here = resolved(None)
    for place in (here, *here.parents):
        found = store.list(place)
        if found:
            return found[0]
    raise UnknownCheckpointError(
        f"There is no checkpoint of {here} yet.",
        hint="Take one with `holdfast checkpoints take`, or name the id of another.",
    )


def second_id(
    store: CheckpointStore, paths: Sequence[str]
) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """Of what follows the first id: another one, if it is one, and the paths."""
    if paths and _LOOKS_LIKE_AN_ID.fullmatch(paths[0]):
        try:
            return chosen(store, paths[0]), tuple(paths[1:])
        except UnknownCheckpointError:
            if not Path(paths[0]).exists():
                raise
    return None, tuple(paths)


def take_command(invocation: Invocation, directory: str | None) -> str:
    """The command that takes a checkpoint, to be suggested."""
    place = "" if directory is None else f" {quoted(Path(directory))}"
    return f"holdfast {invocation.home_flag}checkpoints take{place}"

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
    from holdfast.model.checkpoint import Checkpoint
    from holdfast.ports import Home
    from holdfast.stores.shadowgit.store import ShadowGitStore

_CLOSE = 0.7
_Function = Callable[..., Any]
_LOOKS_LIKE_AN_ID = re.compile(r"[0-9a-f]{4,40}", re.IGNORECASE)

directory_argument = click.argument("directory", metavar="[DIR]", required=False, type=click.Path())
id_argument = click.argument("checkpoint", metavar="ID")


def paths_argument(function: _Function) -> _Function:
    return click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())(function)


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


def opened(invocation: Invocation) -> tuple[Home, Settings, ShadowGitStore | None]:
    """The chosen home with its settings and its checkpoint store, if it has one."""
    home, settings = invocation.open_home()
    if not home.has_checkpoints():
        return home, settings, None
    store = _store(invocation, home.root, settings)
    there = store.layout.exists() or older_checkpoints(store, None)
    return home, settings, store if there else None


def store_of(invocation: Invocation) -> ShadowGitStore | None:
    """The checkpoint store of the chosen home; None when it has none. Creates nothing."""
    return opened(invocation)[2]


def checkpoints_in(root: Path) -> Sequence[Checkpoint]:
    """All checkpoints of a home, the newest first; none when it has no store."""
    from holdfast.homes.checkpoints import existing_store

    store = existing_store(root.resolve())
    return () if store is None else store.list()


def project_names(root: Path) -> dict[str, str]:
    """The directories of the projects of a home, by their ids."""
    from holdfast.homes.checkpoints import existing_store

    store = existing_store(root)
    return {} if store is None else {each.id: each.workdir for each in store.projects()}


def create_store(invocation: Invocation) -> ShadowGitStore:
    """The same; home and store are made when there are none."""
    from holdfast.homes.registry import create_home

    create_home(invocation.home_path)
    root = invocation.home_path.resolve()
    return _store(invocation, root, invocation.settings(root))


def _store(invocation: Invocation, root: Path, settings: Settings) -> ShadowGitStore:
    from holdfast.homes.checkpoints import checkpoint_store

    return checkpoint_store(
        root,
        user_home=invocation.user_home,
        max_file_size=settings.checkpoints.max_file_bytes,
        max_snapshots=settings.checkpoints.max_snapshots,
        excludes=settings.checkpoints.exclude,
    )


def need_store(invocation: Invocation) -> ShadowGitStore:
    """The checkpoint store of the chosen home, for commands that name a checkpoint in it."""
    return need_home(invocation)[1]


def need_home(invocation: Invocation) -> tuple[Home, ShadowGitStore]:
    """The same with the home, for commands that leave a trace in its log."""
    home, _, store = opened(invocation)
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
    try:
        here = Path.cwd().resolve()
    except OSError:
        return workdir
    return here if here.is_relative_to(workdir) else workdir


def _within(workdir: Path, start: Path, path: str) -> str:
    # By its words alone: a symlink in the project is content, and not to be followed here.
    found = os.path.relpath(os.path.normpath(start / path), workdir)
    if not path or found == os.pardir or found.startswith(f"{os.pardir}{os.sep}"):
        raise UsageError(
            f"{path!r} is not in {workdir}." if path else "A path is an empty name.",
            hint="Name paths inside the project only.",
        )
    return "" if found == os.curdir else found


def older_checkpoints(store: ShadowGitStore, workdir: Path | None) -> Sequence[Checkpoint]:
    """Those of an older layout, of one directory or of all, the newest first."""
    from holdfast.stores.shadowgit.legacy import LegacyShelf

    return LegacyShelf.of(store.layout, None if workdir is None else str(workdir)).list()


def chosen(store: ShadowGitStore, text: str) -> Checkpoint:
    """The checkpoint that an id or the start of one names; a mistyped one gets its neighbour.

    One of an older layout is brought into the store: there it can be compared and restored.
    """
    wanted = text.lower()
    try:
        return store.get(wanted)
    except UnknownCheckpointError as error:
        older = _adopted(store, wanted)
        if older is not None:
            return older
        starts = {each.id[: max(len(wanted), SHORTEST_PREFIX)] for each in store.list()}
        near = get_close_matches(wanted, starts, n=1, cutoff=_CLOSE)
        if not near or near[0].startswith(wanted):
            raise
        hint = f"Did you mean {near[0]}? {error.hint or ''}".rstrip()
        raise UnknownCheckpointError(error.message, hint=hint) from None


def _adopted(store: ShadowGitStore, prefix: str) -> Checkpoint | None:
    from holdfast.cli.output import note
    from holdfast.stores.shadowgit.adopting import adopt, find
    from holdfast.stores.shadowgit.repository import prepare

    try:
        repository, old = find(store.layout, prefix)
    except UnknownCheckpointError:
        return None
    if not Path(old.workdir).is_absolute():
        raise UsageError(
            f"The older repository {repository.path} does not say which directory it is about.",
            hint="git can read it: `git --git-dir PATH log --stat`.",
        )
    prepare(store.layout)
    present = store.look(Path(old.workdir)) if Path(old.workdir).is_dir() else None
    found = adopt(store.layout, repository, old, present)
    note(f"note: {old.id[:12]} is of an older layout; here it is checkpoint {found.id[:12]}")
    return found


def second_id(
    store: ShadowGitStore, paths: Sequence[str]
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

"""The arguments that commands about checkpoints share, and how they are resolved."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.completing import checkpoint_ids, session_ids
from holdfast.cli.invocation import Invocation, quoted, resolved
from holdfast.cli.output import note
from holdfast.cli.take import is_refused
from holdfast.errors import HoldfastError, UnknownCheckpointError

if TYPE_CHECKING:
    from holdfast.api.checkpoints import Checkpoints
    from holdfast.model.checkpoint import Checkpoint


_LOOKS_LIKE_AN_ID = re.compile(r"[0-9a-f]{4,40}", re.IGNORECASE)

directory_argument = click.argument("directory", metavar="[DIR]", required=False, type=click.Path())
id_argument = click.argument("checkpoint", metavar="ID", shell_complete=checkpoint_ids)
ids_argument = click.argument(
    "ids", nargs=-1, required=True, metavar="ID...", shell_complete=checkpoint_ids
)


session_option = click.option(
    "--session",
    metavar="ID",
    shell_complete=session_ids,
    help="Only checkpoints of this session; without a directory, in all projects.",
)
paths_argument = click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
hash_option = click.option(
    "--hash",
    "hash_all",
    is_flag=True,
    help="Read every file, even if its size and times are unchanged.",
)


def chosen(checkpoints: Checkpoints, text: str) -> Checkpoint:
    """The checkpoint for an id or a prefix of one."""
    found = checkpoints.get(text)
    if not found.id.startswith(text.lower()):
        known = text.lower()[:12]
        note(f"note: {known} comes from an older layout; here it is checkpoint {found.id[:12]}")
    return found


def first_id(checkpoints: Checkpoints, words: Sequence[str]) -> tuple[Checkpoint, tuple[str, ...]]:
    """The checkpoint for the first word, and the remaining words. If the first word is a path, or
    there are no words, the newest checkpoint of that place."""
    if not words:
        return checkpoints.newest(resolved(None)), ()
    try:
        return chosen(checkpoints, words[0]), tuple(words[1:])
    except UnknownCheckpointError as unknown:
        if not words[0]:
            raise
        path = Path(words[0])
        if os.path.lexists(path):
            is_place = path.is_dir() and not path.is_symlink()
            newest = checkpoints.newest(path if is_place else path.parent)
            # Absolute, because the project may be elsewhere.
            return newest, tuple(str(path.absolute()) for path in map(Path, words))
        # The path may be of a deleted file that is in a checkpoint; otherwise the diff will report
        # it.
        try:
            newest = checkpoints.newest(resolved(None))
        except UnknownCheckpointError:
            raise unknown from None
        if _LOOKS_LIKE_AN_ID.fullmatch(words[0]) and not _holds(checkpoints, newest, words[0]):
            raise
        return newest, tuple(words)


def _holds(checkpoints: Checkpoints, checkpoint: Checkpoint, path: str) -> bool:
    captured = checkpoints.show(checkpoint)[1]
    inside = checkpoints.inside(Path(checkpoint.workdir), path)
    return any(each in captured.files or each in captured.directories for each in inside)


def second_id(
    checkpoints: Checkpoints, paths: Sequence[str]
) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """From the words after the first id: the second id, if there is one, and the paths."""
    if paths and _LOOKS_LIKE_AN_ID.fullmatch(paths[0]):
        try:
            return chosen(checkpoints, paths[0]), tuple(paths[1:])
        except UnknownCheckpointError:
            if not Path(paths[0]).exists():
                raise
    return None, tuple(paths)


def take_command(invocation: Invocation, directory: str | None) -> str:
    """A command to suggest for taking a checkpoint. If it would be refused here, another directory
    has to be filled in."""
    place = "" if directory is None else f" {quoted(Path(directory))}"
    with suppress(HoldfastError):  # the current directory may be gone
        place = " DIR" if is_refused(invocation, resolved(directory)) else place
    return f"holdfast {invocation.home_flag}checkpoints take{place}"

"""`holdfast checkpoints take`: capture a directory as it is now."""

from __future__ import annotations

from typing import Any

from holdfast.cli.checkpoint_options import directory_argument
from holdfast.cli.frame import command, options
from holdfast.cli.invocation import Invocation
from holdfast.cli.take import FLAGS, take


@command(
    "take",
    example="holdfast checkpoints take\n"
    "holdfast checkpoints take ~/work/site --reason 'before the refactoring'\n"
    "holdfast checkpoints take --path src/main.py --path src/data",
)
@directory_argument
@options(FLAGS)
def take_checkpoint(invocation: Invocation, /, directory: str | None, **flags: Any) -> int:
    """Take a checkpoint of a directory: by default, of the current one.

    Nothing is taken when nothing changed since the last one. What the ignore rules leave out and
    what is larger than max_file_size_mb is not captured; what could not be captured is listed.
    Folders that are too large to capture, such as / or your home directory, are refused.
    """
    return take(invocation, directory, **flags)

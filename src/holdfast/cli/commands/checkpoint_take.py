"""`holdfast checkpoints take` and `watch`: capture a directory now, or after each change."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.checkpoint_options import directory_argument
from holdfast.cli.frame import command, options
from holdfast.cli.invocation import Invocation, resolved
from holdfast.cli.output import note, print_json
from holdfast.cli.progress import until_signal
from holdfast.cli.take import FLAGS, short, take
from holdfast.model.checkpoint import TakeOutcome
from holdfast.model.text import format_count

if TYPE_CHECKING:
    from holdfast.api.values import WatchStep


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


@command(
    "watch",
    example="holdfast checkpoints watch .\nholdfast checkpoints watch ~/work/site --settle 2s",
)
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option(
    "--settle", metavar="DURATION", help="Wait until nothing has changed for this long [0.5s]."
)
def watch(invocation: Invocation, /, directory: str, *, settle: str | None) -> None:
    """Watch a directory, and take a checkpoint shortly after each change.

    The cost of a checkpoint depends on what changed, not on the size of the tree. When the system
    loses events, the command scans the whole tree. One process at a time may watch a directory.
    Ctrl-C ends the watch, after a last checkpoint of what changed until then.
    """
    workdir = resolved(directory)
    checkpoints = invocation.checkpoints(may_be_new=True)
    lines = _Lines(workdir)
    with until_signal() as stop:
        done = checkpoints.watch(
            workdir, settle=settle, stopped=stop.stop_requested, told=lines.tell
        )
    lines.end(done.taken)
    if invocation.json:
        print_json({"workdir": str(workdir), **done.to_json()})


class _Lines:
    """The lines for the user on stderr: one per checkpoint."""

    def __init__(self, workdir: Path) -> None:
        self._workdir = workdir
        self._begun = False

    def begin(self, step: WatchStep) -> None:
        """The first scan is done: from here on every change is noticed."""
        self._begun = True
        known = step.taking.id if step.taking else None
        since = f" since checkpoint {short(known)}" if known else ""
        note(f"watching {self._workdir}{since}; press Ctrl-C to stop")

    def tell(self, step: WatchStep) -> None:
        moment = datetime.fromtimestamp(step.at, UTC).astimezone().strftime("%H:%M:%S")
        if step.error is not None:
            note(f"{moment} no checkpoint: {step.error.message} It will try again.")
        elif step.taking is not None and step.taking.outcome is TakeOutcome.TAKEN:
            look = f"  (full scan: {step.look})" if step.look else ""
            what = step.taking.reason.removeprefix("watch: ")
            note(f"{moment} {short(step.taking.id or '')}  {what}{look}")
        if not self._begun:
            self.begin(step)

    def end(self, taken: int) -> None:
        note(f"no longer watching {self._workdir}; took {format_count(taken, 'checkpoint')}")

"""`holdfast checkpoints watch`: follow a directory and take checkpoints by itself."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation, resolved
from holdfast.cli.output import note, print_json
from holdfast.cli.show_checkpoints import short
from holdfast.errors import HoldfastError
from holdfast.model.checkpoint import TakeOutcome
from holdfast.model.text import format_count, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.services.watch import Pace, Step


@click.command(
    "watch",
    cls=Command,
    example="holdfast checkpoints watch .\nholdfast checkpoints watch ~/work/site --settle 2s",
)
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option(
    "--settle", metavar="DURATION", help="Wait until nothing changed for so long [half a second]."
)
@click.pass_obj
def command(invocation: Invocation, /, directory: str, *, settle: str | None) -> int:
    """Follow a directory, and take a checkpoint of what changed shortly after it settled.

    Each one costs as much as what changed, not as much as the whole tree. When the system could
    not tell everything, it looks at the whole tree by itself. One process at a time may watch a
    directory. Ctrl-C ends it; what changed until then is taken first.
    """
    from holdfast.services.watch import watch
    from holdfast.stores.checkpoints.watch import following

    workdir = resolved(directory)
    pace = _pace(settle)
    store = invocation.capture().writer()
    first = store.take(workdir, reason="watch: the first look", now=invocation.now)
    if first.id is None:
        raise HoldfastError(f"It cannot be watched. {first.reason}.")
    lines = _Lines(workdir)
    with following(store.layout, workdir) as follower, _stoppable() as stopped:
        done = watch(
            store,
            workdir,
            follower,
            clock=invocation.clock,
            stopped=stopped,
            told=lines.tell,
            pace=pace,
        )
        lines.end(done.taken)
    if invocation.json:
        print_json({"workdir": str(workdir), **done.to_json()})
    return 0


def _pace(settle: str | None) -> Pace:
    from holdfast.services.watch import Pace

    if settle is None:
        return Pace()
    seconds = parse_duration(settle)
    return Pace(settle=seconds, longest=max(Pace().longest, seconds))


class _Lines:
    """What somebody who looks on sees, on stderr: one line a checkpoint."""

    def __init__(self, workdir: Path) -> None:
        self._workdir = workdir
        self._begun = False

    def begin(self, step: Step) -> None:
        """The first look is done: from here on everything is seen."""
        self._begun = True
        known = step.taking.id if step.taking else None
        since = f" since checkpoint {short(known)}" if known else ""
        note(f"watching {self._workdir}{since}; Ctrl-C ends it")

    def tell(self, step: Step) -> None:
        moment = datetime.fromtimestamp(step.at, UTC).astimezone().strftime("%H:%M:%S")
        if step.error is not None:
            note(f"{moment} no checkpoint: {step.error.message} It will try again.")
        elif step.taking is not None and step.taking.outcome is TakeOutcome.TAKEN:
            look = f"  (looked at everything: {step.look})" if step.look else ""
            what = step.taking.reason.removeprefix("watch: ")
            note(f"{moment} {short(step.taking.id or '')}  {what}{look}")
        if not self._begun:
            self.begin(step)

    def end(self, taken: int) -> None:
        note(f"no longer watching {self._workdir}; took {format_count(taken, 'checkpoint')}")


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """SIGINT and SIGTERM end the watch after the checkpoint at hand; a second one, at once."""
    requested = False

    def request(_signal: int, _frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    signals = (signal.SIGINT, signal.SIGTERM)
    before = {each: signal.signal(each, request) for each in signals}
    try:
        yield lambda: requested
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

"""Run any agent with a lease, checkpoints and limits around it.

The run is a session of a Holdfast home, and this process holds it, so that nothing that belongs to
it is removed while the command runs. Its checkpoints have the session's id.
"""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from holdfast.api.capture import directory
from holdfast.api.checkpoints import Checkpoints, Which
from holdfast.api.place import Place
from holdfast.api.run_limits import Ending, RunLimits, attend
from holdfast.api.run_meter import SOURCE, RunMeter
from holdfast.api.sessions import sessions_of
from holdfast.errors import HoldfastError, UnknownCheckpointError, UsageError
from holdfast.homes.checkpoints.bounds_worker import workers
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import StrPath, text
from holdfast.model.checkpoint import Change
from holdfast.model.figures import Tally
from holdfast.model.text import one_line
from holdfast.services.exchange.redactor import Redactor
from holdfast.stores.files import storage_errors
from holdfast.stores.process_group import ProcessGroup, foreground_terminal
from holdfast.value import dataclass, replace

if TYPE_CHECKING:
    from holdfast.api.machine import Machine
    from holdfast.services.checkpoint_watch import Step

__all__ = ["ProcessGroup", "RunLimits", "RunReport", "Runner"]

_TITLE = 80
#: How often to try to take the first checkpoint while other processes push it out.
_ATTEMPTS = 3
Told: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The result of a run. `before` is the checkpoint from before it, or None; `no_checkpoints` is
    why there is none, or why some are missing. `taken` is how many checkpoints belong to the run,
    and `changes` are the files that differ since `before`; `changes_unknown` is why those are
    unknown. `left_open` is why the session of the run could not be ended."""

    session: str
    workdir: Path
    ending: Ending
    before: str | None
    no_checkpoints: str
    taken: int
    changes: Sequence[Change]
    changes_unknown: str = ""
    left_open: str = ""

    @property
    def exit_code(self) -> int:
        """The exit code of the command. A stopped command never counts as a success."""
        return self.ending.code or (1 if self.ending.stopped else 0)


@checked
class Runner:
    """Runs commands, supervised by one home. `machine` finds the sessions of all agents."""

    def __init__(self, place: Place, checkpoints: Checkpoints, machine: Machine) -> None:
        self._place = place
        self._checkpoints = checkpoints
        self._machine = machine

    def run(  # noqa: PLR0913 - all but one are named
        self,
        command: Sequence[str],
        *,
        workdir: StrPath,
        environ: Mapping[str, str],
        limits: RunLimits,
        name: str | None = None,
        checkpoints: bool = True,
        told: Told = lambda _: None,
        stdout: int | None = None,
        started: Callable[[ProcessGroup], None] = lambda _: None,
    ) -> RunReport:
        """Run a command in a directory until it ends or exceeds a limit.

        If no checkpoint can be taken, `told` is called with the reason, and the command still runs.
        `started` is called with its process group, so that the caller can pass on signals.
        """
        if not command:
            raise UsageError("Name the command to run.")
        place = directory(workdir)
        if not place.is_dir():
            raise UsageError(f"{place} is not a directory.")
        _check_command(command[0], place, environ)
        spelled = Redactor().text(one_line(shlex.join(command)))
        title = text(name, "A name") if name else spelled[:_TITLE]
        self._place.create_own()
        with ExitStack() as stack:
            sessions = stack.enter_context(sessions_of(self._place))
            session = sessions.create(source=SOURCE, title=title, cwd=str(place)).id
            prices = self._place.prices()
            meter = RunMeter(self._machine, place, prices, began=self._place.clock())
            meter.remember()
            before, why_not = None, "off"
            if checkpoints:
                before, why_not = self._first(place, session, spelled, stack)
            if why_not and checkpoints:
                told(f"no checkpoints: {why_not}")
            reason, left_open = "failed", ""
            try:
                group = ProcessGroup(
                    command,
                    cwd=place,
                    environ=environ,
                    terminal=foreground_terminal(),
                    stdout=stdout,
                    started=started,
                    not_of_it=workers,
                )
                stack.callback(group.close)
                with _Watching(
                    self._checkpoints, place, session, on=before is not None
                ) as watching:
                    ending = attend(group, limits, meter.spent, told=told)
                reason = "budget" if ending.stopped else "ended"
                if ending.stopped:
                    self._place.home.tallies.add(Tally.REFUSALS)
            finally:
                left_open = _said(lambda: sessions.end(session, reason))
            report = RunReport(
                session=session,
                workdir=place,
                ending=ending,
                before=before,
                no_checkpoints=why_not or watching.error,
                taken=0,
                changes=(),
                left_open=left_open,
            )
            return report if before is None else self._compared(report, before)

    def _first(
        self, workdir: Path, session: str, spelled: str, stack: ExitStack
    ) -> tuple[str | None, str]:
        """Take the checkpoint from before the run and hold it until the stack is left; or return
        None and the reason."""
        why_not = ""
        for _ in range(_ATTEMPTS):
            try:
                taking = self._checkpoints.take(workdir, reason=f"run: {spelled}", session=session)
                if taking.id is None:
                    return None, taking.reason
                stack.enter_context(self._checkpoints.held_by_run(taking.id, session))
            except UnknownCheckpointError as error:
                why_not = error.message  # other processes took so many that it was pushed out
            except HoldfastError as error:
                return None, error.message
            else:
                return taking.id, ""
        return None, why_not

    def _compared(self, report: RunReport, before: Which) -> RunReport:
        """Add the changes to the report. Whatever the command did to its directory or to the store,
        its exit code and the checkpoint to go back to are reported."""
        compared = report
        try:
            with storage_errors(f"compare {report.workdir}"):
                taken = len(self._checkpoints.list(report.workdir, session=report.session))
                compared = replace(report, taken=taken)
                there = os.path.lexists(report.workdir)
                kept = self._checkpoints
                changes = kept.diff(before).changes if there else kept.lost_with_directory(before)
                return replace(compared, changes=changes)
        except HoldfastError as error:
            there = not _said(lambda: self._checkpoints.get(before))
            return replace(
                compared, changes_unknown=error.message, before=report.before if there else None
            )


def _said(change: Callable[[], object]) -> str:
    """Make a change, and return its error message; "" if it succeeded."""
    try:
        change()
    except HoldfastError as error:
        return error.message
    return ""


def _check_command(name: str, workdir: Path, environ: Mapping[str, str]) -> None:
    hint = "The command and each of its arguments are separate words."
    if os.sep in name:  # relative to where it will run
        path = workdir / name
        if not path.exists():
            raise UsageError(f"There is no program {path}.", hint=hint)
        if not path.is_file() or not os.access(path, os.X_OK):
            raise UsageError(f"{path} is not a program that you may run.", hint=hint)
    elif shutil.which(name, path=environ.get("PATH")) is None:
        raise UsageError(f"There is no command {name} on your PATH.", hint=hint)


class _Watching:
    """Takes checkpoints in a thread while the command runs."""

    def __init__(self, checkpoints: Checkpoints, workdir: Path, session: str, *, on: bool) -> None:
        self.error = ""
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, args=(checkpoints, workdir, session), daemon=True
        )
        self._on = on

    def __enter__(self) -> Self:
        if self._on:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._on:
            self._thread.join()

    def _watch(self, checkpoints: Checkpoints, workdir: Path, session: str) -> None:
        try:
            checkpoints.watch(
                workdir,
                stopped=self._over.is_set,
                session=session,
                told=self._hear,
                command="run",
            )
        except HoldfastError as error:  # the command goes on; the report has the error
            self.error = error.message

    def _hear(self, step: Step) -> None:
        self.error = "" if step.error is None else step.error.message

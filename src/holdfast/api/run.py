"""Run any agent with a lease, checkpoints and limits around it.

The run is a session of a Holdfast home, which this process holds: nothing that belongs to it is
removed while the command works. Its checkpoints carry the session's id.
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
from holdfast.api.sessions import sessions_of
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.arguments import StrPath, text
from holdfast.model.checkpoint import Change
from holdfast.model.session import SessionFilter
from holdfast.model.text import one_line
from holdfast.services.attend import Ending, RunLimits, Spent, attend
from holdfast.services.exchange.redactor import Redactor
from holdfast.stores.process_group import ProcessGroup, foreground_terminal
from holdfast.value import dataclass

if TYPE_CHECKING:
    from holdfast.api.machine import AgentHome, FoundSession, Machine
    from holdfast.services.watch import Step

__all__ = ["ProcessGroup", "RunLimits", "RunReport", "Runner"]

SOURCE = "run"
_TITLE = 80
Told: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What came of a run. `before` is the checkpoint from before it, None when there is none.
    `no_checkpoints` says why there is none, or why some are missing. `taken` is how many belong to
    the run, and `changes` are the files that differ since."""

    session: str
    workdir: Path
    ending: Ending
    before: str | None
    no_checkpoints: str
    taken: int
    changes: Sequence[Change]

    @property
    def exit_code(self) -> int:
        """The code of the command. One that was stopped never counts as a success."""
        return self.ending.code or (1 if self.ending.stopped else 0)


class Runner:
    """Runs commands under the eyes of one home. `machine` finds the sessions of all agents."""

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

        Where no checkpoint can be taken, `told` hears why, and the command runs all the same.
        `started` gets the command, to pass signals on to it.
        """
        if not command:
            raise UsageError("Say which command to run.")
        place = directory(workdir)
        if not place.is_dir():
            raise UsageError(f"{place} is not a directory.")
        if shutil.which(command[0], path=environ.get("PATH")) is None:
            raise UsageError(
                f"There is no command {command[0]} on your PATH.",
                hint="The command and each of its arguments are separate words.",
            )
        spelled = Redactor().text(one_line(shlex.join(command)))
        title = text(name, "A name") if name else spelled[:_TITLE]
        self._place.create_own()
        with ExitStack() as stack:
            sessions = stack.enter_context(sessions_of(self._place))
            session = sessions.create(source=SOURCE, title=title, cwd=str(place)).id
            meter = _Meter(self._machine, place, self._place.clock())
            if limits.on_spending:
                meter.remember()
            before, why_not = self._first(place, session, spelled) if checkpoints else (None, "off")
            if why_not and checkpoints:
                told(f"no checkpoints: {why_not}")
            reason = "failed"
            try:
                group = ProcessGroup(
                    command,
                    cwd=place,
                    environ=environ,
                    terminal=foreground_terminal(),
                    stdout=stdout,
                    started=started,
                )
                stack.callback(group.close)
                with _Watching(
                    self._checkpoints, place, session, on=before is not None
                ) as watching:
                    ending = attend(group, limits, meter.spent, told=told)
                reason = "budget" if ending.stopped else "ended"
            finally:
                sessions.end(session, reason)
            return RunReport(
                session=session,
                workdir=place,
                ending=ending,
                before=before,
                no_checkpoints=why_not or watching.error,
                taken=len(self._checkpoints.list(place, session=session)) if before else 0,
                changes=self._changes(before),
            )

    def _first(self, workdir: Path, session: str, spelled: str) -> tuple[str | None, str]:
        """The checkpoint from before the run; or None, and why there is none."""
        try:
            taking = self._checkpoints.take(workdir, reason=f"run: {spelled}", session=session)
        except HoldfastError as error:
            return None, error.message
        return taking.id, "" if taking.id else taking.reason

    def _changes(self, before: Which | None) -> Sequence[Change]:
        return () if before is None else self._checkpoints.diff(before).changes


class _Watching:
    """Takes checkpoints in a thread while the command works."""

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
            checkpoints.watch(workdir, stopped=self._over.is_set, session=session, told=self._hear)
        except HoldfastError as error:  # the command goes on; the summary says it
            self.error = error.message

    def _hear(self, step: Step) -> None:
        self.error = "" if step.error is None else step.error.message


_Key: TypeAlias = "tuple[AgentHome, str]"


class _Meter:
    """What the agents that work in a directory have used since a moment.

    A session counts when it works in the directory or below. One that names no directory counts
    when it began after the run did.
    """

    def __init__(self, machine: Machine, workdir: Path, began: float) -> None:
        self._machine = machine
        self._workdir = workdir
        self._began = began
        self._before: dict[_Key, tuple[int, float]] = {}
        #: The most that was seen of each session: what was used does not come back when a
        #: transcript is cut or removed.
        self._used: dict[_Key, tuple[int, float]] = {}

    def remember(self) -> None:
        """What was used before: a session may be continued."""
        page = self._machine.list_sessions(SessionFilter(cwd=self._workdir))
        for each in page.found:
            self._before[each.home, each.session.id] = (
                each.session.tokens.total,
                each.page.full_cost(each.session) or 0.0,
            )

    def spent(self) -> Spent:
        page = self._machine.list_sessions(SessionFilter(active_after=self._began - 1))
        unpriced: set[str] = set()
        for each in page.found:
            if each.session.source == SOURCE or not self._counts(each):
                continue
            key = each.home, each.session.id
            cost = each.page.full_cost(each.session)
            if cost is None:
                unpriced.add(each.session.model or "a model without a name")
            tokens_before, cost_before = self._before.get(key, (0, 0.0))
            tokens_seen, cost_seen = self._used.get(key, (0, 0.0))
            self._used[key] = (
                max(tokens_seen, each.session.tokens.total - tokens_before),
                max(cost_seen, (cost or 0.0) - cost_before),
            )
        return Spent(
            tokens=sum(tokens for tokens, _ in self._used.values()),
            cost=None if unpriced else sum(cost for _, cost in self._used.values()),
            sessions=tuple(session for _, session in self._used),
            unpriced=tuple(sorted(unpriced)),
            unread=tuple(str(each.path) for each in page.looked.unread),
        )

    def _counts(self, found: FoundSession) -> bool:
        session = found.session
        if not session.cwd:
            return session.started_at >= self._began - 1
        return Path(os.path.realpath(session.cwd)).is_relative_to(self._workdir)

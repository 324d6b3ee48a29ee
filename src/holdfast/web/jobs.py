"""Runs that outlive the request which started them: applied plans, undos, restores.

A user who closes the tab has still agreed to the run, so it continues. What it did is in the log
like everything else; a job only shows its progress and its report, until newer jobs replace it. The
work itself is done in a child process, which stops between two batches when the server ends.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, whose_bug
from holdfast.value import dataclass
from holdfast.web.child_process import Children

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome
    from holdfast.api.checkpoint_restore import RestoreReport
    from holdfast.api.plan import HomeReport
    from holdfast.model.checkup import Repair
    from holdfast.model.vault import VaultRefresh
    from holdfast.web.child_process import Link

#: How many reports are kept; the report of a large run has an outcome for each of its items.
_KEPT = 8
#: How many seconds a server waits for its jobs when it ends; each stops between two batches.
_PATIENCE = 30.0
#: Minimum time between two progress updates, in seconds.
_SEEN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a job in one home. `note` adds details. `full` is true if the disk of that home
    is full or nearly full."""

    home: AgentHome
    report: HomeReport | RestoreReport | Repair | VaultRefresh | None = None
    error: HoldfastError | None = None
    full: bool = False
    note: str = ""


class Run:
    """A run's view of its job, in the process that does the work: the `Progress` of the calls it
    makes."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._said = ("", 0.0)

    @property
    def stopping(self) -> bool:
        return self._link.wants_end()

    def step(self, label: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        last, at = self._said
        if label != last or now - at >= _SEEN or done == total:
            self._said = label, now
            self._link.say((label, done, total))

    def stop_requested(self) -> bool:
        return self.stopping


class Job:
    """One run, as the page sees it. `results` are ready to be shown, and small, although the report
    of a large run has an outcome for each of its items."""

    def __init__(self, title: str, back: str, for_good: str = "") -> None:
        self.id = secrets.token_urlsafe(8)
        self.title = title
        #: Where the user continues after the report.
        self.back = back
        #: Where the same can be done without the trash.
        self.for_good = for_good
        self.label = "starting"
        self.done = 0
        self.total: int | None = None
        self.results: Sequence[Any] = ()
        self.error: HoldfastError | None = None
        self.stopping = False
        self._ended = threading.Event()

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Return whether it has ended, after at most this many seconds."""
        return self._ended.wait(seconds)

    def step(self, step: tuple[str, int, int | None]) -> None:
        self.label, self.done, self.total = step

    def end(self) -> None:
        self._ended.set()


def _as_error(error: Exception) -> HoldfastError:
    """An unexpected error in words for the user."""
    return HoldfastError(
        f"{type(error).__name__}: {error}",
        hint=f"This is a bug in {whose_bug(error) or 'Holdfast'}. Please report it. What was done "
        "before is in the log.",
    )


class Jobs:
    """The jobs of one server."""

    def __init__(
        self,
        ended: Callable[[], None] = lambda: None,
        children: Children | None = None,
        shown: Callable[[Done], Any] = lambda done: done,
    ) -> None:
        """`ended` is called after each job, because the page's cached data is out of date then.
        `shown` converts the result of a job into what a page shows."""
        self._ended = ended
        self._children = Children() if children is None else children
        self._shown = shown
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(
        self,
        title: str,
        what: Callable[[Run], Sequence[Done]],
        *,
        back: str,
        for_good: str = "",
    ) -> Job:
        """Run this in its own thread. Runs in one home exclude each other by its log's lock, so two
        jobs may run at the same time."""
        job = Job(title, back, for_good)
        with self._lock:
            self._jobs[job.id] = job
            ended = [each.id for each in self._jobs.values() if not each.running]
            for old in ended[: max(0, len(self._jobs) - _KEPT)]:
                del self._jobs[old]
        threading.Thread(target=self._run, args=(job, what), name="holdfast-job").start()
        return job

    def _run(self, job: Job, what: Callable[[Run], Sequence[Done]]) -> None:
        def far(link: Link) -> Sequence[Any]:
            return [self._shown(each) for each in what(Run(link))]

        try:
            job.results = self._children.change(far, job.step, lambda: job.stopping)
        except HoldfastError as error:
            job.error = error
        except Exception as error:  # noqa: BLE001 - it would be lost with the thread
            job.error = _as_error(error)
        finally:
            self._ended()
            job.end()

    def get(self, name: str) -> Job | None:
        return self._jobs.get(name)

    def close(self) -> None:
        """Ask every job to stop, and wait until it has. The rest of its plan is not carried out."""
        running = [each for each in self._jobs.values() if each.running]
        for job in running:
            job.stopping = True
        for job in running:
            job.wait(_PATIENCE)

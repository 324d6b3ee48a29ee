"""Jobs of the page: they outlive a request, stop when asked, and say what went wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

pytest.importorskip("starlette")

from holdfast.errors import BusyError
from holdfast.web.child_process import Children
from holdfast.web.jobs import Done, Jobs, Run

_HERE = Children(forks=False)


def test_a_job_runs_beside_and_stops_when_the_server_ends() -> None:
    ended: list[bool] = []
    jobs = Jobs(lambda: ended.append(True), _HERE)
    began = threading.Event()

    def run(job: Run) -> Sequence[Done]:
        job.step("removing", 3, 9)
        began.set()
        while not job.stop_requested():
            time.sleep(0.001)
        return ()

    job = jobs.start("Clean up", run, back="/")
    assert began.wait(5)
    assert (job.running, job.label, job.done, job.total) == (True, "removing", 3, 9)
    assert jobs.get(job.id) is job
    jobs.close()
    assert not job.running
    assert ended == [True]


def test_what_went_wrong_is_told() -> None:
    jobs = Jobs(children=_HERE)

    def busy(job: Run) -> Sequence[Done]:
        raise BusyError("somebody else")

    def broken(job: Run) -> Sequence[Done]:
        raise ZeroDivisionError("by nothing")

    first, second = jobs.start("a", busy, back="/"), jobs.start("b", broken, back="/")
    assert first.wait(5)
    assert second.wait(5)
    assert first.error is not None
    assert first.error.message == "somebody else"
    assert second.error is not None
    assert "ZeroDivisionError: by nothing" in second.error.message
    assert "bug" in (second.error.hint or "")


def test_reports_are_kept_until_newer_ones_come_but_no_running_job_is_forgotten() -> None:
    jobs = Jobs(children=_HERE)
    free = threading.Event()

    def wait(job: Run) -> Sequence[Done]:
        free.wait(5)
        return ()

    running = jobs.start("long", wait, back="/")
    made = []
    for _ in range(30):
        job = jobs.start("short", lambda _: [], back="/")
        assert job.wait(5)
        made.append(job)
    assert jobs.get(running.id) is running
    assert jobs.get(made[0].id) is None
    assert jobs.get(made[-1].id) is made[-1]
    free.set()
    assert running.wait(5)

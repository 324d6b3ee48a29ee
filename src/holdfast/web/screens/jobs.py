"""Jobs as pages: their progress, their results, and a button to stop them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.responses import Response

from holdfast.api.checkpoint_restore import RestoreReport
from holdfast.api.plan import HomeReport
from holdfast.model.checkup import Repair
from holdfast.model.vault import VaultRefresh
from holdfast.value import dataclass
from holdfast.web.plan_view import ReportView, view_report
from holdfast.web.site import Screen, Site, UnknownPageError, get, post

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.errors import HoldfastError
    from holdfast.model.checkpoint import NotCaptured
    from holdfast.web.jobs import Done, Job

#: Most jobs end before the user would notice that there was one.
_QUICK = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The result of a checkpoint restore."""

    operation: str | None
    written: Sequence[str]
    deleted: Sequence[str]
    left: Sequence[NotCaptured]
    safety: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a job in one home, as it is shown; exactly one of the values from `report` to
    `error` is set."""

    slug: str
    label: str
    report: ReportView | None = None
    restored: Restored | None = None
    repair: Repair | None = None
    vault: VaultRefresh | None = None
    error: HoldfastError | None = None
    full: bool = False
    note: str = ""
    #: The operation that it undid.
    undone: str = ""

    @property
    def operation(self) -> str | None:
        """The operation that can be undone."""
        if self.report is not None and self.report.can_undo:
            return self.report.operation
        return self.restored.operation if self.restored is not None else None


async def started(site: Site, job: Job) -> Response:
    """The response to the request that started a job. An immediate error is shown at once."""
    await asyncio.to_thread(job.wait, _QUICK)
    if job.error is not None:
        raise job.error
    return site.see_other(f"/jobs/{job.id}")


async def show(site: Site, request: Request) -> Response:
    job = _job(site, request)
    running = job.running  # read before its results: it may end while this page is rendered
    return site.page(
        request,
        "jobs/show.html",
        title=job.title,
        job=job,
        running=running,
        results=job.results,
    )


async def progress(site: Site, request: Request) -> Response:
    """The progress, for a script that polls it."""
    job = _job(site, request)
    if not job.running:
        return Response(status_code=204)  # there is a report now: the page is reloaded
    return site.fragment("jobs/_progress.html", job=job)


async def stop(site: Site, request: Request) -> Response:
    """Stop between two batches. What is done stays done, and can be undone."""
    job = _job(site, request)
    job.stopping = True
    return await started(site, job)


def _job(site: Site, request: Request) -> Job:
    job = site.jobs.get(request.path_params["job"])
    if job is None:
        raise UnknownPageError(
            "This report is no longer kept.", hint="What was done is in the log: holdfast log"
        )
    return job


def result_of(done: Done) -> Result:
    """The result of a job, as it is shown."""
    slug, label, what = Site.slug(done.home), done.home.label, done.report
    if isinstance(what, HomeReport):
        seen = view_report(what.report, what.plan)
        return Result(
            slug=slug,
            label=label,
            report=seen,
            full=done.full,
            note=done.note,
            undone=what.undone.id if what.undone is not None and what.report.brought_back else "",
        )
    if isinstance(what, RestoreReport):
        found = Restored(
            operation=what.operation,
            written=what.written,
            deleted=what.deleted,
            left=what.left,
            safety=what.safety_checkpoint or "",
        )
        return Result(slug=slug, label=label, restored=found)
    if isinstance(what, VaultRefresh):
        return Result(slug=slug, label=label, vault=what)
    if done.error is not None:
        done.error.hint = done.error.hint  # in the wording of the process that raised it
    return Result(slug=slug, label=label, repair=what, error=done.error, full=done.full)


SCREEN = Screen(
    routes=(
        get("/jobs/{job}", show),
        get("/jobs/{job}/progress", progress),
        post("/jobs/{job}/stop", stop),
    ),
)

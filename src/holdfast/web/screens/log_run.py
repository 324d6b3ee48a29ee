"""One run over several homes: undone or redone as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.value import dataclass
from holdfast.web.jobs import Done
from holdfast.web.screens.jobs import started
from holdfast.web.screens.log import Again, Entry, again_of, entry_of
from holdfast.web.site import Screen, Site, UnknownPageError, get, post

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.machine import Machine
    from holdfast.api.plans_across_homes import OperationOfRun
    from holdfast.web.jobs import Run

#: The command names in the log.
_COMMANDS = {"undo": "undo --all-homes", "redo": "redo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the run did in one home; `again` is what undoing or redoing that would do, `error` why
    that is impossible."""

    entry: Entry
    again: Again | None = None
    error: HoldfastError | None = None

    @property
    def name(self) -> str:
        return f"{self.entry.slug}:{self.entry.operation.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The whole run. `verb` is what can be done with it now, empty for nothing."""

    verb: str
    parts: Sequence[Part]

    @property
    def ready(self) -> Sequence[Part]:
        return [each for each in self.parts if each.again is not None]


async def show(site: Site, request: Request) -> Response:
    """What the run did in each home, and what undoing or redoing all of it would do."""
    run = request.path_params["run"]
    whole = await site.threads.work(lambda machine: _whole(site, machine, run))
    return site.page(
        request, "log/run.html", title="One run over several homes", run=run, whole=whole
    )


async def _carry_out(site: Site, request: Request, *, verb: str) -> Response:
    """Carry out everything that was agreed to, or nothing; a home that then fails does not stop the
    others."""
    form = await site.form(request)
    run = request.path_params["run"]
    agreed = form.agreed()

    def work(job: Run) -> Sequence[Done]:
        with site.machine(_COMMANDS[verb]) as machine:
            _operations(machine, run)
            planned = machine.plan_run(run, verb)
            planned.expect_same(agreed, lambda home, each: f"{site.slug(home)}:{each.operation.id}")
            done = planned.apply(progress=job)
            return [Done(home=each.home, report=each.report, error=each.error) for each in done]

    title = f"{verb.capitalize()} a run over several homes"
    return await started(site, site.jobs.start(title, work, back=f"/log/runs/{run}"))


def _operations(machine: Machine, run: str) -> Sequence[OperationOfRun]:
    found = machine.operations_of_run(run)
    if not found:
        raise UnknownPageError(
            "No home has a run of this name in its log.", hint="`holdfast log` lists what was done."
        )
    return found


def _whole(site: Site, machine: Machine, run: str) -> Whole:
    found = _operations(machine, run)
    verb = next((verb for verb in _COMMANDS if any(each.can(verb) for each in found)), "")
    return Whole(verb=verb, parts=[_part(site, machine, each, verb) for each in found])


def _part(site: Site, machine: Machine, done: OperationOfRun, verb: str) -> Part:
    home, operation = done.home, done.operation
    waiting = [operation.id] if done.can_redo else []
    entry = entry_of(home.label, site.slug(home), operation, waiting)
    if not verb or not done.can(verb):
        return Part(entry=entry)
    try:
        return Part(entry=entry, again=again_of(machine.open(home), entry, verb))
    except HoldfastError as error:
        return Part(entry=entry, error=error)


SCREEN = Screen(
    routes=(
        get("/log/runs/{run}", show),
        *(post(f"/log/runs/{{run}}/{v}", partial(_carry_out, verb=v)) for v in _COMMANDS),
    ),
)

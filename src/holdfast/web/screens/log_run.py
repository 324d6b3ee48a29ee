"""One run over several homes: undone or redone as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.api.plan import expect_same
from holdfast.api.trash import Log
from holdfast.errors import HoldfastError
from holdfast.model.operation import one_run
from holdfast.value import dataclass
from holdfast.web.jobs import Done
from holdfast.web.screens.jobs import started
from holdfast.web.screens.log import Again, Entry, again_of, entry_of, plan_of
from holdfast.web.site import Screen, Site, UnknownPageError, get, post

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.home import UndoPlan
    from holdfast.api.machine import Machine
    from holdfast.api.redo import RedoPlan
    from holdfast.web.jobs import Run

#: What the log says of it, by what is done.
_COMMANDS = {"undo": "undo --all-homes", "redo": "redo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the run did in one home; `again` is what undoing or redoing that would do, and `error`
    why it cannot be done."""

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
    """All that was agreed to, or nothing; then a home that fails keeps nobody from the others."""
    form = await site.form(request)
    run = request.path_params["run"]
    agreed = form.agreed()

    def work(job: Run) -> Sequence[Done]:
        with site.machine(_COMMANDS[verb]) as machine:
            plans = _plans(site, machine, run, verb)
            now = {name: planned.fingerprint for name, (_, planned) in plans.items()}
            expect_same(repr(sorted(agreed.items())), repr(sorted(now.items())))
            with one_run(joint=len(plans) > 1):
                return [
                    _done(home, planned, job)
                    for home, planned in plans.values()
                    if not job.stopping
                ]

    title = f"{verb.capitalize()} a run over several homes"
    return await started(site, site.jobs.start(title, work, back=f"/log/runs/{run}"))


def _done(home: AgentHome, planned: UndoPlan | RedoPlan, job: Run) -> Done:
    try:
        return Done(home=home, report=planned.apply(progress=job))
    except HoldfastError as error:
        return Done(home=home, error=error)


def _entries(site: Site, machine: Machine, run: str) -> Sequence[tuple[AgentHome, Entry]]:
    found = []
    for home, view in machine.look(lambda place: Log(place).read()).seen:
        waiting = {each.operation for each in view.undone}
        found += [
            (home, entry_of(home.label, site.slug(home), each, waiting))
            for each in view.operations
            if each.run == run
        ]
    if not found:
        raise UnknownPageError(
            "No home has a run of this name in its log.", hint="`holdfast log` lists what was done."
        )
    return found


def _can(entry: Entry, verb: str) -> bool:
    return entry.can_redo if verb == "redo" else entry.can_undo


def _plans(
    site: Site, machine: Machine, run: str, verb: str
) -> Mapping[str, tuple[AgentHome, UndoPlan | RedoPlan]]:
    """By home and operation. What cannot be done was not agreed to either."""
    plans = {}
    for home, entry in _entries(site, machine, run):
        if _can(entry, verb):
            try:
                made = plan_of(machine.open(home), entry.operation.id, verb)
            except HoldfastError:
                continue
            plans[f"{entry.slug}:{entry.operation.id}"] = (home, made)
    return plans


def _whole(site: Site, machine: Machine, run: str) -> Whole:
    entries = _entries(site, machine, run)
    verb = next((v for v in _COMMANDS if any(_can(entry, v) for _, entry in entries)), "")
    return Whole(verb=verb, parts=[_part(machine, home, each, verb) for home, each in entries])


def _part(machine: Machine, home: AgentHome, entry: Entry, verb: str) -> Part:
    if not _can(entry, verb):
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

"""Clean up: try a policy, see the plan for it, and apply exactly that plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote

from starlette.responses import Response

from holdfast.api.cleanup import TrashUse, plan_trial
from holdfast.api.configure import plan_several, text_of
from holdfast.api.plan import expect_same
from holdfast.errors import UsageError
from holdfast.model.plan import fingerprint
from holdfast.value import dataclass
from holdfast.web.controls import (
    Asked,
    Control,
    Row,
    controls,
    of_homes,
    of_sources,
    read_asked,
)
from holdfast.web.jobs import Done
from holdfast.web.plan_view import PlanView, expect_known, view_plan
from holdfast.web.screens.jobs import started
from holdfast.web.site import Screen, Site, get, post

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.home import Home
    from holdfast.api.machine import Machine
    from holdfast.api.plan import HomePlan
    from holdfast.api.plans_across_homes import MachinePlan
    from holdfast.model.figures import DiskRoom
    from holdfast.web.jobs import Run


_SUMMED = ("count", "bytes", "to_trash", "for_good", "for_good_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The controls next to a plan."""

    controls: Sequence[Control]
    rows: Sequence[Row]
    homes: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The plan of each requested home, and homes that cannot be read."""

    plans: Sequence[tuple[str, str, PlanView]]
    unread: Sequence[tuple[str, str]]
    #: The fingerprint of config.toml, if other settings were tried in one home.
    config: str = ""
    #: The fullest disk with a home on it, if it is nearly full.
    full: DiskRoom | None = None
    #: Sums over the plans.
    count: int
    bytes: int
    to_trash: int
    for_good: int
    for_good_count: int

    @property
    def frees_nothing(self) -> bool:
        """True if the disk is nearly full but the trash would keep the space."""
        return self.full is not None and self.to_trash > 0

    @property
    def steps(self) -> int:
        return sum(not plan.does_nothing for _, _, plan in self.plans)


async def show(site: Site, request: Request) -> Response:
    """The controls, and the plan that results from them."""
    asked = _asked(request)

    def look(machine: Machine) -> tuple[Panel, Planned | None, UsageError | None]:
        planned, error = None, None
        try:
            planned = _plan(site, machine, asked)
        except UsageError as wrong:
            error = wrong
        return _panel(site, machine, asked, planned), planned, error

    panel, planned, error = await site.threads.work(look)
    return site.page(
        request,
        "cleanup/show.html",
        status=200 if error is None else 400,
        title="Clean up",
        asked=asked,
        panel=panel,
        planned=planned,
        error=error,
    )


async def plan(site: Site, request: Request) -> Response:
    """Only the plan, after controls were moved."""
    asked = _asked(request)
    try:
        planned = await site.threads.work(lambda machine: _plan(site, machine, asked))
    except UsageError as error:
        return site.fragment("cleanup/_wrong.html", status=400, error=error)
    return site.fragment("cleanup/_plan.html", asked=asked, planned=planned)


async def save(site: Site, request: Request) -> Response:
    """The plan of one home as a file for `holdfast apply`."""
    asked = _asked(request)
    if not asked.home:
        raise UsageError("A saved plan is for one home.", hint="Pick a home first.")

    def saved(machine: Machine, file: BinaryIO) -> None:
        [(_, planned)] = _plans(site, machine, asked).plans
        file.write(planned.document())

    return await site.download(saved, "holdfast-plan.json", "application/json")


async def confirm(site: Site, request: Request) -> Response:
    """Everything that the user should know before anything is removed."""
    asked = _asked(request)
    planned = await site.threads.work(lambda machine: _plan(site, machine, asked))
    return site.page(
        request, "cleanup/confirm.html", title="Clean up", asked=asked, planned=planned
    )


async def apply(site: Site, request: Request) -> Response:
    """Apply what the user agreed to, in all homes or in none."""
    form = await site.form(request)
    asked = read_asked(form.fields)
    agreed = form.agreed()

    def run(job: Run) -> Sequence[Done]:
        with site.machine(asked.command) as machine:
            planned = _plans(site, machine, asked, pack=True)
            planned.expect_same(agreed, lambda home, _: site.slug(home))
            expect_known(form, *(each for _, each in planned.plans))
            return [
                Done(
                    home=each.home,
                    report=each.report,
                    error=each.error,
                    full=bool(_full(machine, [each.home])),
                )
                for each in planned.apply(progress=job)
            ]

    uses_trash = asked.trash is not TrashUse.NEVER
    job = site.jobs.start(
        f"Clean up: {asked.title.lower()}",
        run,
        back=f"/cleanup?{asked.query()}",
        for_good=f"/cleanup?{asked.query(trash=TrashUse.NEVER.value)}" if uses_trash else "",
    )
    return await started(site, job)


async def keep(site: Site, request: Request) -> Response:
    """Make the tried settings the policy of that home."""
    form = await site.form(request)
    asked = read_asked(form.fields)
    if not asked.home:
        raise UsageError("A policy belongs to one home.", hint="Pick a home first.")

    def run(machine: Machine) -> None:
        place = machine.place(site.home_of(machine, asked.home))
        changes = asked.trial(asked.home, place.settings).changes
        change = plan_several(place, changes)
        expect_same(form.one("config"), fingerprint(change.before))
        change.apply()

    await site.change("config set", run)
    return site.see_other(f"/configuration/{quote(asked.home, safe='')}?set=The+policy")


def _asked(request: Request) -> Asked:
    return read_asked(Site.query(request).fields)


def _panel(site: Site, machine: Machine, asked: Asked, planned: Planned | None) -> Panel:
    homes = [(site.slug(each), each.label) for each in machine.homes]
    if asked.home:
        home = machine.open(site.home_of(machine, asked.home))
        store = home.session_store
        known = set(store.sources()) if store is not None else set()
        if planned is not None:  # files without a session have a source too
            known |= {source for _, _, plan in planned.plans for source in plan.sources}
        rows = of_sources(asked, home.settings, known)
        return Panel(controls=controls(asked, [home.settings]), rows=rows, homes=homes)
    seen = machine.look(lambda place: place.settings).seen
    rows = of_homes(asked, [(site.slug(home), home.label, found) for home, found in seen])
    return Panel(controls=controls(asked, [found for _, found in seen]), rows=rows, homes=homes)


def _plans(
    site: Site, machine: Machine, asked: Asked, *, pack: bool = False
) -> MachinePlan[HomePlan]:
    """The plan of each home, or of the requested one. `pack` is for a caller that changes
    something."""
    slugs = {home.path: site.slug(home) for home in machine.homes}

    def make(home: Home) -> HomePlan:
        return plan_trial(home, asked.trial(slugs[home.path], home.settings), pack=pack)

    only = [site.home_of(machine, asked.home)] if asked.home else None
    return machine.plan(make, homes=only)


def _plan(site: Site, machine: Machine, asked: Asked) -> Planned:
    config = ""
    made = _plans(site, machine, asked)
    if asked.home:
        place = machine.place(made.plans[0][0])
        if asked.trial(asked.home, place.settings).changes:
            config = fingerprint(text_of(place.config_file))
    views = [(site.slug(home), home.label, view_plan(each)) for home, each in made.plans]
    return Planned(
        plans=sorted(views, key=lambda each: -each[2].bytes),
        unread=[(str(each.path), each.error.message) for each in made.unread],
        config=config,
        full=_full(machine, [home for home, _ in made.plans]),
        **{each: sum(getattr(view, each) for _, _, view in views) for each in _SUMMED},
    )


def _full(machine: Machine, homes: Sequence[AgentHome]) -> DiskRoom | None:
    rooms = [each.room for each in machine.disks(homes)]
    return next((each for each in rooms if each.is_nearly_full), None)


SCREEN = Screen(
    title="Clean up",
    path="/cleanup",
    icon="cleanup",
    order=30,
    routes=(
        get("/cleanup", show),
        get("/cleanup/plan", plan),
        get("/cleanup/plan.json", save),
        get("/cleanup/confirm", confirm),
        post("/cleanup/apply", apply),
        post("/cleanup/policy", keep),
    ),
)

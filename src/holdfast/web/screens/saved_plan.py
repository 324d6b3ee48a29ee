"""A saved plan: opened on the page, reviewed, and applied as `holdfast apply` does it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.api.plan import expect_same, planned_home
from holdfast.errors import PlanFileError
from holdfast.value import dataclass
from holdfast.web.jobs import Done
from holdfast.web.plan_view import PlanView, expect_known, view_plan
from holdfast.web.screens.jobs import started
from holdfast.web.site import Screen, Site, UnknownPageError, get, post

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine
    from holdfast.api.plan import HomePlan
    from holdfast.web.jobs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A plan from a file, as it is shown."""

    label: str
    made_at: float
    plan: PlanView


async def receive(site: Site, request: Request) -> Response:
    """Accept the file if it is a plan for one of these homes."""
    path = site.upload(request)
    await site.threads.work(lambda machine: _plan(machine, path)[0].label)
    name = secrets.token_urlsafe(8)
    site.uploads.keep(name, path)
    return site.see_other(f"/cleanup/saved/{name}")


async def show(site: Site, request: Request) -> Response:
    """What the plan does, before the user agrees to it."""
    path = _path(site, request)

    def look(machine: Machine) -> Opened:
        home, planned = _plan(machine, path)
        return Opened(label=home.label, made_at=planned.plan.made_at, plan=view_plan(planned))

    return site.page(
        request,
        "cleanup/saved.html",
        title="A saved plan",
        name=path.name,
        opened=await site.threads.work(look),
        id=request.path_params["plan"],
    )


async def apply(site: Site, request: Request) -> Response:
    """Apply it. Items that changed since it was made are skipped and reported."""
    form = await site.form(request)
    path = _path(site, request)
    agreed = form.one("agree")

    def run(job: Run) -> Sequence[Done]:
        with site.machine("apply") as machine:
            home, planned = _plan(machine, path)
            expect_same(agreed, planned.fingerprint)
            expect_known(form, planned)
            planned.expect_room(hint="Empty the trash first, or remove for good on Clean up.")
            return [Done(home=home, report=planned.apply(progress=job))]

    back = f"/cleanup/saved/{request.path_params['plan']}"
    return await started(site, site.jobs.start("Apply a saved plan", run, back=back))


def _path(site: Site, request: Request) -> Path:
    found = site.uploads.get(request.path_params["plan"])
    if found is None:
        raise UnknownPageError(
            "This plan is no longer open here.", hint="Open its file again on Clean up."
        )
    return found


def _plan(machine: Machine, path: Path) -> tuple[AgentHome, HomePlan]:
    """The plan and its home. Errors name the file as the user knows it, not by its path here."""
    try:
        root = planned_home(path)
        for home in machine.homes:
            if home.path.resolve() == root:
                return home, machine.open(home).load_plan(path)
    except PlanFileError as error:
        raise PlanFileError(error.message.replace(str(path), path.name), hint=error.hint) from error
    raise PlanFileError(
        f"{path.name} was made for {root}, which is not a home on this machine.",
        hint="Make a new plan.",
    )


SCREEN = Screen(
    routes=(
        post("/cleanup/saved", receive),
        get("/cleanup/saved/{plan}", show),
        post("/cleanup/saved/{plan}/apply", apply),
    ),
)

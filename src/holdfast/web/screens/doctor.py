"""Doctor: checks whether everything in a home is in order, and advises what to do if not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.api.home import Home
from holdfast.errors import UsageError
from holdfast.web.jobs import Done
from holdfast.web.screens.jobs import started
from holdfast.web.site import Screen, Site, get, post

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine
    from holdfast.api.values import Diagnosis
    from holdfast.web.jobs import Run


async def show(site: Site, request: Request) -> Response:
    """The homes. A check reads a whole home, so it runs only on request."""

    def look(machine: Machine) -> tuple[Sequence[tuple[str, AgentHome]], Sequence[tuple[str, str]]]:
        homes = [(site.slug(each), each) for each in machine.homes]
        return homes, [(str(each.path), each.error.message) for each in machine.unread]

    homes, unread = await site.threads.read(look)
    return site.page(request, "doctor/homes.html", title="Doctor", homes=homes, unread=unread)


async def check(site: Site, request: Request) -> Response:
    """The findings of a check of one home. It only reads."""
    slug = request.path_params["home"]

    def look(machine: Machine) -> tuple[AgentHome, Diagnosis]:
        home = site.home_of(machine, slug)
        return home, _open(machine, home).doctor()

    home, found = await site.threads.in_own_thread(look)
    return site.page(
        request, "doctor/check.html", title="Doctor", slug=slug, home=home, found=found
    )


def _open(machine: Machine, home: AgentHome) -> Home:
    """The home, even if its settings are wrong."""
    return Home(machine.unchecked_place(home))


async def repair(site: Site, request: Request) -> Response:
    """Repair what can be repaired, after a backup."""
    slug = request.path_params["home"]

    def run(job: Run) -> Sequence[Done]:
        with site.machine("doctor --repair") as machine:
            home = site.home_of(machine, slug)
            opened = _open(machine, home)
            found = opened.doctor(progress=job)
            if not found.repairable:
                raise UsageError("There is nothing to repair any more. Nothing was done.")
            return [Done(home=home, report=opened.repair(found, progress=job))]

    return await started(site, site.jobs.start("Repair", run, back=f"/doctor/{slug}"))


SCREEN = Screen(
    title="Doctor",
    path="/doctor",
    icon="doctor",
    order=90,
    routes=(
        get("/doctor", show),
        get("/doctor/{home}", check),
        post("/doctor/{home}/repair", repair),
    ),
)

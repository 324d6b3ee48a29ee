"""Trash: what undo can still bring back, and emptying it permanently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.api.plan import expect_same
from holdfast.api.trash import Trash, Trashed
from holdfast.errors import UsageError
from holdfast.value import dataclass
from holdfast.web.jobs import Done
from holdfast.web.plan_view import PlanView, view_plan
from holdfast.web.screens.jobs import started
from holdfast.web.site import Screen, Site, get, post

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.machine import Machine
    from holdfast.web.jobs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeTrash:
    slug: str
    label: str
    groups: Sequence[Trashed]

    @property
    def path(self) -> str:
        return f"/trash/{quote(self.slug, safe='')}"

    @property
    def items(self) -> int:
        return sum(len(each.entries) for each in self.groups)

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.groups)


async def show(site: Site, request: Request) -> Response:
    def look(machine: Machine) -> tuple[Sequence[HomeTrash], Sequence[tuple[str, str]]]:
        looked = machine.look(lambda place: Trash(place).by_operation())
        homes = [
            HomeTrash(slug=site.slug(home), label=home.label, groups=groups)
            for home, groups in looked.seen
            if groups
        ]
        return homes, [(str(each.path), each.error.message) for each in looked.unread]

    homes, unread = await site.threads.read(look)
    return site.page(request, "trash/list.html", title="Trash", homes=homes, unread=unread)


async def confirm(site: Site, request: Request) -> Response:
    """What emptying would remove permanently."""
    operations = site.query(request).many("operation")

    def look(machine: Machine) -> tuple[str, PlanView]:
        home = site.home_of(machine, request.path_params["home"])
        return home.label, view_plan(machine.open(home).trash.plan_empty(operations))

    label, plan = await site.threads.work(look)
    return site.page(
        request,
        "trash/empty.html",
        title="Trash",
        slug=request.path_params["home"],
        label=label,
        plan=plan,
        operations=operations,
    )


async def empty(site: Site, request: Request) -> Response:
    form = await site.form(request)
    operations, agreed = form.many("operation"), form.one("agree")
    slug = request.path_params["home"]
    if not form.flag("for_good"):
        raise UsageError(
            "Emptying the trash cannot be undone, and you did not confirm that.",
            hint="Tick the confirmation box. Nothing was done.",
        )

    def run(job: Run) -> Sequence[Done]:
        with site.machine("trash empty") as machine:
            home = site.home_of(machine, slug)
            planned = machine.open(home).trash.plan_empty(operations)
            expect_same(agreed, planned.fingerprint)
            return [Done(home=home, report=planned.apply(progress=job))]

    return await started(site, site.jobs.start("Empty the trash", run, back="/trash"))


SCREEN = Screen(
    title="Trash",
    path="/trash",
    icon="trash",
    order=60,
    routes=(
        get("/trash", show),
        get("/trash/{home}/empty", confirm),
        post("/trash/{home}/empty", empty),
    ),
)

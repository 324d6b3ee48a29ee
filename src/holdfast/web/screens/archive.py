"""Archive: the sessions that left their store as compressed bundles, and bringing them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from holdfast.api.archive import ArchivedSessions
from holdfast.errors import UsageError
from holdfast.model.archive import Holds
from holdfast.model.session import SessionFilter
from holdfast.value import dataclass
from holdfast.web.jobs import Done
from holdfast.web.screens.jobs import started
from holdfast.web.site import Screen, Site, get, post

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.machine import Machine
    from holdfast.api.machine_sessions import FoundSession
    from holdfast.model.archive import ArchivedSession
    from holdfast.web.jobs import Run

_ON_A_PAGE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Some of the bundles, each with the place of the session if the bundle has only its files."""

    found: Sequence[tuple[FoundSession, ArchivedSession, str]]
    total: int
    problems: Sequence[str]
    unread: Sequence[tuple[str, str]]


async def show(site: Site, request: Request) -> Response:
    query = site.query(request)
    title = query.one("title").strip()
    offset = query.whole("offset")
    listed = await site.threads.work(lambda machine: _look(machine, title, offset))
    return site.page(
        request,
        "archive/list.html",
        title="Archive",
        listed=listed,
        slug=site.slug,
        wanted=title,
        offset=offset,
        limit=_ON_A_PAGE,
        address=lambda start: f"/archive?{urlencode({'title': title, 'offset': start})}",
    )


def _look(machine: Machine, title: str, offset: int) -> Listed:
    wanted = SessionFilter(title=title) if title else None
    page = machine.list_sessions(
        wanted, archived=True, openings=True, limit=_ON_A_PAGE, offset=offset
    )
    problems = machine.look(lambda place: ArchivedSessions(place).problems()).seen
    found = [
        (each, each.archived, _elsewhere(each)) for each in page.found if each.archived is not None
    ]
    return Listed(
        found=found,
        total=page.total,
        problems=[
            f"{home.label}: {each.path}: {each.reason}" for home, seen in problems for each in seen
        ],
        unread=[(str(each.path), each.error.message) for each in page.looked.unread],
    )


def _elsewhere(found: FoundSession) -> str:
    if found.archived is None or found.archived.holds is not Holds.FILES:
        return ""
    places: Mapping[str, str] = getattr(found.page, "places", {})
    return places.get(found.session.id, "gone")


async def restore(site: Site, request: Request) -> Response:
    """Bring sessions back, home by home. Nothing can be lost by that, so there is no
    confirmation."""
    form = await site.form(request)
    chosen: dict[str, list[str]] = {}
    for each in form.many("session"):
        slug, mark, name = each.partition(":")
        if not mark or not name:
            raise UsageError(
                "The form does not name an archived session. Nothing was done.",
                hint="Load the page again.",
            )
        chosen.setdefault(slug, []).append(name)
    if not chosen:
        raise UsageError("No session was chosen.", hint="Tick the sessions to restore.")
    place = "vault" if form.one("from") == "vault" else "archive"

    def run(job: Run) -> Sequence[Done]:
        with site.machine("sessions restore") as machine:
            planned = []
            for slug, ids in chosen.items():
                home = site.home_of(machine, slug)
                planned.append((home, machine.open(home).archive.plan_restore(ids)))
            return [Done(home=home, report=each.apply(progress=job)) for home, each in planned]

    job = site.jobs.start(f"Restore from the {place}", run, back=f"/{place}")
    return await started(site, job)


SCREEN = Screen(
    title="Archive",
    path="/archive",
    icon="archive",
    order=80,
    routes=(get("/archive", show), post("/archive/restore", restore)),
)

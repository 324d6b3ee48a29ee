"""Changes of sessions: pin, rename, archive, delete.

The form that names sessions is the same everywhere. Without the fingerprint of a plan it shows the
plan; with a fingerprint it carries out exactly that plan, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from holdfast.errors import UsageError
from holdfast.model.archive import size_words
from holdfast.model.session import SessionFilter
from holdfast.value import dataclass
from holdfast.web.jobs import Done
from holdfast.web.plan_view import view_plan
from holdfast.web.screens.jobs import started
from holdfast.web.site import Form, Screen, Site, post

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.home import Home
    from holdfast.api.machine import Machine
    from holdfast.api.machine_sessions import FoundSession
    from holdfast.api.plan import HomePlan
    from holdfast.api.plans_across_homes import DoneInHome, MachinePlan
    from holdfast.web.jobs import Run
    from holdfast.web.plan_view import PlanView

_MOST_NAMED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Sessions by the slug of their home."""

    by_home: Sequence[tuple[str, Sequence[str]]]

    @classmethod
    def of(cls, form: Form) -> Named:
        found: dict[str, list[str]] = {}
        for each in form.many("s"):
            slug, _, session = each.partition(":")
            if not session:
                raise UsageError("The form names a session without its home. Nothing was done.")
            found.setdefault(slug, []).append(session)
        if not found:
            raise UsageError(
                "No session was chosen. Nothing was done.", hint="Tick some in the list."
            )
        return cls(by_home=list(found.items()))

    @property
    def count(self) -> int:
        return sum(len(ids) for _, ids in self.by_home)

    @property
    def address(self) -> str:
        """The address of the session if there is only one, otherwise of the list."""
        if self.count != 1:
            return "/sessions"
        [(slug, [session])] = self.by_home
        query = urlencode({"id": session}, errors="surrogateescape")
        return f"/sessions/{slug}/read?{query}"

    @property
    def fields(self) -> Sequence[str]:
        return [f"{slug}:{each}" for slug, ids in self.by_home for each in ids]

    def homes(self, site: Site, machine: Machine) -> Sequence[tuple[AgentHome, Sequence[str]]]:
        return [(site.home_of(machine, slug), ids) for slug, ids in self.by_home]


async def pin(site: Site, request: Request) -> Response:
    form = await site.form(request)
    named, pinned = Named.of(form), form.one("pinned", "yes") == "yes"

    def change(machine: Machine) -> None:
        for home, ids in named.homes(site, machine):
            machine.open(home).pin_sessions(ids, pinned)

    await site.change(f"sessions {'pin' if pinned else 'unpin'}", change)
    return site.see_other(named.address)


async def rename(site: Site, request: Request) -> Response:
    form = await site.form(request)
    named, title = Named.of(form), form.one("title").strip()
    if named.count != 1:
        raise UsageError("One session is renamed at a time. Nothing was done.")

    def change(machine: Machine) -> None:
        [(home, [session])] = named.homes(site, machine)
        machine.open(home).rename_session(session, title or None)

    await site.change("sessions rename", change)
    return site.see_other(named.address)


async def delete(site: Site, request: Request) -> Response:
    return await _leave(site, request, "delete", lambda home, ids: home.plan_delete(ids))


async def archive(site: Site, request: Request) -> Response:
    return await _leave(site, request, "archive", lambda home, ids: home.plan_archive(ids))


async def _leave(
    site: Site, request: Request, what: str, plan: Callable[[Home, Sequence[str]], HomePlan]
) -> Response:
    """Show the plan, or carry out the one that was agreed to."""
    form = await site.form(request)
    named = Named.of(form)

    def plans(machine: Machine) -> MachinePlan[HomePlan]:
        ids = {home.path: each for home, each in named.homes(site, machine)}
        homes = [home for home, _ in named.homes(site, machine)]
        return machine.plan(lambda home: plan(home, ids[home.path]), homes=homes)

    agreed = form.agreed()
    if not agreed:

        def look(
            machine: Machine,
        ) -> tuple[Sequence[tuple[str, str, PlanView]], Sequence[FoundSession]]:
            made = plans(machine)
            shown = [(site.slug(home), home.label, view_plan(each)) for home, each in made.plans]
            return shown, _named(machine, named.homes(site, machine))

        shown, sessions = await site.threads.work(look)
        return site.page(
            request,
            "sessions/leave.html",
            title=f"{what.capitalize()} sessions",
            what=what,
            named=named,
            plans=shown,
            sessions=sessions,
            count=sum(each.count for _, _, each in shown),
            bytes=sum(each.bytes for _, _, each in shown),
            for_good=sum(each.for_good_count for _, _, each in shown),
        )

    def run(job: Run) -> Sequence[Done]:
        with site.machine(f"sessions {what}") as machine:
            made = plans(machine)
            made.expect_same(agreed, lambda home, _: site.slug(home))
            made.expect_room(hint="Empty the trash first, or remove for good on Clean up.")
            done = [_left(machine, each) for each in made.apply(progress=job)]
        site.threads.changed()
        return done

    job = site.jobs.start(f"{what.capitalize()} sessions", run, back="/sessions")
    return await started(site, job)


def _left(machine: Machine, done: DoneInHome) -> Done:
    report = done.report
    archived = (
        machine.open(done.home).archive.of_operation(report.operation)
        if report is not None and report.archived and report.operation
        else ()
    )
    on_disk = 0 if report is None else report.report.bytes_in_archive
    note = f"{size_words(archived, on_disk)}." if archived else ""
    return Done(home=done.home, report=report, error=done.error, note=note)


def _named(
    machine: Machine, homes: Sequence[tuple[AgentHome, Sequence[str]]]
) -> Sequence[FoundSession]:
    """The sessions with the names that people know; of very many, the last active ones."""
    return [
        each
        for home, ids in homes
        for each in machine.list_sessions(
            SessionFilter(ids=tuple(ids)), limit=_MOST_NAMED, openings=True, homes=[home]
        ).found
    ]


SCREEN = Screen(
    routes=(
        post("/sessions/pin", pin),
        post("/sessions/rename", rename),
        post("/sessions/archive", archive),
        post("/sessions/delete", delete),
    ),
)

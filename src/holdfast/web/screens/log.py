"""The log: what was done in every home, and undoing or redoing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from holdfast.api.plan import expect_same
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.operation import Operation, in_words
from holdfast.model.plan import EDITS, Action
from holdfast.model.plan_words import (
    did,
    kind_name,
    net_words,
    redo_effect,
    shown_name,
    undo_effect,
)
from holdfast.value import dataclass, replace
from holdfast.web.jobs import Done
from holdfast.web.plan_view import view_plan
from holdfast.web.screens.jobs import started
from holdfast.web.site import Screen, Site, get, post

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.home import Home
    from holdfast.api.machine import Machine
    from holdfast.api.redo import RedoPlan
    from holdfast.api.undo import UndoPlan
    from holdfast.api.values import Foreseen
    from holdfast.model.plan import PlanItem
    from holdfast.web.jobs import Run

_ON_A_PAGE = 50
_MOST_ITEMS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One operation of one home. `can_undo` and `can_redo` apply to the present moment."""

    label: str
    slug: str
    operation: Operation
    did: str
    can_undo: bool
    can_redo: bool
    #: The number of homes, if it was one run over several.
    over: int = 0
    #: True if it can be undone or redone together with the whole of that run.
    as_a_whole: bool = False

    @property
    def freed(self) -> str:
        """What it freed, less what it put into the archive; empty if it freed nothing."""
        freed, in_archive = self.operation.bytes_freed, self.operation.bytes_in_archive
        return net_words(freed, in_archive, now=" at once") if freed else ""

    @property
    def path(self) -> str:
        return f"/log/{quote(self.slug, safe='')}/{self.operation.id}"

    @property
    def whole(self) -> str:
        """The confirmation page for the whole run."""
        return f"/log/runs/{quote(self.operation.run or '', safe='')}"


async def show(site: Site, request: Request) -> Response:
    """The operations of all homes, the latest first."""
    query = site.query(request)
    chosen = query.one("home")
    offset = query.whole("offset")

    def look(
        machine: Machine,
    ) -> tuple[Sequence[Entry], int, Sequence[str], Sequence[tuple[str, str]]]:
        looked = machine.logs()
        entries, damage = [], []
        for home, view in looked.seen:
            slug = site.slug(home)
            if not chosen or slug == chosen:
                damage += [f"{home.label}: {each.reason}" for each in view.problems]
            waiting = view.redoable
            entries += [entry_of(home.label, slug, each, waiting) for each in view.operations]
        entries = [each for each in _in_runs(entries) if not chosen or each.slug == chosen]
        entries.sort(key=lambda each: -each.operation.started_at)
        homes = [(site.slug(each), each.label) for each in machine.homes]
        return entries[offset : offset + _ON_A_PAGE], len(entries), damage, homes

    entries, total, damage, homes = await site.threads.read(look)
    return site.page(
        request,
        "log/list.html",
        title="Log",
        entries=entries,
        total=total,
        offset=offset,
        limit=_ON_A_PAGE,
        address=lambda start: f"/log?{urlencode({'home': chosen, 'offset': start})}",
        damage=damage,
        homes=homes,
        chosen=chosen,
    )


def _in_runs(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Each entry with the facts about the run that it was part of. While something of a run can be
    undone, the page of that run offers an undo."""
    runs = Counter(each.operation.run for each in entries)
    to_undo = {each.operation.run for each in entries if each.can_undo}
    return [
        replace(
            each,
            over=runs[run],
            as_a_whole=runs[run] > 1 and each.can_undo == (run in to_undo),
        )
        if (run := each.operation.run)
        else each
        for each in entries
    ]


def entry_of(label: str, slug: str, operation: Operation, waiting: Collection[str]) -> Entry:
    """One operation as it is listed; those that are `waiting` can be redone."""
    return Entry(
        label=label,
        slug=slug,
        operation=operation,
        did=did(operation),
        can_undo=operation.can_undo,
        can_redo=operation.id in waiting,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What undoing or redoing an operation would do, for the user to confirm."""

    verb: str
    entry: Entry
    command: str
    agree: str
    facts: Sequence[str]
    items: Sequence[tuple[str, str, int]]
    total: int
    effect: str
    projects: Sequence[Foreseen]
    needs_asking: bool
    for_good: str = ""


async def one(site: Site, request: Request) -> Response:
    """One operation: what it did, and the items that could come back."""

    def look(machine: Machine) -> tuple[Entry, Again | None, HoldfastError | None]:
        home, entry = _named(site, machine, request)
        try:
            return entry, again_of(home, entry, "redo" if entry.can_redo else "undo"), None
        except HoldfastError as error:
            return entry, None, error

    entry, again, error = await site.threads.work(look)
    return site.page(
        request,
        "log/one.html",
        title=f"Operation {entry.operation.id}",
        entry=entry,
        again=again,
        error=error,
        sure=False,
    )


async def _preview(site: Site, request: Request, *, verb: str) -> Response:
    return _asking(site, request, await _again(site, request, verb))


async def _again(site: Site, request: Request, verb: str) -> Again:
    return await site.threads.work(lambda machine: again_of(*_named(site, machine, request), verb))


def _asking(site: Site, request: Request, again: Again) -> Response:
    return site.page(
        request,
        "log/one.html",
        title=f"{again.verb.capitalize()} operation {again.entry.operation.id}?",
        entry=again.entry,
        again=again,
        error=None,
        sure=True,
    )


async def _carry_out(site: Site, request: Request, *, verb: str) -> Response:
    """Undo or redo one operation. Where the command would ask for confirmation, so does the
    page."""
    agreed = (await site.form(request)).one("agree")
    slug, number = request.path_params["home"], request.path_params["operation"]
    if not agreed:
        again = await _again(site, request, verb)
        if again.needs_asking:
            return _asking(site, request, again)
        agreed = again.agree

    def run(job: Run) -> Sequence[Done]:
        with site.machine(verb) as machine:
            home = site.home_of(machine, slug)
            planned = plan_of(machine.open(home), number, verb)
            expect_same(agreed, planned.fingerprint)
            return [Done(home=home, report=planned.apply(progress=job))]

    job = site.jobs.start(f"{verb.capitalize()} operation {number}", run, back="/log")
    return await started(site, job)


async def undo_several(site: Site, request: Request) -> Response:
    """Undo the operations that one run performed in several homes."""
    form = await site.form(request)
    named = [each.rpartition(":") for each in form.many("operation")]
    if not named or not all(slug and number for slug, _, number in named):
        raise UsageError("No operation was named. Nothing was done.")

    def run(job: Run) -> Sequence[Done]:
        with site.machine("undo --all-homes") as machine:
            operations = [(site.home_of(machine, slug), number) for slug, _, number in named]
            done = machine.undo_each(operations, progress=job)
            return [Done(home=each.home, report=each.report, error=each.error) for each in done]

    return await started(site, site.jobs.start("Undo", run, back="/log"))


def _named(site: Site, machine: Machine, request: Request) -> tuple[Home, Entry]:
    slug = request.path_params["home"]
    home: AgentHome = site.home_of(machine, slug)
    opened = machine.open(home)
    view = opened.log.read()
    waiting = view.redoable
    operation = opened.log.get(request.path_params["operation"])
    return opened, entry_of(home.label, slug, operation, waiting)


def plan_of(home: Home, operation: str, verb: str) -> UndoPlan | RedoPlan:
    return home.plan_redo(operation) if verb == "redo" else home.plan_undo(operation)


def again_of(home: Home, entry: Entry, verb: str) -> Again:
    """What an undo or a redo would do, as it is shown."""
    if verb == "redo":
        return redo_of(home.plan_redo(entry.operation.id), entry)
    return undo_of(home.plan_undo(entry.operation.id), entry)


def undo_of(planned: UndoPlan, entry: Entry) -> Again:
    target = planned.operation
    items = [each.item for each in planned.removals if each.key not in planned.foreseen]
    items += planned.files
    facts = []
    if planned.since:
        later, latest = in_words([each.id for each in planned.since]), planned.since[0].command
        last = "the last: " if len(planned.since) > 1 else ""
        facts.append(f"Since then, {later} ran ({last}{latest}).")
    edits = sum(item.action in EDITS for item in items)
    if edits:
        facts.append(f"It takes back {edits:,} changes of names, pins or settings.")
    stuck = [each.obstacle for each in planned.edited.values() if each.obstacle]
    facts += [f"One of them cannot be undone now: it {each}." for each in stuck[:3]]
    final = target.removed_for_good
    return Again(
        verb="undo",
        entry=entry,
        command=planned.command,
        agree=planned.fingerprint,
        facts=facts,
        **_shown(items),
        effect=undo_effect(items),
        projects=list(planned.foreseen.values()),
        needs_asking=planned.needs_asking,
        for_good=f"{final:,} of it cannot come back: removed for good." if final else "",
    )


def redo_of(planned: RedoPlan, entry: Entry) -> Again:
    plan = planned.planned
    view = view_plan(plan)
    # Reclaiming space follows from the removals; people would not count it as an item.
    items = [each for each in plan.plan.steps if each.action is not Action.RECLAIM]
    return Again(
        verb="redo",
        entry=entry,
        command=planned.command,
        agree=planned.fingerprint,
        facts=[
            "What changed since it was undone stays as it is.",
            *([view.undo] if view.undo else []),
        ],
        **_shown(items),
        effect=redo_effect(items),
        projects=list(planned.foreseen.values()),
        needs_asking=True,
    )


def _shown(items: Sequence[PlanItem]) -> dict[str, Any]:
    few = items[:_MOST_ITEMS]
    return {
        "items": [(shown_name(each), kind_name(each.kind), each.bytes) for each in few],
        "total": len(items),
    }


_ONE = "/log/{home}/{operation}"
SCREEN = Screen(
    title="Log",
    path="/log",
    icon="log",
    order=70,
    routes=(
        get("/log", show),
        post("/log/undo", undo_several),
        get(_ONE, one),
        *(get(f"{_ONE}/{verb}", partial(_preview, verb=verb)) for verb in ("undo", "redo")),
        *(post(f"{_ONE}/{verb}", partial(_carry_out, verb=verb)) for verb in ("undo", "redo")),
    ),
)

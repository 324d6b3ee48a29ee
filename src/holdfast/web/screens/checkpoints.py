"""Checkpoints: the timeline of each project, what changed, and going back to one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes, urlencode

from holdfast.api.checkpoints import Checkpoints
from holdfast.api.plan import expect_same
from holdfast.errors import HoldfastError, UnknownCheckpointError
from holdfast.model.checkpoint import Checkpoint, ProjectState
from holdfast.model.patch import FilePatch, read_patch
from holdfast.value import dataclass
from holdfast.web.jobs import Done
from holdfast.web.rendering import day
from holdfast.web.screens.jobs import started
from holdfast.web.site import Screen, Site, UnknownPageError, get, post

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.machine import Machine
    from holdfast.model.checkpoint import Change, NotCaptured, Project
    from holdfast.web.jobs import Run

#: How many changed files and checkpoints one page lists.
_MOST_FILES = 1_000
_ON_A_PAGE = 100
#: How many sessions one page looks up in all homes.
_MOST_LINKS = 20
#: What a checkpoint is compared with.
NOW, BEFORE = "now", "before"
_GONE = (ProjectState.MISSING, ProjectState.UNMOUNTED, ProjectState.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A project in a home, and its address."""

    home: AgentHome
    slug: str
    project: Project

    @property
    def path(self) -> str:
        return f"/checkpoints/{quote(self.slug, safe='')}/{quote(self.project.id, safe='')}"

    @property
    def gone(self) -> bool:
        """True if there is no directory on this machine to compare with."""
        return self.project.state in _GONE or bool(self.project.machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    ref: str
    path: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The changed files, and the diff of one of them: the `chosen` one, or the first."""

    old: Checkpoint
    new: Checkpoint | None = None
    files: Sequence[ChangedFile] = ()
    hidden: int = 0
    chosen: ChangedFile | None = None
    patches: Sequence[FilePatch] = ()
    problem: str = ""


async def projects(site: Site, request: Request) -> Response:
    """Every project that has checkpoints, by home."""

    def look(machine: Machine) -> tuple[Sequence[At], Sequence[tuple[str, str]]]:
        looked = machine.look(lambda place: Checkpoints(place).projects())
        found = [
            At(home=home, slug=site.slug(home), project=each)
            for home, seen in looked.seen
            for each in seen
        ]
        found.sort(key=lambda each: -each.project.last_touch)
        return found, [(str(each.path), each.error.message) for each in looked.unread]

    found, unread = await site.threads.work(look)
    return site.page(
        request, "checkpoints/projects.html", title="Checkpoints", found=found, unread=unread
    )


async def timeline(site: Site, request: Request) -> Response:
    """The checkpoints of one project, the newest first, by day and session."""
    offset = site.query(request).whole("offset")

    def look(machine: Machine) -> tuple[At, int, Sequence[Checkpoint], Mapping[str, str]]:
        at, checkpoints = _at(site, machine, request)
        found = _of(checkpoints, at.project)
        shown = found[offset : offset + _ON_A_PAGE]
        return at, len(found), shown, _session_links(site, machine, shown)

    at, total, shown, links = await site.threads.work(look)
    days = [
        (
            name,
            [
                (session, list(members))
                for session, members in groupby(of_day, key=lambda each: each.session)
            ],
        )
        for name, of_day in groupby(shown, key=lambda each: day(each.time))
    ]
    return site.page(
        request,
        "checkpoints/timeline.html",
        title="Checkpoints",
        at=at,
        days=days,
        total=total,
        links=links,
        offset=offset,
        limit=_ON_A_PAGE,
        address=lambda start: f"{at.path}?offset={start}",
    )


async def show(site: Site, request: Request) -> Response:
    """What changed since a checkpoint, or by it; one file at a time."""
    query = site.query(request)
    against = query.one("against")
    chosen = _path_of(query.one("path")) or None

    def look(machine: Machine) -> tuple[At, Compared, Mapping[str, str]]:
        at, checkpoints = _at(site, machine, request)
        which = checkpoints.get(request.path_params["checkpoint"])
        compared = _compare(checkpoints, at, which, against or _usual(at), chosen)
        return at, compared, _session_links(site, machine, [which])

    at, compared, links = await site.threads.work(look)
    side = query.one("view") == "split"

    def address(**other: str) -> str:
        wanted = {"against": against or _usual(at), "view": "split" if side else "inline", **other}
        return f"{at.path}/{compared.old.id}?{urlencode(wanted)}"

    return site.page(
        request,
        "checkpoints/show.html",
        title="Checkpoint",
        at=at,
        checkpoint=compared.old,
        compared=compared,
        links=links,
        against=against or _usual(at),
        side=side,
        address=address,
    )


async def preview(site: Site, request: Request) -> Response:
    """What a restore would write and delete, before the user agrees to it."""
    paths = [_path_of(each) for each in site.query(request).many("path")]

    def look(machine: Machine) -> _Restore:
        at, checkpoints = _at(site, machine, request)
        planned = checkpoints.plan_restore(request.path_params["checkpoint"], _whole(at, paths))
        written, seen = planned.preview.written, planned.preview.seen
        return _Restore(
            at=at,
            checkpoint=planned.checkpoint,
            agree=planned.fingerprint,
            paths=[(_path_ref(each), each) for each in paths],
            new=[each for each in written if seen.get(each) is None],
            modified=[each for each in written if seen.get(each) is not None],
            deleted=planned.preview.deleted,
            kept=planned.preview.kept,
        )

    found = await site.threads.work(look)
    return site.page(request, "checkpoints/restore.html", title="Restore", found=found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restore:
    """A restore as it is shown."""

    at: At
    checkpoint: Checkpoint
    agree: str
    paths: Sequence[tuple[str, str]]
    new: Sequence[str]
    modified: Sequence[str]
    deleted: Sequence[str]
    kept: Sequence[NotCaptured]


async def restore(site: Site, request: Request) -> Response:
    """Restore exactly what was previewed."""
    form = await site.form(request)
    paths = [_path_of(each) for each in form.many("path")]
    agreed = form.one("agree")
    slug, project = request.path_params["home"], request.path_params["project"]

    def run(job: Run) -> Sequence[Done]:
        with site.machine("checkpoints restore") as machine:
            at, checkpoints = _at(site, machine, request)
            which = request.path_params["checkpoint"]
            planned = checkpoints.plan_restore(which, _whole(at, paths))
            expect_same(agreed, planned.fingerprint)
            return [Done(home=at.home, report=planned.apply(progress=job))]

    back = f"/checkpoints/{quote(slug, safe='')}/{quote(project, safe='')}"
    return await started(site, site.jobs.start("Restore a checkpoint", run, back=back))


async def pin(site: Site, request: Request) -> Response:
    """Pin or unpin a checkpoint. It is logged, and can be undone like everything else."""
    form = await site.form(request)
    pinned = form.flag("pinned")

    def run(machine: Machine) -> str:
        at, checkpoints = _at(site, machine, request)
        checkpoints.pin(request.path_params["checkpoint"], pinned)
        return at.path

    return site.see_other(await site.change("checkpoints pin", run))


def _at(site: Site, machine: Machine, request: Request) -> tuple[At, Checkpoints]:
    """The project in an address. Raises if it does not exist, or no longer."""
    slug, wanted = request.path_params["home"], request.path_params["project"]
    home = site.home_of(machine, slug)
    checkpoints = machine.open(home).checkpoints
    for each in checkpoints.projects():
        if each.id == wanted:
            return At(home=home, slug=slug, project=each), checkpoints
    raise UnknownPageError(
        "This project has no checkpoints (any more).",
        hint="`holdfast log` says what removed them.",
    )


def _of(checkpoints: Checkpoints, project: Project) -> Sequence[Checkpoint]:
    listed = checkpoints.list(None if project.machine else project.workdir)
    return [each for each in listed if each.project == project.id]


def _session_links(
    site: Site, machine: Machine, checkpoints: Sequence[Checkpoint]
) -> Mapping[str, str]:
    """The links to the sessions of checkpoints: the sessions of a connected agent are in the
    agent's own home. Sessions that are gone have no link."""
    links: dict[str, str] = {}
    named = dict.fromkeys(each.session for each in checkpoints if each.session)
    for session in list(named)[:_MOST_LINKS]:
        with suppress(HoldfastError):
            found = machine.resolve(session, archive=False)
            query = urlencode({"id": found.id})
            links[session] = f"/sessions/{quote(site.slug(found.home), safe='')}/read?{query}"
    return links


def _usual(at: At) -> str:
    return BEFORE if at.gone else NOW


def _whole(at: At, paths: Sequence[str]) -> Sequence[str]:
    """Absolute paths: what a relative path means would depend on where the server was started."""
    return [f"{at.project.workdir}/{each}" for each in paths]


def _compare(
    checkpoints: Checkpoints, at: At, which: Checkpoint, against: str, chosen: str | None
) -> Compared:
    """Compare a checkpoint with the directory as it is now, or with the checkpoint before it."""
    old, new = which, None
    if against != NOW:
        listed = [each.id for each in _of(checkpoints, at.project)]
        place = listed.index(which.id) if which.id in listed else len(listed)
        if place + 1 >= len(listed):
            why = "This is the oldest checkpoint of this project: there is none before it."
            return Compared(old=which, problem=why)
        old, new = checkpoints.get(listed[place + 1]), which
    try:
        found = checkpoints.diff(old, new)
    except UnknownCheckpointError:
        raise
    except HoldfastError as error:
        if against != NOW:
            raise
        return Compared(old=which, problem=error.message)
    files = [_file(each) for each in found.changes]
    shown = files[:_MOST_FILES]
    picked = next((each for each in files if each.path == chosen), shown[0] if shown else None)
    patches: Sequence[FilePatch] = ()
    if picked is not None:
        whole = _whole(at, [picked.path])
        patches = read_patch(checkpoints.diff(old, new, whole).patch())
    return Compared(
        old=which,
        new=new,
        files=shown,
        hidden=len(files) - len(shown),
        chosen=picked,
        patches=patches,
    )


def _file(change: Change) -> ChangedFile:
    only_mode = change.old and change.new and change.old.oid == change.new.oid
    kind = "mode" if only_mode else change.kind.value
    return ChangedFile(ref=_path_ref(change.path), path=change.path, kind=kind)


_ONE = "/checkpoints/{home}/{project}/{checkpoint}"
SCREEN = Screen(
    title="Checkpoints",
    path="/checkpoints",
    icon="checkpoints",
    order=40,
    routes=(
        get("/checkpoints", projects),
        get("/checkpoints/{home}/{project}", timeline),
        get(_ONE, show),
        get(f"{_ONE}/restore", preview),
        post(f"{_ONE}/restore", restore),
        post(f"{_ONE}/pin", pin),
    ),
)


# --- Paths in addresses and forms -----------------------------------------------------------------
#
# A file name need not be UTF-8, but addresses and forms are text: so a path is percent-encoded.


def _path_ref(path: str) -> str:
    return quote_from_bytes(os.fsencode(path))


def _path_of(ref: str) -> str:
    return os.fsdecode(unquote_to_bytes(os.fsencode(ref)))

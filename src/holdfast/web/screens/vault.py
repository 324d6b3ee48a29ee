"""Vault: sessions that agents delete by themselves and Holdfast keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
    from holdfast.model.vault import VaultStatus
    from holdfast.web.jobs import Run

_MOST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeVault:
    """The vault of one home."""

    slug: str
    label: str
    vault: VaultStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The vaults, and some of the sessions that only they have."""

    vaults: Sequence[HomeVault]
    deleted: Sequence[FoundSession]
    total: int
    unread: Sequence[tuple[str, str]]


async def show(site: Site, request: Request) -> Response:
    shown = await site.threads.work(lambda machine: _look(site, machine))
    return site.page(request, "vault/show.html", title="Vault", shown=shown, slug=site.slug)


def _look(site: Site, machine: Machine) -> Shown:
    looked = machine.vaults()
    page = machine.list_sessions(SessionFilter(vaulted=True), limit=_MOST, openings=True)
    return Shown(
        vaults=[
            HomeVault(slug=site.slug(home), label=home.label, vault=vault)
            for home, vault in looked.seen
            if vault is not None
        ],
        deleted=page.found,
        total=page.total,
        unread=[(str(each.path), each.error.message) for each in looked.unread],
    )


async def turn(site: Site, request: Request) -> Response:
    """Turn the vault of a home on or off, and refresh it at once."""
    slug, to = request.path_params["home"], (await site.form(request)).flag("on")
    word = "on" if to else "off"

    def run(job: Run) -> Sequence[Done]:
        with site.machine(f"vault {word}") as machine:
            home = site.home_of(machine, slug)
            done = machine.open(home).turn_vault(to, progress=job)
            return [Done(home=home, report=done)]

    return await started(site, site.jobs.start(f"Turn the vault {word}", run, back="/vault"))


SCREEN = Screen(
    title="Vault",
    path="/vault",
    icon="vault",
    order=85,
    routes=(get("/vault", show), post("/vault/{home}", turn)),
)

"""Configuration: every setting in effect, checked and changed in the same way as by `config set`
and `config edit`: one key at a time, or the whole text, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import unified_diff
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import quote

from markupsafe import Markup, escape

from holdfast.api.configure import plan_set, plan_text, settings_of, text_of
from holdfast.api.plan import expect_same
from holdfast.config.kinds import Choice, Flag, dotted
from holdfast.config.set_key import toml
from holdfast.config.settings import KEYS
from holdfast.config.template import template
from holdfast.errors import (
    BusyError,
    ConfigError,
    HoldfastError,
    StalePlanError,
    StorageError,
    UsageError,
)
from holdfast.model.plan import fingerprint
from holdfast.value import dataclass
from holdfast.web.site import Screen, Site, get, post, status_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.api.agent_home import AgentHome
    from holdfast.api.configure import Setting
    from holdfast.api.machine import Machine
    from holdfast.api.place import Place

#: A password in an address. No setting may contain one, but an invalid file can.
_PASSWORD = re.compile(r"://[^/\s\"']*:[^/\s\"']+@|password\s*=", re.IGNORECASE)
_DECLARED = {dotted(each.path): each for each in KEYS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A setting on the page. `typed` is its value as a user types it, one line for each item of a
    list. `choices` are the allowed values, if there are few."""

    key: str
    value: str
    typed: str
    origin: str
    about: str
    variable: str
    several: bool
    choices: Sequence[str]

    @property
    def table(self) -> str:
        """The table of the key; "" for the top of the file."""
        return self.key.partition(".")[0] if "." in self.key else ""

    @property
    def anchor(self) -> str:
        return quote(self.key, safe="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a home. `error` is what is wrong with it; then it has no settings."""

    home: AgentHome
    slug: str
    file: str
    exists: bool
    agree: str
    sections: Sequence[tuple[str, Sequence[Shown]]]
    error: HoldfastError | None = None

    @property
    def path(self) -> str:
        return f"/configuration/{quote(self.slug, safe='')}"


async def start(site: Site, request: Request) -> Response:
    """Redirect to the first home: Holdfast's own, if there is one."""

    def first(machine: Machine) -> str | None:
        own = [each for each in machine.homes if each.agent == "holdfast"]
        found = next(iter([*own, *machine.homes]), None)
        return None if found is None else site.slug(found)

    slug = await site.threads.read(first)
    if slug is not None:
        return site.see_other(f"/configuration/{quote(slug, safe='')}")
    return site.page(request, "settings/none.html", title="Configuration")


async def show(site: Site, request: Request) -> Response:
    query = site.query(request)
    return await _show(site, request, edited=query.one("edit"), said=query.one("set"))


async def _show(
    site: Site,
    request: Request,
    *,
    edited: str = "",
    said: str = "",
    typed: str | None = None,
    wrong: HoldfastError | None = None,
) -> Response:
    def look(machine: Machine) -> tuple[Config, Sequence[tuple[str, str]]]:
        homes = [(site.slug(each), each.label) for each in machine.homes]
        return _config(site, machine, request.path_params["home"]), homes

    config, homes = await site.threads.work(look)
    return site.page(
        request,
        "settings/show.html",
        status=200 if wrong is None else status_of(wrong),
        title="Configuration",
        config=config,
        homes=homes,
        edited=edited,
        said=said,
        typed=typed,
        wrong=wrong,
    )


def _config(site: Site, machine: Machine, slug: str) -> Config:
    home = site.home_of(machine, slug)
    place = machine.unchecked_place(home)
    before, error = None, None
    sections: Sequence[tuple[str, Sequence[Shown]]] = ()
    try:
        before = text_of(place.config_file)
        found = [_shown(each) for each in settings_of(place)]
        by_table = groupby(found, key=lambda each: each.table)
        sections = [(name, list(members)) for name, members in by_table]
    except ConfigError as wrong:
        error = wrong
    return Config(
        home=home,
        slug=slug,
        file=str(place.config_file),
        exists=before is not None,
        agree=fingerprint(before),
        sections=sections,
        error=error,
    )


def _shown(setting: Setting) -> Shown:
    value = setting.value
    declared = _DECLARED.get(setting.key)
    several = isinstance(value, tuple | list)
    choices: Sequence[str] = ()
    if declared is not None and isinstance(declared.kind, Flag):
        choices = ("true", "false")
    elif declared is not None and isinstance(declared.kind, Choice):
        choices = tuple(declared.kind.choices)
    return Shown(
        key=setting.key,
        value="not set" if value is None else toml(value),
        typed=_typed(value),
        origin=setting.origin,
        about=" ".join(declared.about) if declared is not None else "",
        variable=declared.variable if declared is not None else "",
        several=several,
        choices=choices,
    )


def _typed(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return "\n".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


async def set_key(site: Site, request: Request) -> Response:
    """Set one key. An invalid value is reported next to its field, and changes nothing."""
    form = await site.form(request)
    key, typed = form.one("key"), form.one("value")
    lines = [each for each in typed.splitlines() if each.strip()]
    values = lines if form.flag("several") else [typed.strip()]

    def run(machine: Machine) -> str:
        place = _place(site, machine, request)
        planned = plan_set(place, key, values or ["[]"])
        expect_same(form.one("agree"), fingerprint(planned.change.before))
        planned.change.apply()
        return planned.key

    try:
        done = await site.change("config set", run)
    except (UsageError, StalePlanError, StorageError, BusyError) as error:
        return await _show(site, request, edited=key, typed=typed, wrong=error)
    slug = quote(request.path_params["home"], safe="")
    return site.see_other(f"/configuration/{slug}?set={quote(done)}#{quote(done, safe='')}")


async def text(site: Site, request: Request) -> Response:
    """The whole file, to edit."""

    def look(machine: Machine) -> tuple[AgentHome, str, str | None]:
        place = _place(site, machine, request)
        home = site.home_of(machine, request.path_params["home"])
        return home, str(place.config_file), text_of(place.config_file)

    home, file, before = await site.threads.work(look)
    said = template() if before is None else before
    return _editor(site, request, home=home, file=file, said=said, before=before)


def _editor(
    site: Site,
    request: Request,
    *,
    home: AgentHome,
    file: str,
    said: str,
    before: str | None,
    wrong: HoldfastError | None = None,
    opened: str | None = None,
) -> Response:
    """`said` is the content of the field, `before` the current file, `opened` the file when the
    user began to type."""
    why = ""
    if wrong is None and _PASSWORD.search(said):  # otherwise the user typed it here
        why = "The file seems to hold a password, which this page does not show."
    elif "\r" in said:
        why = "The file has Windows line endings, which a browser would change."
    return site.page(
        request,
        "settings/text.html",
        status=200 if wrong is None else status_of(wrong),
        title="config.toml",
        home=home,
        slug=request.path_params["home"],
        file=file,
        # Unchanged, to the byte: what is sent back replaces the file.
        said=Markup("\n") + escape(said),
        agree=fingerprint(before),
        opened=escape("" if _PASSWORD.search(before or "") else before or ""),
        is_new=before is None,
        why=why,
        wrong=wrong,
        changed="" if opened is None else _changed(opened, before or ""),
    )


def _changed(opened: str, now: str) -> str:
    """What changed in the file meanwhile, as a diff."""
    if _PASSWORD.search(opened + now):
        return "The file seems to hold a password, so what changed in it is not shown."
    lines = unified_diff(opened.splitlines(), now.splitlines(), lineterm="", n=1)
    return "\n".join(list(lines)[2:])  # without the file names: it is one file


async def save(site: Site, request: Request) -> Response:
    """Replace the whole file, if everything in it is valid."""
    form = await site.form(request)
    after = _as_sent(form.one("text"))
    opened = _as_sent(form.one("opened"))

    def run(machine: Machine) -> tuple[AgentHome, str, str | None, HoldfastError | None]:
        """Report an error in a form that keeps what the user typed."""
        place = _place(site, machine, request)
        home = site.home_of(machine, request.path_params["home"])
        before, error = text_of(place.config_file), None
        try:
            expect_same(form.one("agree"), fingerprint(before))
            plan_text(place, after, before=before).apply()
        except HoldfastError as wrong:
            error = wrong
        return home, str(place.config_file), before, error

    home, file, before, error = await site.change("config edit", run)
    if error is not None:
        stale = isinstance(error, StalePlanError)
        return _editor(
            site,
            request,
            home=home,
            file=file,
            said=after,
            before=before,
            wrong=error,
            opened=opened if stale else None,
        )
    return site.see_other(
        f"/configuration/{quote(request.path_params['home'], safe='')}?set=config.toml"
    )


def _as_sent(text: str) -> str:
    """Forms send text with CRLF line ends."""
    return text.replace("\r\n", "\n")


def _place(site: Site, machine: Machine, request: Request) -> Place:
    home = site.home_of(machine, request.path_params["home"])
    return machine.unchecked_place(home)


SCREEN = Screen(
    title="Configuration",
    path="/configuration",
    icon="config",
    order=100,
    routes=(
        get("/configuration", start),
        get("/configuration/{home}", show),
        post("/configuration/{home}", set_key),
        get("/configuration/{home}/text", text),
        post("/configuration/{home}/text", save),
    ),
)

"""What a screen needs: homes to query, forms to parse, templates for responses."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias, TypeVar
from urllib.parse import parse_qs

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from holdfast.api.agent_home import AgentHome
from holdfast.api.machine import Machine
from holdfast.errors import (
    COMMAND_FLAG,
    BusyError,
    CannotUndoError,
    HoldfastError,
    StalePlanError,
    UnknownCheckpointError,
    UnknownSessionError,
    UsageError,
)
from holdfast.value import dataclass, field
from holdfast.web.gate import FORM_TOKEN, Gate
from holdfast.web.jobs import Jobs
from holdfast.web.lists import Index, Lists
from holdfast.web.query_threads import QueryThreads
from holdfast.web.rendering import Templates
from holdfast.web.upload import Upload, Uploads

_T = TypeVar("_T")
#: A form larger than this is not from our pages.
_MOST_FORM = 4 * 1024**2
_MOST_DIGITS = 16
_AGREE = "agree:"
_PIECE = 64 * 1024
_MOST_FIELDS = 100_000
#: How long a change of a name or a setting waits for another process that writes, in seconds.
_PATIENCE = 3.0


class UnknownPageError(UsageError):
    """There is no page at this address."""

    kind = "unknown_page"


_SERVER_ERROR = 500
#: The first that matches.
_STATUS: tuple[tuple[type[HoldfastError], int], ...] = (
    (UnknownPageError, 404),
    (UnknownSessionError, 404),
    (UnknownCheckpointError, 404),
    (StalePlanError, 409),
    (CannotUndoError, 409),
    (UsageError, 400),
    (BusyError, 503),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A parsed form."""

    fields: Mapping[str, Sequence[str]]

    def one(self, name: str, default: str = "") -> str:
        found = self.fields.get(name)
        return found[-1] if found else default

    def many(self, name: str) -> Sequence[str]:
        return self.fields.get(name, ())

    def agreed(self) -> Mapping[str, str]:
        """The fingerprints that the user agreed to, by home or by operation."""
        return {
            name.removeprefix(_AGREE): values[-1]
            for name, values in self.fields.items()
            if name.startswith(_AGREE)
        }

    def flag(self, name: str) -> bool:
        return bool(self.one(name))

    def whole(self, name: str) -> int:
        """A whole number, 0 for anything else."""
        text = self.one(name)
        return int(text) if len(text) < _MOST_DIGITS and text.isdecimal() else 0


Handler: TypeAlias = "Callable[[Site, Request], Awaitable[Response]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address of a screen, and its handler."""

    method: str
    path: str
    handler: Handler


def get(path: str, handler: Handler) -> Address:
    return Address(method="GET", path=path, handler=handler)


def post(path: str, handler: Handler) -> Address:
    return Address(method="POST", path=path, handler=handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A screen and its place in the navigation, sorted by `order`; without a title it is not listed
    there."""

    routes: Sequence[Address]
    title: str = ""
    path: str = ""
    icon: str = ""
    order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One web page, for the lifetime of its server."""

    threads: QueryThreads
    gate: Gate
    templates: Templates
    clock: Callable[[], float]
    screens: Sequence[Screen] = ()
    #: What screens remember while the server runs, by their own names.
    memory: dict[str, Any] = field(default_factory=dict)
    jobs: Jobs
    lists: Lists
    index: Index
    uploads: Uploads = field(default_factory=Uploads)

    def close(self) -> None:
        """Called when the server has ended."""
        self.jobs.close()
        self.threads.close()
        self.lists.close()
        self.uploads.close()

    # --- Homes ------------------------------------------------------------------------------------

    async def home(self, slug: str) -> AgentHome:
        """The home in a segment of an address, from the last scan."""
        found = await self.lists.home(slug)
        if found is None:
            raise _no_home(slug)
        return found

    def machine(self, command: str) -> Machine:
        """The homes, for a change in them; `command` is the name in the log, to which a note is
        added that it was done on the page. The caller closes the machine."""
        return self.threads.machine(f"{command} (page)")

    async def change(self, command: str, what: Callable[[Machine], _T]) -> _T:
        """Make a quick change, such as a name or a setting."""
        try:
            return await asyncio.to_thread(
                self.threads.children.change,
                lambda _: _run_with(self.machine(command), what),
                lambda _: None,
                lambda: False,
            )
        finally:
            self.threads.changed()

    @staticmethod
    def slug(home: AgentHome) -> str:
        """The segment of an address for a home."""
        return home.label.replace("/", "~")

    def home_of(self, machine: Machine, slug: str) -> AgentHome:
        """The home in a segment of an address. For the rest of this request, hints name that home,
        so that a copied command works on it."""
        for home in machine.homes:
            if self.slug(home) == slug:
                COMMAND_FLAG.set(f"--home {shlex.quote(home.name)} ")
                return home
        raise _no_home(slug)

    # --- Asked ------------------------------------------------------------------------------------

    @staticmethod
    def query(request: Request) -> Form:
        """The query string of the address."""
        return Form(fields=_parsed(request.url.query))

    async def form(self, request: Request) -> Form:
        """The form that was sent; raises `UsageError` if it is not from this page."""
        if (read := getattr(request.state, "form", None)) is not None:
            known: Form = read
            return known
        form = await self._sent(request)
        if not self.gate.form_fits(form.one(FORM_TOKEN)):
            raise UsageError(
                "This form is not from this server, which may have been restarted. "
                "Nothing was done.",
                hint="Load the page again.",
            )
        request.state.form = form
        return form

    async def _sent(self, request: Request) -> Form:
        if request.headers.get("content-type", "").startswith("multipart/form-data"):
            request.state.upload = sent = await self.uploads.received(request)
            return Form(fields={name: [value] for name, value in sent.fields.items()})
        if int(request.headers.get("content-length") or _MOST_FORM + 1) > _MOST_FORM:
            raise UsageError("The form is too large. Nothing was done.")
        try:
            return Form(fields=_parsed((await request.body()).decode()))
        except ValueError:
            raise UsageError("The form cannot be read. Nothing was done.") from None

    @staticmethod
    def upload(request: Request) -> Path:
        """The file that was sent with a form."""
        found: Upload | None = getattr(request.state, "upload", None)
        if found is None:
            raise UsageError("No file was sent. Nothing was done.", hint="Choose a file first.")
        return found.path

    # --- Answers ----------------------------------------------------------------------------------

    def page(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> Response:
        """A whole page."""
        path = request.url.path
        shown = sorted((each for each in self.screens if each.title), key=lambda each: each.order)
        nav = [(each, _is_at(path, each)) for each in shown]
        return self.fragment(template, status=status, nav=nav, path=path, **values)

    def fragment(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A piece of a page, which a script inserts."""
        token = Markup('<input type="hidden" name="{}" value="{}">').format(
            FORM_TOKEN, self.gate.keys.form
        )
        shown = self.templates.render(
            template,
            read_only=self.gate.read_only,
            form_token=token,
            now=self.clock(),
            **values,
        )
        return HTMLResponse(shown, status_code=status)

    async def download(
        self, write: Callable[[Machine, BinaryIO], object], name: str, media_type: str
    ) -> Response:
        """A file of any size. It is written to the disk without a name, so it disappears by
        itself."""
        made = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is sent

        def written(machine: Machine) -> None:
            with open(made.fileno(), "wb", closefd=False) as file:
                write(machine, file)

        try:
            await self.threads.in_own_thread(written, keeps=made.fileno())
            made.seek(0)
        except BaseException:
            made.close()
            raise
        return StreamingResponse(
            _pieces(made),
            media_type=media_type,
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    def see_other(self, path: str) -> Response:
        """After a change: redirect to a page that can be reloaded."""
        return RedirectResponse(path, 303)


def status_of(error: HoldfastError) -> int:
    """The HTTP status for an error."""
    return next((code for kind, code in _STATUS if isinstance(error, kind)), _SERVER_ERROR)


def _no_home(slug: str) -> UnknownPageError:
    return UnknownPageError(
        f"There is no home {slug!r} on this machine.", hint="`holdfast status` lists the homes."
    )


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece


def _run_with(homes: Machine, what: Callable[[Machine], _T]) -> _T:
    with homes as machine:
        machine.wait_at_most(_PATIENCE)
        return what(machine)


def _parsed(text: str) -> Mapping[str, Sequence[str]]:
    """File names need not be valid text."""
    try:
        return parse_qs(
            text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="surrogateescape"
        )
    except ValueError:
        raise UsageError("This address has too many parts.") from None


def _is_at(path: str, screen: Screen) -> bool:
    if screen.path == "/":
        return path == "/"
    return path == screen.path or path.startswith(f"{screen.path}/")

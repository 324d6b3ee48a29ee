"""Access control in front of every screen.

Any page that the user has open can send requests to this machine, and any host name can be made to
resolve to it. So a request needs a cookie that only the link from the terminal gives, a Host header
of ours, and, before it changes anything, an Origin and a form of ours. See decision 0048.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Collection
from html import escape
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.value import dataclass, field

#: The parameter of the link, and the field of every form.
TOKEN = "token"  # noqa: S105 - a name, not a secret
FORM_TOKEN = "form_token"  # noqa: S105 - a name, not a secret
STATIC = "/static/"
_READING = ("GET", "HEAD")
_LOCAL_NAME = "localhost"
_HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: browsers would then send `Origin: null` with our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

Refuse = Callable[[Request, int, str, str], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    status: int
    message: str
    hint: str = ""


_NOT_HERE = _Refusal(
    status=421,
    message="This is not the address of this page.",
    hint="Open the address that `holdfast web` printed.",
)
_NO_METHOD = _Refusal(status=405, message="This page takes only GET and POST.")
_NOT_VALID = _Refusal(
    status=403,
    message="This link is not valid, or was used before.",
    hint="Open the address that `holdfast web` printed.",
)
_UNKNOWN = _Refusal(
    status=401,
    message="Open the link from the terminal first.",
    hint="`holdfast web` printed an address with a token; the page opens only with that token. "
    "A restarted server has a new one.",
)
_NOT_FROM_HERE = _Refusal(
    status=403, message="Another page sent this. Nothing was done.", hint="Do it on this page."
)
_ONLY_READS = _Refusal(
    status=403,
    message="This page only reads. Nothing was done.",
    hint="The server was started read-only. To change something, start it without --read-only.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The secrets of one server start. `link` is in the printed address, `cookie` is what a browser
    gets for it, `form` is in every form."""

    link: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32))


class OpenedOnce:
    """The key in the address that a browser is started with. Other users of the machine can see
    command lines, so it works once."""

    def __init__(self) -> None:
        self.key = secrets.token_urlsafe(32)
        self._used = False

    def fits(self, given: str) -> bool:
        if self._used or not _same(given, self.key):
            return False
        self._used = True
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The gate. `names` are accepted hosts in addition to this machine's own addresses, which count
    only if it listens to other machines (`beyond`)."""

    keys: Keys
    opened: OpenedOnce
    port: int
    names: Collection[str] = ()
    beyond: bool = False
    read_only: bool = False

    @property
    def cookie_name(self) -> str:
        """Browsers share cookies between the ports of a machine: two servers need two names."""
        return f"holdfast_{self.port}"

    def around(self, app: ASGIApp, refuse: Refuse) -> ASGIApp:
        """The application behind this gate. `refuse` creates the page with the reason for a
        refusal."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            answer = await self._answer(Request(scope, receive), refuse)
            await (answer or app)(scope, receive, _with_headers(scope, send))

        return guarded

    async def _answer(self, request: Request, refuse: Refuse) -> Response | None:
        """The gate's own response; None lets the request through."""
        reads = request.method in _READING
        if not self._is_ours(request.headers.get("host", "")):
            refusal: _Refusal | None = _NOT_HERE
        elif reads and request.url.path.startswith(STATIC):
            return None
        elif reads and TOKEN in request.query_params:
            if (welcome := self._welcome(request)) is not None:
                return welcome
            refusal = _NOT_VALID
        elif reads and not self._has_cookie(request) and _is_led_here(request.headers):
            return _again(request)
        else:
            refusal = self._refusal(request)
        if refusal is None:
            return None
        return await refuse(request, refusal.status, refusal.message, refusal.hint)

    def _refusal(self, request: Request) -> _Refusal | None:
        if request.method not in (*_READING, "POST"):
            return _NO_METHOD
        if not self._has_cookie(request):
            return _UNKNOWN
        if request.method in _READING:
            return None
        if not _is_same_origin(request.headers):
            return _NOT_FROM_HERE
        return _ONLY_READS if self.read_only else None

    def _welcome(self, request: Request) -> Response | None:
        """Set the cookie, and remove the token from the address and the browser history."""
        given, knows = request.query_params[TOKEN], self._has_cookie(request)
        if not (_same(given, self.keys.link) or self.opened.fits(given) or knows):
            return None
        answer = RedirectResponse(_without_token(request), 303)
        if not knows:
            answer.set_cookie(
                self.cookie_name, self.keys.cookie, httponly=True, samesite="strict", path="/"
            )
        return answer

    def _has_cookie(self, request: Request) -> bool:
        # Parsed by hand: a cookie of another program on this machine must not interfere.
        found = cookie_parser(request.headers.get("cookie", ""))
        return _same(found.get(self.cookie_name, ""), self.keys.cookie)

    def _is_ours(self, host: str) -> bool:
        """True for a host of ours. A name controlled by an attacker may resolve to this machine; an
        address cannot. The port may be another one, as through a tunnel."""
        name = _host_name(host)
        if name is None:
            return False
        if name == _LOCAL_NAME or name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.beyond

    def form_fits(self, given: str) -> bool:
        return _same(given, self.keys.form)


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), known.encode())


def _host_name(host: str) -> str | None:
    """The host name; None for anything but a name with a port, such as `127.0.0.1:80.example`."""
    try:
        found = urlsplit(f"//{host}")
        _ = found.port  # raises if it is not a number
    except ValueError:
        return None
    return found.hostname if found.netloc == host and "@" not in host else None


def _is_same_origin(headers: Headers) -> bool:
    """True if the browser reports that a form came from here. Any current browser sends one of
    these headers."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site") == "same-origin"
    found = urlsplit(origin)
    return found.scheme == "http" and found.netloc.lower() == headers.get("host", "").lower()


def _is_led_here(headers: Headers) -> bool:
    """True if a link on another page led here: then the browser does not send our cookie."""
    return headers.get("sec-fetch-site") == "cross-site"


def _again(request: Request) -> Response:
    """A page of ours that redirects to the same address: then the browser sends the cookie, if it
    has it."""
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Holdfast</title>'
        f'<meta http-equiv="refresh" content="0; url={escape(_path(request), quote=True)}">'
    )


def _path(request: Request) -> str:
    """The path with its query, on this server: `//host/` would lead to another one."""
    path = "/" + request.url.path.lstrip("/\\")
    return f"{path}?{request.url.query}" if request.url.query else path


def _without_token(request: Request) -> str:
    rest = [(k, v) for k, v in parse_qsl(request.url.query, True) if k != TOKEN]
    path = "/" + request.url.path.lstrip("/\\")
    return f"{path}?{urlencode(rest)}" if rest else path


def _with_headers(scope: Scope, send: Send) -> Send:
    static = scope["path"].startswith(STATIC)

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            # Nothing of a session stays in the browser cache. Static files get a new address when
            # they change.
            headers["cache-control"] = "max-age=31536000, immutable" if static else "no-store"
        await send(message)

    return sending

"""Who may ask, and what every answer tells the browser."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest

from holdfast.web.site import get, post
from tests.cli.machine import Machine
from tests.web.client import HOST, ORIGIN, Web


@pytest.fixture
def stranger(machine: Machine) -> Iterator[Web]:
    with Web(machine, stranger=True) as made:
        yield made


def test_without_the_cookie_nothing_is_told(stranger: Web) -> None:
    for path in ("/", "/sessions", "/overview/figures", "/nowhere"):
        answer = stranger.get(path)
        assert answer.status == 401
        assert "Open the link from the terminal" in answer.text
        assert "/sessions" not in answer.text
    assert stranger.post("/sessions").status == 401


def test_the_link_gives_a_cookie_and_leaves_the_address(stranger: Web) -> None:
    answer = stranger.get(f"/sessions?token={stranger.gate.keys.link}&sort=size")
    assert (answer.status, answer.place) == (303, "/sessions?sort=size")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert stranger.gate.keys.link not in cookie
    assert stranger.get("/sessions").status == 200


def test_the_link_of_the_browser_works_once(machine: Machine) -> None:
    with Web(machine, stranger=True) as web:
        key = web.gate.opened.key
        assert web.get(f"/?token={key}").status == 303
        web.client.cookies.clear()
        again = web.get(f"/?token={key}")
        assert again.status == 403
        assert "used before" in again.text


def test_a_wrong_token_opens_nothing(stranger: Web) -> None:
    for token in ("", "x", "%ff", "%C3%A9" * 40, stranger.gate.keys.link[:-1]):
        answer = stranger.get(f"/?token={token}")
        assert answer.status == 403
        assert "set-cookie" not in answer.headers


_HOSTS = {
    HOST: True,
    "localhost:1234": True,
    "[::1]:7877": True,
    "evil.example:7877": False,
    "127.0.0.1.evil.example": False,
    "127.0.0.1:7877.evil.example": False,
    "evil.example@127.0.0.1:7877": False,
    "127.0.0.1:7877/evil.example": False,
    "192.168.1.5:7877": False,
    "desk.lan:7877": False,
    "": False,
    "[::1": False,
}


def test_only_our_own_names_are_answered(machine: Machine) -> None:
    """A name that somebody else controls may point at this machine."""
    beyond = {**_HOSTS, "192.168.1.5:7877": True, "desk.lan:7877": True}
    with Web(machine) as here, Web(machine, beyond=True, names=("desk.lan",)) as everywhere:
        for web, hosts in ((here, _HOSTS), (everywhere, beyond)):
            for host, fits in hosts.items():
                answer = web.get("/nowhere", {"host": host})
                assert answer.status == (404 if fits else 421), host


def test_a_form_of_another_page_does_nothing(machine: Machine) -> None:
    done: list[str] = []
    with _with_a_form(machine, done) as web:
        for origin in (
            "http://evil.example",
            "null",
            "http://127.0.0.1:9999",
            f"https://{HOST}",
            "http://localhost:7877",
        ):
            assert web.post("/try", headers={"origin": origin}).status == 403, origin
        assert not done
        assert web.post("/try").status == 200
        assert done


def test_a_form_without_our_token_does_nothing(machine: Machine) -> None:
    done: list[str] = []
    with _with_a_form(machine, done) as web:
        assert web.post("/try", token=False).status == 400
        assert web.post("/try", {"form_token": "x"}, token=False).status == 400
        assert not done
        assert web.get("/try").status == 405


def test_read_only_takes_no_form(machine: Machine) -> None:
    done: list[str] = []
    with _with_a_form(machine, done, read_only=True) as web:
        answer = web.post("/try")
        assert answer.status == 403
        assert "only reads" in answer.text
        assert not done


def test_other_methods_are_refused(web: Web) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert web.client.request(method, "/sessions").status_code == 405


def test_every_answer_has_the_headers(web: Web, stranger: Web) -> None:
    for answer in (web.ok("/sessions"), web.get("/nowhere"), stranger.get("/")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "<script>" not in answer.text
        assert " style=" not in answer.text


def test_files_of_ours_are_looked_up_by_name(web: Web) -> None:
    from holdfast.web.rendering import asset

    assert "color-scheme" in web.ok(asset("holdfast.css")).text
    assert "immutable" in web.ok(asset("page.js")).headers["cache-control"]
    for name in ("..%2Fapp.py", "nothing.css", "%2e%2e/%2e%2e/app.py"):
        assert web.get(f"/static/x/{name}").status == 404


def test_a_link_from_another_page_gets_its_cookie_on_the_second_try(stranger: Web) -> None:
    answer = stranger.get('/sessions?text="><b>', {"sec-fetch-site": "cross-site"})
    assert answer.status == 200
    assert "http-equiv" in answer.text
    assert "<b>" not in answer.text
    answer = stranger.get(f"{ORIGIN}//evil.example/x", {"sec-fetch-site": "cross-site"})
    assert "url=/evil.example/x" in answer.text


def _with_a_form(machine: Machine, done: list[str], *, read_only: bool = False) -> Web:
    """A page with one address that changes something."""
    from unittest import mock

    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response

    from holdfast.web.site import Screen, Site

    async def change(site: Site, request: Request) -> Response:
        done.append("done")
        return PlainTextResponse("done")

    async def read(site: Site, request: Request) -> Response:
        return PlainTextResponse("read")

    screen = Screen(routes=(post("/try", change), get("/else", read)))
    with mock.patch("holdfast.web.server.SCREENS", (screen,)):
        return Web(machine, read_only=read_only)


def test_a_refusal_leads_back_to_where_one_was(used: Machine, web: Web) -> None:
    def back(path: str, referer: str) -> str:
        answer = web.post(path, {"home": "holdfast"}, headers={"referer": referer})
        assert answer.status >= 400
        found = re.search(r'href="([^"]*)">Back to where you were', answer.text)
        return html.unescape(found[1]) if found else ""

    asks = "/cleanup/confirm?home=holdfast&trash=never"
    assert back("/cleanup/apply", f"{ORIGIN}{asks}") == asks
    # A page that was the answer to a form, one of somebody else, and none: the screen itself.
    assert back("/sessions/delete", f"{ORIGIN}/sessions/delete") == "/sessions"
    assert back("/cleanup/apply", "http://elsewhere.example/cleanup") == "/cleanup"
    assert back("/trash/holdfast/empty", f"{ORIGIN}//elsewhere.example/") == "/trash"
    assert back("/sessions/pin", "") == "/sessions"

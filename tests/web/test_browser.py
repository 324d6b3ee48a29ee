"""The page in a real browser: by mouse and by keyboard, with nothing from outside.

One of these runs with every `make test` where there is a Chromium; `make test-web` runs them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.web.browser import browser, serving
from tests.web.scene import settled

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, Page

_BROWSER = browser()
pytestmark = pytest.mark.skipif(
    _BROWSER is None, reason="NO BROWSER: install Chromium, or name one in HOLDFAST_BROWSER"
)
_SCREENS = (
    "/",
    "/sessions",
    "/sessions?q=backoff",
    "/sessions?q=nothing-at-all",
    "{session}",
    "/cleanup",
    "/checkpoints",
    "/usage",
    "/trash",
    "/log",
    "/archive",
    "/doctor",
    "/configuration",
    "/nowhere",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=_BROWSER, args=["--no-sandbox"])
        yield made
        made.close()


class Visit:
    """A page in the browser, and everything that it asked for."""

    def __init__(self, page: Page, link: str) -> None:
        self.page = page
        self.root = link.partition("/?")[0]
        self.asked: list[str] = []
        self.bytes = 0
        self.complaints: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console",
            lambda said: self.complaints.append(said.text) if said.type == "error" else None,
        )
        page.goto(link)
        self.settle()

    def go(self, path: str) -> Visit:
        if path == "{session}":
            path = self.a_session()
        self.page.goto(self.root + path)
        return self.settle()

    def settle(self) -> Visit:
        self.page.wait_for_load_state("networkidle")
        self.page.wait_for_selector("[aria-busy=true]", state="detached")
        return self

    def a_session(self) -> str:
        self.go("/sessions?q=Retry")
        return self.page.locator("th.title a").first.get_attribute("href") or "/"

    def words(self) -> str:
        return self.page.inner_text("main")


@pytest.fixture
def many() -> int:
    return 25


@pytest.fixture
def visit(chromium: Browser, machine: Machine, many: int) -> Iterator[Visit]:
    settled(machine, sessions=many)
    with serving(machine) as link:
        context = chromium.new_context()
        yield Visit(context.new_page(), link)
        context.close()


def test_first_screen_is_small_and_comes_from_here_alone(visit: Visit) -> None:
    """What the terminal printed opens the overview; the token leaves the address."""
    page = visit.page
    assert "token" not in page.url
    assert "Who fills the disk" in visit.words()
    visit.asked.clear()
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(len(answer.body())))
    context = page.context.browser.new_context(storage_state=page.context.storage_state())  # type: ignore[union-attr]
    fresh = Visit(context.new_page(), f"{visit.root}/?")
    assert all(each.startswith(visit.root) for each in fresh.asked), fresh.asked
    assert len(fresh.asked) <= 8, fresh.asked
    assert not fresh.complaints
    weight = fresh.page.evaluate(
        "performance.getEntries().reduce((sum, each) => sum + (each.transferSize || 0), 0)"
    )
    assert weight <= 150_000
    context.close()


@pytest.mark.deep
def test_no_screen_asks_elsewhere_or_complains(visit: Visit) -> None:
    for path in _SCREENS:
        visit.complaints.clear()
        visit.go(path)
        unexpected = [each for each in visit.complaints if "404" not in each]
        assert not unexpected, (path, unexpected)
    assert all(each.startswith(visit.root) for each in visit.asked)


@pytest.mark.deep
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(visit: Visit, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    visit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    found = {}
    for path in _SCREENS:
        visit.go(path)
        for each in Axe().run(visit.page).response["violations"]:
            where = [node["html"][:160] for node in each["nodes"][:3]]
            found[path, each["id"]] = (each["help"], where)
    assert not found


@pytest.mark.deep
@pytest.mark.parametrize("width", [360, 768, 2560])
@pytest.mark.parametrize("many", [110])
def test_it_fits_every_width(visit: Visit, width: int) -> None:
    """With room for a scroll bar, and with more sessions than fit on two pages."""
    visit.page.set_viewport_size({"width": width, "height": 800})
    for path in (*_SCREENS, "/sessions?offset=50"):
        visit.go(path)
        wide, room = visit.page.evaluate(
            "[document.documentElement.scrollWidth, document.body.offsetWidth]"
        )
        assert wide <= room, path
    left, right = visit.page.evaluate(
        "(({left, right}) => [left, document.body.offsetWidth - right])"
        "(document.querySelector('main').getBoundingClientRect())"
    )
    assert width < 860 or left - right == 216  # what is beside the menu is in the middle
    links = visit.page.locator(".side li a").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().right)"
    )
    if width > 520:
        assert max(links) <= width  # no screen is out of sight
    else:  # one row: each comes into sight for whoever goes there
        last = visit.page.locator(".side li a").last
        last.focus()
        box = last.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= width - box["width"]


@pytest.mark.deep
def test_a_title_paints_over_nothing_else(visit: Visit) -> None:
    """Three hundred accents on one letter reach far above it, unless they are clipped."""
    page = visit.go("/sessions/claude-code/read?id=marked").page
    title = page.locator("h1")
    box = title.bounding_box()
    assert box is not None
    above: FloatRect = {"x": 0.0, "y": 0.0, "width": 1000.0, "height": box["y"] - 8}
    drawn = page.screenshot(clip=above)
    title.evaluate("each => each.textContent = 'z'")
    assert page.screenshot(clip=above) == drawn


@pytest.mark.deep
def test_search_as_you_type_marks_what_was_found(visit: Visit) -> None:
    page = visit.go("/sessions").page
    page.keyboard.press("/")
    page.keyboard.type("jitt", delay=20)
    page.wait_for_selector(".hits mark")
    assert re.search(r"\?q=jitt$", page.url)
    assert page.locator(".hits mark").first.inner_text().lower() == "jitter"
    page.locator(".hit-head a").first.click()
    page.wait_for_selector("[data-here]")
    page.go_back()
    page.wait_for_selector(".hits mark")


@pytest.mark.deep
def test_by_keyboard_alone_a_session_is_deleted_and_comes_back(
    visit: Visit, machine: Machine
) -> None:
    page = visit.go(visit.a_session()).page
    session = page.locator("dl.facts .mono").first.inner_text()
    button = page.get_by_role("button", name="Delete…")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=If any of this changes before you agree")
    page.get_by_role("button", name=re.compile("^Delete ")).focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/jobs/"))
    visit.settle()
    gone = Inside(machine).run("sessions", "show", session)
    assert gone.code != 0
    page.get_by_role("button", name="Undo").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=brought back")
    assert Inside(machine).run("sessions", "show", session).code == 0


@pytest.mark.deep
def test_a_second_tab_that_is_too_late_does_nothing(visit: Visit, machine: Machine) -> None:
    address = visit.a_session()
    first, second = visit.page, visit.page.context.new_page()
    for tab in (first, second):
        tab.goto(visit.root + address)
        tab.get_by_role("button", name="Delete…").click()
    for tab in (first, second):
        tab.get_by_role("button", name=re.compile("^Delete ")).click()
        tab.wait_for_load_state("networkidle")
    assert "/jobs/" in first.url
    assert "did not work" in second.inner_text("main")


@pytest.mark.deep
def test_a_long_conversation_goes_on_while_it_is_read(chromium: Browser, machine: Machine) -> None:
    from holdfast import Message
    from holdfast.api.sessions import open_sessions

    with open_sessions(machine.home) as sessions:
        made = sessions.create(source="cli", title="Long")
        sessions.append(made, [Message("user", f"line {n}\n" * 3) for n in range(300)])
        sessions.end(made)
    with serving(machine) as link:
        context = chromium.new_context()
        visit = Visit(context.new_page(), link).go(f"/sessions/holdfast/read?id={made.id}")
        shown = visit.page.locator("article.said")
        for place in (60, 120, 180, 240):
            visit.page.keyboard.press("End")
            shown.nth(place).wait_for()
        assert shown.count() == 300
        context.close()


@pytest.mark.deep
def test_without_the_link_a_browser_sees_nothing(chromium: Browser, machine: Machine) -> None:
    settled(machine, sessions=2)
    with serving(machine) as link:
        context = chromium.new_context()
        page = context.new_page()
        answer = page.goto(link.partition("?")[0])
        assert answer is not None
        assert answer.status == 401
        assert "claude" not in page.inner_text("body")
        context.close()


@pytest.mark.deep
def test_read_only_shows_no_button_that_changes(chromium: Browser, machine: Machine) -> None:
    settled(machine, sessions=8)
    with serving(machine, "--read-only") as link:
        context = chromium.new_context()
        visit = Visit(context.new_page(), link)
        for path in _SCREENS:
            visit.go(path)
            for button in visit.page.locator("form[method=post] button:enabled").all():
                assert not button.is_visible(), (path, button.inner_text())
        context.close()


@pytest.mark.deep
def test_the_scheme_is_chosen_and_kept(visit: Visit) -> None:
    page = visit.page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate(ground) != light
    visit.go("/sessions")
    assert page.evaluate(ground) != light


@pytest.mark.deep
def test_a_tab_from_an_earlier_start_says_so(chromium: Browser, machine: Machine) -> None:
    settled(machine, sessions=5)
    with serving(machine) as link:
        port = link.partition("127.0.0.1:")[2].partition("/")[0]
        visit = Visit(chromium.new_page(), link).go("/sessions")
        page = visit.page
    with serving(machine, "--port", port):
        for word in ("back", "backoff"):
            page.fill("#q", word)
            page.wait_for_selector("[data-lost]")
        assert page.locator("[data-lost]").count() == 1
        assert "from an earlier start" in page.inner_text("[data-lost]")
    page.fill("#q", "again")
    page.wait_for_selector("text=The page has lost its server")
    page.close()


@pytest.mark.deep
def test_who_decides_goes_on_from_the_heading(visit: Visit) -> None:
    page = visit.page
    visit.go("/cleanup/confirm?home=claude-code&sessions.retention_days=30")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    page.keyboard.press("Tab")
    assert "Remove" in page.evaluate("document.activeElement.textContent")


@pytest.mark.deep
def test_the_screens_take_one_row_on_a_phone(visit: Visit) -> None:
    page = visit.page
    page.set_viewport_size({"width": 360, "height": 740})
    visit.go("/configuration")
    assert page.locator("header.side").bounding_box()["height"] < 130  # type: ignore[index]
    current = page.locator(".side [aria-current]").bounding_box()
    assert current is not None
    assert 0 <= current["x"] <= 360 - current["width"]

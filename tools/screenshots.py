"""Pictures of the main screens, light and dark, for the documentation: `make screenshots`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.cli.machine import Machine
from tests.web.browser import browser, serving
from tests.web.scene import settled

FOLDER = Path("docs/images")
_SIZE = {"width": 1280, "height": 860}
#: What is shown at each address; `{session}` is one that is worth reading.
SCREENS: Mapping[str, str] = {
    "overview": "/",
    "sessions": "/sessions",
    "search": "/sessions?q=backoff",
    "reading": "{session}",
}


@contextmanager
def _machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as root:
        machine = Machine(root=Path(root))
        machine.user.mkdir(mode=0o700)
        yield settled(machine)


def take(folder: Path, wanted: Mapping[str, str], *, size: Mapping[str, int] = _SIZE) -> list[Path]:
    """Take them in both schemes; returns the files."""
    found = browser()
    if found is None:
        sys.exit("There is no Chromium here. Install one, or name it in HOLDFAST_BROWSER.")
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    with _machine() as machine, serving(machine) as link, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            made += _in_scheme(chromium, scheme, link, folder, wanted, size)
        chromium.close()
    return made


def _in_scheme(
    chromium: Browser,
    scheme: str,
    link: str,
    folder: Path,
    wanted: Mapping[str, str],
    size: Mapping[str, int],
) -> Iterator[Path]:
    context = chromium.new_context(
        color_scheme="dark" if scheme == "dark" else "light",
        viewport={"width": size["width"], "height": size["height"]},
        device_scale_factor=1,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(link)
    _settle(page)
    root = link.partition("/?")[0]
    for name, path in wanted.items():
        page.goto(root + (_session(page, root) if path == "{session}" else path))
        _settle(page)
        file = folder / f"web-{name}-{scheme}.png"
        page.screenshot(path=file)
        yield file
    context.close()


def _settle(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    page.wait_for_selector("[aria-busy=true]", state="detached")


def _session(page: Page, root: str) -> str:
    """One that is worth reading."""
    page.goto(f"{root}/sessions?q=Retry+with")
    _settle(page)
    return page.locator("th.title a").first.get_attribute("href") or "/sessions"


if __name__ == "__main__":
    for each in take(FOLDER, SCREENS):
        print(each)

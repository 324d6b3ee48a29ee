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
from tests.web.scene import pictured

FOLDER = Path("docs/images")
_SIZE = {"width": 1280, "height": 860}
#: How to come to what has no address of its own that is known before: a list, and a link in it.
_TIMELINE = ("/checkpoints", "main td.mono a")
_LOOKED_UP = {
    "{session}": [("/sessions?q=Retry+with", "th.title a")],
    "{timeline}": [_TIMELINE],
    "{diff}": [_TIMELINE, ("", "main a.why"), ("", "text=Side by side"), ("", "text=queue.py")],
}
#: What is shown at each address.
SCREENS: Mapping[str, str] = {
    "overview": "/",
    "sessions": "/sessions",
    "search": "/sessions?q=backoff",
    "reading": "{session}",
    "cleanup": "/cleanup?home=claude-code&sessions.retention_days=60",
    "checkpoints": "{timeline}",
    "diff": "{diff}",
    "usage": "/usage",
}


@contextmanager
def _machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as root:
        machine = Machine(root=Path(root))
        machine.user.mkdir(mode=0o700)
        yield pictured(machine)


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
        page.goto(_address(page, root, path))
        _settle(page)
        file = folder / f"web-{name}-{scheme}.png"
        page.screenshot(path=file)
        yield file
    context.close()


def _settle(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    page.wait_for_selector("[aria-busy=true], [data-indexing]", state="detached")


def _address(page: Page, root: str, path: str) -> str:
    """The address of what is only known once somebody looks for it: the first that a list names."""
    for list_, link in _LOOKED_UP.get(path, ()):
        page.goto(root + (list_ or page.url.removeprefix(root)))
        _settle(page)
        path = page.locator(link).first.get_attribute("href") or "/"
        page.goto(root + path)
    return root + path


if __name__ == "__main__":
    for each in take(FOLDER, SCREENS):
        print(each)

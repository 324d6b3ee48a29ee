"""Clean up, checkpoints and the rest in a real browser: by mouse, by keyboard, with a check of
what a screen reader gets."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import open as open_home
from tests.cli.inside import Inside
from tests.cli.machine import Machine, entries
from tests.web.browser import serving
from tests.web.test_browser import Visit, chromium, pytestmark

__all__ = ["chromium", "pytestmark"]


def _project(machine: Machine) -> Path:
    """A project with a checkpoint, changed since."""
    place = machine.user / "shop"
    place.mkdir()
    for name in ("one.txt", "two.txt", "three.txt"):
        (place / name).write_text("".join(f"{name} {n}\n" for n in range(30)))
    with open_home(machine.home, create=True) as home:
        home.checkpoints.take(place, reason="first")
        (place / "one.txt").write_text("changed\n")
        home.checkpoints.take(place, reason="second")
    for name in ("one.txt", "two.txt"):
        (place / name).write_text("<script>document.title = 'gone'</script>\n")
    return place


@pytest.fixture
def at_work(chromium: object, used: Machine) -> Iterator[Visit]:
    _project(used)
    with serving(used) as link:
        context = chromium.new_context()  # type: ignore[attr-defined]
        yield Visit(context.new_page(), link)
        context.close()


def _without_folder(place: Path) -> dict[str, object]:
    return {name: each for name, each in entries(place).items() if name != "."}


@pytest.mark.deep
def test_a_slider_a_plan_a_confirmation_and_back(at_work: Visit, used: Machine) -> None:
    """The figures beside the slider are those of the command; what goes comes back."""
    before = _without_folder(used.sessions)
    page = at_work.go("/cleanup?home=holdfast").page
    assert "5 items" in page.inner_text(".figures")
    slider = page.locator("input[type=range]").first
    slider.fill("150")
    page.locator(".figures", has_text="2 items").wait_for()
    assert "sessions.retention_days=150" in page.url
    at_work.settle()
    command = ("sessions", "prune", "--dry-run", "--older-than", "150d")
    shown: Any = Inside(used).json("--home", "holdfast", *command)
    removed = [each for each in shown["plan"]["items"] if each["action"] == "remove"]
    assert len(removed) == 2
    page.get_by_role("link", name="Remove 2 items…").click()
    page.wait_for_selector("text=Undo can bring it all back")
    page.get_by_role("button", name="Remove 2 items").click()
    page.wait_for_url(re.compile("/jobs/"))
    at_work.settle()
    assert "2 removed" in at_work.words()
    assert len(used.names()) == len(before) - 2
    page.get_by_role("button", name="Undo", exact=True).click()
    page.wait_for_selector("text=2 brought back")
    assert _without_folder(used.sessions) == before
    assert not at_work.complaints


@pytest.mark.deep
def test_a_plan_is_saved_opened_again_and_applied(
    at_work: Visit, used: Machine, tmp_path: Path
) -> None:
    page = at_work.go("/cleanup?home=holdfast").page
    with page.expect_download() as saving:
        page.get_by_role("link", name="Save the plan").click()
    saving.value.save_as(tmp_path / "my plan.json")
    before = used.names()
    page.get_by_text("Open a saved plan").click()
    page.get_by_label("A plan that this page").set_input_files(tmp_path / "my plan.json")
    page.get_by_role("button", name="Open the plan").click()
    page.wait_for_selector("text=my plan.json")
    assert "5 items" in at_work.words()
    page.get_by_role("button", name="Apply the plan").click()
    page.wait_for_url(re.compile("/jobs/"))
    page.wait_for_selector("text=5 removed")
    page.get_by_role("button", name="Undo", exact=True).click()
    page.wait_for_selector("text=5 brought back")
    assert used.names() == before
    assert not at_work.complaints


@pytest.mark.deep
def test_clean_up_by_keyboard_alone(at_work: Visit, used: Machine) -> None:
    page = at_work.go("/cleanup?home=holdfast").page
    page.locator("#c-sessions\\.retention_days").focus()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("150")
    page.locator(".figures", has_text="2 items").wait_for()
    at_work.settle()
    assert "2 items would go" in page.inner_text("[data-live]")
    page.get_by_role("link", name="Remove 2 items…").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/confirm"))
    page.get_by_role("button", name="Remove 2 items").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=2 removed")
    page.get_by_role("button", name="Undo", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("text=2 brought back")


@pytest.mark.deep
def test_a_wrong_value_is_told_and_leaves_the_controls(at_work: Visit) -> None:
    page = at_work.go("/cleanup?home=holdfast").page
    page.locator("summary", has_text="More rules").click()
    page.locator("#c-sessions\\.keep_within").fill("soon")
    page.wait_for_selector("[data-plan] .notice.error")
    page.locator("#c-sessions\\.keep_within").fill("2w")
    page.wait_for_selector("[data-plan] .figures")


@pytest.mark.deep
def test_chosen_files_come_back_and_leave_again(at_work: Visit, used: Machine) -> None:
    place = used.user / "shop"
    page = at_work.go("/checkpoints").page
    page.get_by_role("link", name=re.compile("shop$")).click()
    page.get_by_role("link", name="second").click()
    page.wait_for_selector(".patch")
    assert page.title() == "Checkpoint · Holdfast"
    page.keyboard.press("n")
    page.wait_for_url(re.compile("path=two.txt"))
    assert "<script>" in page.inner_text(".patch")
    page.get_by_role("link", name="Side by side").click()
    page.wait_for_selector(".split-view")
    assert page.get_by_role("button", name=re.compile("chosen")).is_disabled()
    page.get_by_role("checkbox", name="Restore two.txt").check()
    page.get_by_role("button", name="Restore 1 chosen…").click()
    page.get_by_role("button", name="Restore 1 path").click()
    page.wait_for_selector("text=1 written")
    assert (place / "two.txt").read_text().startswith("two.txt 0\n")
    assert (place / "one.txt").read_text().startswith("<script>")
    page.get_by_role("button", name="Undo", exact=True).click()
    page.get_by_role("button", name=re.compile("^Undo operation")).click()
    page.wait_for_url(re.compile("/jobs/"))
    assert (place / "two.txt").read_text().startswith("<script>")
    assert not at_work.complaints


@pytest.mark.deep
def test_a_setting_is_found_and_changed(at_work: Visit, used: Machine) -> None:
    page = at_work.go("/configuration/holdfast").page
    page.get_by_role("searchbox").fill("trash keeps")
    page.get_by_role("link", name="Change trash_days").click()
    page.wait_for_selector("#value:focus")
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("14")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=trash_days was saved")
    assert (used.home / "config.toml").read_text() == "trash_days = 14\n"


@pytest.mark.deep
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_the_way(at_work: Visit, used: Machine, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = at_work.page
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    found: dict[tuple[str, str], object] = {}

    def look(where: str) -> None:
        at_work.settle()
        for each in Axe().run(page).response["violations"]:
            nodes = [node["html"][:160] for node in each["nodes"][:3]]
            found[where, each["id"]] = (each["help"], nodes)

    Inside(used).ok("sessions", "prune", "--source", "telegram", "--yes")
    other = used.user / "other"
    shutil.copytree(used.home, other)
    used.configure(f'homes = ["{other}"]')
    with open_home(used.home) as home:
        [newest, *_] = home.checkpoints.list()
    one = f"/checkpoints/holdfast/{newest.project}"
    for path in (
        "/cleanup?home=holdfast",
        "/cleanup?what=small",
        "/cleanup?what=checkpoints&home=holdfast",
        "/cleanup/confirm?home=holdfast&trash=never",
        one,
        f"{one}/{newest.id}?path=one.txt",
        f"{one}/{newest.id}?path=one.txt&view=split",
        f"{one}/{newest.id}/restore",
        "/trash",
        "/trash/holdfast/empty",
        "/log",
        "/log/holdfast/1",
        "/doctor/holdfast",
        "/configuration/holdfast?edit=sessions.retention_days",
        "/configuration/holdfast?edit=checkpoints.exclude",
        "/configuration/holdfast/text",
    ):
        at_work.go(path)
        look(path)
    file = used.user / "plan.json"
    Inside(used).run("--home", "holdfast", "sessions", "prune", "--plan-out", str(file))
    at_work.go("/cleanup?home=holdfast")
    page.get_by_text("Open a saved plan").click()
    page.locator("#saved").set_input_files(file)
    page.get_by_role("button", name="Open the plan").click()
    page.wait_for_url(re.compile("/cleanup/saved/"))
    look("a saved plan")
    at_work.go("/cleanup/confirm")
    page.get_by_role("button", name=re.compile("^Remove ")).click()
    page.wait_for_url(re.compile("/jobs/"))
    look("the report")
    at_work.go("/log")
    page.get_by_role("link", name="one run over 2 homes").first.click()
    look("a run over two homes")
    assert not found


@pytest.mark.deep
def test_nothing_moves_sideways_at_any_width(at_work: Visit, used: Machine) -> None:
    Inside(used).ok("sessions", "prune", "--source", "telegram", "--yes")
    other = used.user / "other"
    shutil.copytree(used.home, other)
    used.configure(f'homes = ["{other}"]')
    with open_home(used.home) as home:
        [newest, *_] = home.checkpoints.list()
    one = f"/checkpoints/holdfast/{newest.project}/{newest.id}"
    for width in (360, 2560):
        at_work.page.set_viewport_size({"width": width, "height": 800})
        for path in (
            "/cleanup?home=holdfast",
            "/cleanup/confirm?home=holdfast",
            f"{one}?path=one.txt&view=split",
            f"{one}/restore",
            "/trash",
            "/log",
            "/configuration/holdfast",
            "/configuration/holdfast/text",
        ):
            at_work.go(path)
            wide = at_work.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (path, width)

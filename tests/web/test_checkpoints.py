"""Checkpoints in the browser: a timeline, differences of any content, and an exact way back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import open as open_home
from tests.cli.machine import Machine, entries
from tests.web.client import Web
from tests.web.forms import hidden

_HOSTILE = "<img src=x onerror=alert(1)>.txt"
_ODD = os.fsdecode(b"caf\xe9.txt")


@pytest.fixture
def project(machine: Machine) -> Path:
    """A project with two checkpoints, changed since: text, a picture, odd names, a deleted file."""
    place = machine.user / "shop"
    place.mkdir()
    (place / "one.txt").write_text("".join(f"line {n}\n" for n in range(50)))
    (place / "logo.png").write_bytes(bytes(range(256)))
    (place / _HOSTILE).write_text("hello\n")
    (place / _ODD).write_bytes(b"\xff\xfe\n")
    with open_home(machine.home, create=True) as home:
        home.checkpoints.take(place, reason="<b>first</b>", session="20260101_101010_aaaaaa")
        (place / "one.txt").write_text("line 1\nline two\n")
        home.checkpoints.take(place, reason="second")
    (place / "one.txt").write_text("<script>alert(1)</script>\n")
    (place / "logo.png").write_bytes(bytes(range(255, -1, -1)))
    (place / "new.txt").write_text("new\n")
    (place / _ODD).unlink()
    return place


@pytest.fixture
def shown(machine: Machine, project: Path) -> Iterator[Web]:
    with Web(machine) as web:
        yield web


def _addresses(machine: Machine) -> tuple[str, list[str]]:
    """The address of the project, and those of its checkpoints, the newest first."""
    with open_home(machine.home) as home:
        listed = home.checkpoints.list()
    place = f"/checkpoints/holdfast/{listed[0].project}"
    return place, [f"{place}/{each.id}" for each in listed]


def test_the_timeline_has_reasons_and_sessions(machine: Machine, shown: Web) -> None:
    assert "/shop" in shown.ok("/checkpoints").words
    place, _ = _addresses(machine)
    timeline = shown.ok(place)
    assert "second" in timeline.words
    assert "20260101_101010_aaaaaa" in timeline.words
    assert "&lt;b&gt;first&lt;/b&gt;" in timeline.text
    assert "<b>first</b>" not in timeline.text


@pytest.mark.parametrize("view", ["inline", "split"])
def test_differences_of_any_content(machine: Machine, shown: Web, view: str) -> None:
    _, [newest, first] = _addresses(machine)
    page = shown.ok(f"{newest}?view={view}&path=one.txt")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "<script>alert" not in page.text
    assert "line two" in page.words
    assert "A binary file." in shown.ok(f"{newest}?view={view}&path=logo.png").words
    odd = shown.ok(f"{newest}?view={view}&path=caf%25E9.txt")
    assert "caf\\xe9.txt" in odd.words
    assert "\\xff\\xfe" in odd.words
    by_it = shown.ok(f"{newest}?against=before&view={view}")
    assert "one.txt" in by_it.words
    assert "logo.png" not in by_it.words
    assert "the oldest checkpoint" in shown.ok(f"{first}?against=before").words


def test_a_restore_does_what_its_preview_showed_and_is_undone(
    machine: Machine, project: Path, shown: Web
) -> None:
    _, [newest, _] = _addresses(machine)
    before = entries(project)
    asks = shown.ok(f"{newest}/restore")
    for name in ("one.txt", "logo.png", "caf\\xe9.txt", "new.txt"):
        assert name in asks.words
    done = shown.post(f"{newest}/restore", hidden(asks))
    assert done.status == 303, done
    report = shown.ok(done.place)
    assert "3 written" in report.words
    assert (project / "one.txt").read_text() == "line 1\nline two\n"
    assert (project / _ODD).exists()
    operation = report.text.partition("operation ")[2].partition("<")[0]
    asks = shown.post(f"/log/holdfast/{operation}/undo")  # files of a project: it asks
    assert asks.status == 200
    assert shown.post(f"/log/holdfast/{operation}/undo", hidden(asks)).status == 303
    now = entries(project)
    assert {name: each.content for name, each in now.items()} == {
        name: each.content for name, each in before.items()
    }


def test_chosen_paths_come_back_alone(machine: Machine, project: Path, shown: Web) -> None:
    _, [newest, _] = _addresses(machine)
    asks = shown.ok(f"{newest}/restore?path=caf%25E9.txt")
    assert "these paths" in asks.words
    assert "logo.png" not in asks.words
    assert shown.post(f"{newest}/restore", hidden(asks)).status == 303
    assert (project / _ODD).read_bytes() == b"\xff\xfe\n"
    assert (project / "new.txt").exists()


def test_files_that_changed_since_the_preview_are_left(
    machine: Machine, project: Path, shown: Web
) -> None:
    _, [newest, _] = _addresses(machine)
    asks = hidden(shown.ok(f"{newest}/restore"))
    (project / "one.txt").write_text("somebody else was here\n")
    late = shown.post(f"{newest}/restore", asks)
    assert late.status == 409
    assert (project / "one.txt").read_text() == "somebody else was here\n"


def test_a_directory_that_is_gone_can_still_be_read(
    machine: Machine, project: Path, shown: Web
) -> None:
    project.rename(project.with_name("moved"))
    place, [newest, _] = _addresses(machine)
    assert "missing" in shown.ok(place).words
    assert "one.txt" in shown.ok(newest).words


def test_a_pin_is_in_the_log(machine: Machine, shown: Web) -> None:
    _, [newest, _] = _addresses(machine)
    assert shown.post(f"{newest}/pin", {"pinned": "yes"}).status == 303
    assert "Unpin" in shown.ok(newest).words
    assert "checkpoints pin" in shown.ok("/log").words


@pytest.mark.parametrize("rest", ["", "/restore"])
def test_what_is_not_there_is_not_found(machine: Machine, shown: Web, rest: str) -> None:
    place, _ = _addresses(machine)
    assert shown.get(f"{place}/{'f' * 40}{rest}").status == 404
    assert shown.get(f"/checkpoints/holdfast/nobody/{'f' * 40}{rest}").status == 404
    assert shown.get(f"/checkpoints/nobody/x/{'f' * 40}{rest}").status == 404


@pytest.mark.parametrize("path", ["..%252Fother", "%252Fetc%252Fpasswd", "%2500", "a%250Ab"])
def test_no_path_leads_out_of_the_project(machine: Machine, shown: Web, path: str) -> None:
    outside = machine.user / "other"
    outside.write_text("mine")
    _, [newest, _] = _addresses(machine)
    assert shown.get(f"{newest}?path={path}").status == 200  # shows another file
    asks = shown.get(f"{newest}/restore?path={path}")
    assert asks.status in (200, 400), asks
    assert shown.post(f"{newest}/restore", {"path": path, "agree": "x"}).status in (400, 409)
    assert outside.read_text() == "mine"


def test_addresses_that_nobody_would_type(machine: Machine, shown: Web) -> None:
    place, [newest, _] = _addresses(machine)
    for query in ("offset=-1", f"offset={'9' * 5000}", "offset=%E0%A5%A7", "offset=x"):
        shown.ok(f"{place}?{query}")
        shown.ok(f"/log?{query}")
        shown.ok(f"/archive?{query}")
    shown.ok(f"{newest}?against=%00&view=%00&path=%FF")
    shown.ok("/usage?days=-1&home=%00")
    assert shown.get("/cleanup?what=everything").status == 400
    assert shown.get("/cleanup?home=nobody").status == 404
    assert shown.get("/jobs/none").status == 404
    assert shown.get("/log/holdfast/999/undo").status in (400, 409)
    assert shown.post("/log/undo", {"operation": "x"}).status == 400


def test_a_page_that_is_read_only_shows_a_restore_and_offers_none(
    machine: Machine, project: Path
) -> None:
    _, listed = _addresses(machine)
    with Web(machine, read_only=True) as web:
        page = web.ok(f"{listed[0]}/restore")
    assert "one.txt" in page.words
    assert 'method="post"' not in page.text
    assert "<button" not in page.text.partition("<main")[2]

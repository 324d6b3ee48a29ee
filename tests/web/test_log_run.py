"""One run over several homes in the log: undone and done again as a whole, or not at all."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.model.operation import Operation, OperationAction
from holdfast.value import replace
from holdfast.web.screens.log import again_of, entry_of
from tests.cli.machine import Machine
from tests.web.client import Web
from tests.web.forms import hidden


@pytest.fixture
def other(used: Machine) -> Path:
    found = used.user / "other"
    shutil.copytree(used.home, found)
    used.configure(f'homes = ["{found}"]')
    return found


@pytest.fixture
def page(used: Machine, other: Path) -> Iterator[Web]:
    """The page, after a clean-up of both homes."""
    with Web(used) as web:
        done = web.post("/cleanup/apply", hidden(web.ok("/cleanup/confirm")))
        assert done.status == 303, done
        assert other.is_dir()
        yield web


def test_what_was_archived_is_not_freed_whole() -> None:
    operation = Operation(
        id="1",
        action=OperationAction.REMOVE,
        command="sessions archive",
        started_at=0.0,
        finished_at=1.0,
        bytes_freed=100_000,
        bytes_in_archive=20_000,
    )
    freed = "100.0 kB at once, minus 20.0 kB for the archive"
    assert entry_of("", "", operation, ()).freed == freed
    nothing = replace(operation, bytes_freed=0, bytes_in_archive=0)
    assert not entry_of("", "", nothing, ()).freed


def test_ended_sessions_are_reopened_and_not_brought_back(tmp_path: Path) -> None:
    """As the command says it: their bytes never left."""
    file = tmp_path / "open.jsonl"
    known = {"source": "cli", "started_at": 1_750_000_000, "messages": []}
    file.write_text("".join(json.dumps({"id": name} | known) + "\n" for name in ("one", "two")))
    with holdfast.open(tmp_path / "home", create=True) as home:
        home.import_(file)  # no process holds them
        home.end_sessions(["one", "two"])
        entry = entry_of("", "", home.log.get("1"), ())
        assert again_of(home, entry, "undo").effect == "reopens 2 sessions"
        home.undo("1")
        assert again_of(home, entry, "redo").effect == "ends 2 sessions"
        home.redo("1")
        home.delete("one")
        deleted = entry_of("", "", home.log.list()[0], ())
        assert again_of(home, deleted, "undo").effect.startswith("brings back 1 item, ")


def _run(web: Web) -> str:
    """The address of the whole run."""
    found = re.search(r'href="(/log/runs/[^"]+)"', web.ok("/log").text)
    assert found is not None
    return found[1]


def test_a_run_is_undone_and_done_again_as_a_whole(used: Machine, other: Path, page: Web) -> None:
    gone = used.names()
    log = page.ok("/log")
    assert log.words.count("one run over 2 homes") == 2
    [address] = set(re.findall(r'href="(/log/runs/[^"]+)"', log.text))
    asked = page.ok(address)
    assert "Undo the whole run" in asked.words
    assert asked.words.count("brings back 5 items") == 2
    undone = page.post(f"{address}/undo", hidden(asked))
    assert undone.status == 303, undone
    assert page.ok(undone.place).words.count("5 brought back") == 2
    back = used.names()
    assert back != gone
    assert back == {each.name for each in (other / "sessions").iterdir()}
    again = page.ok(address)
    assert "Redo the whole run" in again.words
    redone = page.post(f"{address}/redo", hidden(again))
    assert redone.status == 303, redone
    assert used.names() == gone == {each.name for each in (other / "sessions").iterdir()}


def test_the_button_of_a_row_asks_about_the_whole_run(page: Web) -> None:
    """One home alone only for whoever opens its operation."""
    address = _run(page)
    button = f'<a class="button small" href="{address}">'
    log = page.ok("/log")
    assert log.text.count(button) == page.ok("/log?home=holdfast").text.count(button) + 1 == 2
    assert not re.search(r'action="/log/[^"]+/undo"', log.text)
    undone = page.post(f"{address}/undo", hidden(page.ok(address)))
    assert undone.status == 303, undone
    log = page.ok("/log")
    assert log.text.count(button) == 2
    assert not re.search(r'href="/log/[^"]+/redo"', log.text)


def test_one_home_of_a_run_is_undone_where_its_operation_is_opened(page: Web) -> None:
    address = _run(page)
    one = re.findall(r'href="(/log/[^"/]+/\d+)">operation', page.ok(address).text)[0]
    opened = page.ok(one)
    assert f'href="{address}"' in opened.text
    assert page.post(f"{one}/undo", hidden(opened)).status == 303
    # Now the page of the run asks about undoing the rest: this home is done again by itself.
    log = page.ok("/log").text
    assert log.count(f'<a class="button small" href="{address}">') == 1
    assert re.findall(r'href="(/log/[^"]+)/redo"', log) == [one]


def test_what_changed_meanwhile_in_one_home_keeps_the_whole_run(
    used: Machine, other: Path, page: Web
) -> None:
    gone = used.names()
    address = _run(page)
    agreed = hidden(page.ok(address))
    first = next(each for each in agreed if each.startswith("agree:"))
    slug, _, number = first.removeprefix("agree:").rpartition(":")
    assert page.post(f"/log/{slug}/{number}/undo").status == 303
    refused = page.post(f"{address}/undo", agreed)
    assert refused.status == 409, refused
    assert used.names() == gone or {each.name for each in (other / "sessions").iterdir()} == gone


def test_a_run_that_no_log_has_is_no_page(page: Web) -> None:
    assert page.get("/log/runs/0123456789abcdef").status == 404
    assert page.post("/log/runs/0123456789abcdef/undo", {}).status == 404

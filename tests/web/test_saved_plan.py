"""Saved plans on the page: opened, applied as the command applies them, refused as it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.model.figures import DiskRoom
from tests.cli.inside import Inside
from tests.cli.machine import Machine
from tests.web.client import Web
from tests.web.forms import hidden

_WRONG = "not the one of this server"


def _saved(machine: Machine, tmp_path: Path, *flags: str) -> bytes:
    """A plan that the command saved."""
    file = tmp_path / "plan.json"
    said = Inside(machine).run("sessions", "prune", "--plan-out", str(file), *flags)
    assert file.exists(), said
    return file.read_bytes()


def test_a_plan_of_the_command_and_of_the_page_is_opened_and_applied(
    used: Machine, tmp_path: Path, web: Web
) -> None:
    names = used.names()
    saved = _saved(used, tmp_path)
    mine = web.ok("/cleanup/plan.json?home=holdfast").text.encode()
    assert json.loads(mine)["plan"]["items"] == json.loads(saved)["plan"]["items"]
    for content in (saved, mine):
        sent = web.send("/cleanup/saved", "../my <plan>.json", content)
        assert sent.status == 303, sent
        shown = web.ok(sent.place)
        assert "my _plan_.json" in shown.words
        assert "5 items" in shown.words
        assert used.names() == names  # nothing happens before somebody agrees
        done = web.post(f"{sent.place}/apply", hidden(shown))
        assert done.status == 303, done
        report = web.ok(done.place)
        assert "5 removed" in report.words
        assert used.names() != names
        assert "apply (page): sessions prune " in web.ok("/log").words
        number = report.text.partition("/log/holdfast/")[2].partition("/")[0]
        assert web.post(f"/log/holdfast/{number}/undo").status == 303
        assert used.names() == names


def test_what_changed_since_is_skipped_and_told(used: Machine, tmp_path: Path, web: Web) -> None:
    sent = web.send("/cleanup/saved", "plan.json", _saved(used, tmp_path))
    plan = json.loads((tmp_path / "plan.json").read_text())["plan"]
    going = next(each for each in plan["items"] if each["action"] == "remove")
    changed = used.home / going["id"]
    changed.write_text(changed.read_text() + "\n")
    done = web.post(f"{sent.place}/apply", hidden(web.ok(sent.place)))
    assert "1 skipped" in web.ok(done.place).words
    assert changed.exists()


def test_on_a_full_disk_it_is_refused_as_any_plan_for_the_trash(
    used: Machine, tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = used.names()
    sent = web.send("/cleanup/saved", "plan.json", _saved(used, tmp_path))
    room = DiskRoom(free=250_000, size=60_000_000)
    monkeypatch.setattr("holdfast.homes.home.Home.disk_room", lambda _: room)
    done = web.post(f"{sent.place}/apply", hidden(web.ok(sent.place)))
    said = web.ok(done.place) if done.status == 303 else done
    assert "Nothing was removed: the disk is full" in said.words
    cleanup = web.post("/cleanup/apply", hidden(web.ok("/cleanup/confirm")))
    assert "Nothing was removed: the disk is full" in web.ok(cleanup.place).words
    assert used.names() == names
    assert not list(used.user.rglob("operations"))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda _: b"[]", "is not a saved plan"),
        (lambda _: b"\xff\r\n--x", "is not a saved plan"),
        (lambda text: text.replace(b"holdfast_plan", b"holdfast_plat"), "is not a saved plan"),
        (lambda text: text.replace(b'"made_at"', b'"made_at "'), "was edited or damaged"),
    ],
    ids=["a list", "no text", "another key", "edited"],
)
def test_what_is_no_plan_is_refused_by_its_name(
    used: Machine, tmp_path: Path, web: Web, edit: object, words: str
) -> None:
    assert callable(edit)
    refused = web.send("/cleanup/saved", "plan.json", edit(_saved(used, tmp_path)))
    assert refused.status == 400, refused
    assert f"plan.json {words}" in refused.words
    assert "/holdfast-web" not in refused.text


def test_a_plan_for_another_home_is_refused(used: Machine, tmp_path: Path, web: Web) -> None:
    saved = _saved(used, tmp_path)
    used.home.rename(used.user / "elsewhere")
    refused = web.send("/cleanup/saved", "plan.json", saved)
    assert refused.status == 400, refused
    assert "not a home on this machine" in refused.words


def test_only_a_form_of_ours_can_send_one(used: Machine, tmp_path: Path) -> None:
    saved = _saved(used, tmp_path)
    with Web(used) as web:
        refused = web.send("/cleanup/saved", "plan.json", saved, token=_WRONG)
        assert refused.status == 400, refused
        assert "not from this server" in refused.words
        assert web.post("/cleanup/saved").status == 400  # without a file
        assert web.get("/cleanup/saved/nothing").status == 404
    with Web(used, read_only=True) as web:
        assert web.send("/cleanup/saved", "plan.json", saved).status == 403
        assert "Open a saved plan" not in web.ok("/cleanup").words


def test_files_that_were_sent_are_few_and_go_with_the_server(
    used: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = _saved(used, tmp_path)
    inside = tmp_path / "temporary"
    inside.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(inside))
    with Web(used) as web:
        for _ in range(6):
            assert web.send("/cleanup/saved", "plan.json", saved).status == 303
        web.send("/cleanup/saved", "plan.json", b"no plan")
        web.send("/cleanup/saved", "plan.json", saved, token=_WRONG)
        assert len(list(inside.rglob("plan.json"))) == 4
    assert not list(inside.rglob("plan.json"))

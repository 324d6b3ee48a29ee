"""What a person sees of machines that share a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.stores import processes
from tests import fleet, postgres
from tests.cli.every_command import Said, say
from tests.fleet import Machine

FIRST, SECOND = "20260101_000000_aaaaaa", "20260102_000000_bbbbbb"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Machine, Machine]:
    a, b = fleet.machines(tmp_path, "alpha", "beta")
    fleet.old_sessions(a, FIRST, SECOND)
    return a, b


def on(machine: Machine, *words: str, code: int = 0) -> Said:
    with machine.open():
        said = say("--home", str(machine.root), *words)
    assert said.code == code, said.text
    return said


def test_log_and_undo_name_the_machine(pair: tuple[Machine, Machine]) -> None:
    a, b = pair
    on(a, "sessions", "prune", "--older-than", "90d", "--yes")
    shown = on(b, "log").text
    assert "machine" in shown.splitlines()[0]
    assert "alpha" in shown
    [operation] = json.loads(on(b, "log", "--json").out)["operations"]
    assert (operation["machine"], operation["own"], operation["elsewhere"]) == ("alpha", False, 2)
    assert "operation 1 (sessions prune" in on(b, "undo", code=1).text
    preview = on(b, "undo", "1", "--dry-run").text
    assert "2 other items of it are on alpha" in preview
    done = on(b, "undo", "1").text
    assert "its copy is on alpha" in done
    assert on(a, "undo", "--yes").code == 0


def test_fleet_status(pair: tuple[Machine, Machine]) -> None:
    a, b = pair
    on(a, "maintain", "--force")
    shown = on(b, "fleet", "status").text
    assert "2 sessions, 12 messages" in shown
    assert "alpha" in shown
    assert "1 machine, 1 home" in shown
    document = json.loads(on(b, "fleet", "status", "--json").out)
    [home] = document["homes"]
    assert home["home"] == str(a.root)
    assert home["figures"]["bytes"] > 0
    assert 0 <= home["maintained"] < 60


def test_a_machine_that_will_not_come_back_is_forgotten(
    pair: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    for each in pair:
        on(each, "maintain", "--force")
    assert "Did you mean alpha?" in on(b, "fleet", "forget", "alpah", code=2).text
    assert "alpha with 1 home is no longer listed" in on(b, "fleet", "forget", "alpha").text
    assert "1 machine, 1 home" in on(b, "fleet", "status").text
    assert "fleet status` lists them" in " ".join(
        on(b, "fleet", "forget", "alpha", code=2).text.split()
    )
    on(a, "maintain", "--force")  # it was not gone after all
    document = json.loads(on(b, "fleet", "forget", "alpha", "--json").out)
    assert document == {"machine": "alpha", "homes": [str(a.root)]}
    monkeypatch.setattr(processes, "host_name", lambda: "beta")
    assert "It is this machine" in on(b, "fleet", "forget", "beta").text
    shown = " ".join(on(a, "fleet", "status").text.split())
    assert "2 homes wrote to it and are forgotten." in shown
    assert json.loads(on(a, "fleet", "status", "--json").out)["forgotten"] == 2


def test_a_home_that_shares_nothing_has_no_fleet(tmp_path: Path) -> None:
    said = say("--home", str(tmp_path), "fleet", "status")
    assert said.code == 2
    assert "no store is configured" in said.text


def test_store_copy(pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    url = postgres.a_database()
    config = (pair[0].root / "config.toml").read_text()
    source = config.split('"')[1]
    said = say("store", "copy", source, str(tmp_path / "copy.db"))
    assert said.code == 0
    assert "2 sessions with 12 messages, every byte compared" in " ".join(said.text.split())
    document = json.loads(say("store", "copy", str(tmp_path / "copy.db"), url, "--json").out)
    assert (document["sessions"], document["complete"]) == (2, True)
    assert "not empty" in say("store", "copy", source, url).text

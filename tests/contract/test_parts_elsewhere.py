"""What agents keep outside the folder of their home: it is shown, and goes and returns with what it
belongs to."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

import holdfast
from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.copilot import Copilot
from holdfast.model.item import LEFTOVER
from tests.contract.agent_homes import NOW
from tests.contract.agents import copilot, kilo
from tests.contract.agents.home import hold


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs these tests may be using the agents."""
    monkeypatch.setattr(life, "running", lambda _: life.Running())


def opened(root: Path) -> holdfast.Home:
    return holdfast.open(root, clock=lambda: NOW)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Two releases of Copilot CLI in the cache of its user, the newer one first by name."""
    copilot.HOME.make(tmp_path / ".copilot")
    place = tmp_path / ".cache" / "copilot" / "pkg" / "linux-x64"
    for release in ("1.0.102", "1.0.99"):
        (place / release).mkdir(parents=True)
        (place / release / "app.js").write_bytes(bytes(300_000))
        for path in (place / release / "app.js", place / release):
            os.utime(path, (NOW - 86_400 * 100, NOW - 86_400 * 100))
    return place


def test_programs_in_the_cache_are_shown_with_their_bytes(packages: Path, tmp_path: Path) -> None:
    root = tmp_path / ".copilot"
    with opened(root) as home:
        inventory = home.status().inventory
    found = {each.id: each.bytes for each in inventory.items if "program" in each.source}
    assert found.keys() == {"old-program/linux-x64-1.0.99", "program/linux-x64-1.0.102"}
    assert all(each >= 300_000 for each in found.values())
    files = [path for path in root.rglob("*") if path.is_file()]
    inside = sum(path.lstat().st_blocks * 512 for path in files)
    assert inventory.total_bytes == inside + sum(found.values())


def test_an_old_program_goes_and_returns(packages: Path, tmp_path: Path) -> None:
    config = tmp_path / ".copilot" / ".holdfast" / "config.toml"
    config.parent.mkdir()
    config.write_text("[sessions.source.old-program]\nleftovers_retention_days = 30\n")
    with opened(tmp_path / ".copilot") as home:
        plan = home.plan_prune()
        gone = [each.id for each in plan.removals if each.kind == LEFTOVER]
        assert gone == ["old-program/linux-x64-1.0.99"]
        plan.apply()
        assert [path.name for path in packages.iterdir()] == ["1.0.102"]
        home.undo_latest()
    assert (packages / "1.0.99" / "app.js").stat().st_size == 300_000


def test_nothing_leaves_the_cache_while_a_session_is_open(packages: Path, tmp_path: Path) -> None:
    hold(tmp_path / ".copilot" / "session-state" / copilot.HOME.whole / "inuse.1.hold")
    with opened(tmp_path / ".copilot") as home:
        kept = [each for each in home.scan().items if each.kind == LEFTOVER]
    assert kept
    assert all(each.alive for each in kept)


def test_a_pid_without_a_lock_counts_as_long_as_it_runs(tmp_path: Path) -> None:
    """As earlier releases of Copilot CLI left it."""
    root = tmp_path / ".copilot"
    copilot.HOME.make(root)
    folder = root / "session-state" / copilot.HOME.whole
    (folder / f"inuse.{os.getpid()}.lock").write_text(str(os.getpid()))
    assert copilot.HOME.whole in Copilot().signs(root, NOW).units
    (folder / f"inuse.{os.getpid()}.hold").touch()  # a later one, which holds no lock
    assert not Copilot().signs(root, NOW).units


def test_what_a_session_of_kilo_may_do_goes_with_it(tmp_path: Path) -> None:
    root = tmp_path / ".local" / "share" / "kilo"
    root.parent.mkdir(parents=True)
    kilo.HOME.make(root)
    name = sha256(kilo.HOME.whole.encode()).hexdigest()
    policy = tmp_path / ".local" / "state" / "kilo-sandbox-policy" / name / "project.json"
    policy.parent.mkdir(parents=True)
    policy.write_text("{}")
    os.utime(policy, (NOW - 86_400 * 100, NOW - 86_400 * 100))
    with opened(root) as home:
        home.delete([kilo.HOME.whole])
        assert not policy.parent.exists()
        home.undo_latest()
    assert policy.read_text() == "{}"

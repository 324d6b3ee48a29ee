"""A format that another package brings, by the real command: one small file does all of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.runner import Result, environment, run
from tests.contract import sample_format
from tests.contract.factory import files_and_rows as snapshot

Command = Callable[..., Result]
CHATS = ("aa01", "bb02", "cc03")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A package with an entry point, installed as pip leaves it."""
    packages = tmp_path / "packages"
    info = packages / "marmot_holdfast-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(sample_format.__file__, packages / "marmot_format.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: marmot-holdfast\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[holdfast.homes]\nmarmot = marmot_format:MarmotFormat\n"
    )
    return packages


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "user" / ".marmot"
    sample_format.make_home(root, CHATS)
    return root


@pytest.fixture
def holdfast(installed: Path, root: Path) -> Command:
    env = environment(root.parent, PYTHONPATH=str(installed))

    def command(*words: str, code: int = 0) -> Result:
        done = run(["--home", str(root), *words], env)
        assert done.code == code, done
        return done

    return command


def test_reading(holdfast: Command) -> None:
    listed = holdfast("sessions", "list", "--json").document["sessions"]
    assert {each["id"] for each in listed} == set(CHATS)
    assert {each["message_count"] for each in listed} == {2}
    assert "hello aa01 zebra" in holdfast("sessions", "show", "aa01").out
    assert "[zebra]" in holdfast("sessions", "search", "zebra").out
    stats = holdfast("sessions", "stats", "--json").document
    assert stats["kind"] == "marmot"
    assert stats["sessions"]["sessions"] == len(CHATS)
    assert '"id":"aa01"' in holdfast("sessions", "export", "aa01").out


def test_prune_and_undo(holdfast: Command, root: Path) -> None:
    before = snapshot(root)
    done = holdfast("sessions", "prune", "--older-than", "30d", "--yes", "--json").document
    assert done["report"]["removed"] == len(CHATS)
    assert holdfast("sessions", "list", "--json").document["sessions"] == []
    holdfast("undo")
    assert snapshot(root) == before


def test_archive_and_restore(holdfast: Command, root: Path) -> None:
    before = snapshot(root)
    holdfast("sessions", "archive", "aa01", "--yes")
    kept = holdfast("sessions", "list", "--archived", "--json").document["sessions"]
    assert [each["id"] for each in kept] == ["aa01"]
    holdfast("sessions", "restore", "aa01", "--yes")
    assert snapshot(root) == before


def test_maintenance_follows_the_configuration(holdfast: Command, root: Path) -> None:
    (root / ".holdfast").mkdir()
    (root / ".holdfast" / "config.toml").write_text("[sessions]\nauto_prune = true\n")
    before = snapshot(root)
    holdfast("maintain", "--force")
    assert holdfast("sessions", "list", "--json").document["sessions"] == []
    holdfast("undo", "--yes")
    assert snapshot(root) == before


def test_the_status_of_the_machine_has_it(installed: Path, root: Path) -> None:
    env = environment(root.parent, PYTHONPATH=str(installed))
    found = run(["status", "--json"], env).document["homes"]
    assert [(each["kind"], each["home"]) for each in found] == [("marmot", str(root))]
    elsewhere = root.rename(root.with_name("elsewhere"))
    named = run(["status", "--json"], env | {"MARMOT_HOME": str(elsewhere)}).document["homes"]
    assert [each["home"] for each in named] == [str(elsewhere)]


def test_a_broken_format_costs_itself(holdfast: Command, installed: Path) -> None:
    [entries] = installed.glob("*.dist-info/entry_points.txt")
    with entries.open("a") as file:
        file.write("broken = no_such_module:thing\nhalf = json:JSONEncoder\n")
    done = holdfast("sessions", "list", "--json")
    assert len(done.document["sessions"]) == len(CHATS)
    assert "broken (no_such_module:thing) cannot be used" in done.err
    assert "half (json:JSONEncoder) cannot be used" in done.err


def test_without_the_package_it_is_no_home(root: Path) -> None:
    done = run(["--home", str(root), "sessions", "list"], environment(root.parent))
    assert done.code == 2
    assert "is not the home of an agent" in done.err


def test_a_home_of_ours_does_not_look_for_packages(tmp_path: Path) -> None:
    """To read the list of installed packages takes longer than most commands."""
    home = tmp_path / "ours"
    (home / "operations").mkdir(parents=True)
    script = (
        "import sys; from pathlib import Path; from holdfast.homes import registry; "
        f"assert registry.kind_of(Path({str(home)!r})).name == 'holdfast'; "
        "assert 'importlib.metadata' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], env=environment(tmp_path), check=True)

"""Refusals and failed hooks are counted where they happen, whichever process that is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.errors import BudgetExceededError, StorageError
from holdfast.hooks import client
from holdfast.hooks.serve import serve
from holdfast.model.figures import Tally
from holdfast.stores.checkpoints.writer import CheckpointWriter
from holdfast.stores.counters import FileTallies
from tests.contract.test_loop import Session, home, project
from tests.guarding import Bench

__all__ = ["home", "project"]

PERL = shutil.which("perl")


def counted(state: Path) -> Mapping[tuple[Tally, str], int]:
    return FileTallies(state).read()


def test_a_tool_over_budget_is_a_refusal(home: Path, project: Path) -> None:
    session = Session(home, project, config="[guard]\nmax_iterations = 1\n")
    assert session.tool().passes
    assert counted(home) == {}
    assert not session.tool().passes
    assert not session.tool().passes
    assert counted(home) == {(Tally.REFUSALS, "claude-code"): 2}


@pytest.mark.parametrize("setting", ["allow", "block"])
def test_a_checkpoint_that_cannot_be_taken_is_a_failure_each_time(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """Also when the user has heard of it, and also when the tool is blocked for it: that is no
    refusal of a guard."""

    def broken(*_: object, **__: object) -> None:
        raise StorageError("The disk is full.")

    monkeypatch.setattr(CheckpointWriter, "take", broken)
    session = Session(home, project, config=f'[hooks]\non_failure = "{setting}"\n')
    for _ in range(3):
        assert session.tool().passes is (setting == "allow")
    assert counted(home) == {(Tally.HOOK_FAILURES, "claude-code"): 3}


def test_what_an_agent_says_that_nobody_understands_is_a_failure(home: Path) -> None:
    home.mkdir()
    (home / "operations").mkdir()
    assert serve("codex", home, b"{").code == 1
    assert counted(home) == {(Tally.HOOK_FAILURES, "codex"): 1}


def test_a_client_that_cannot_load_holdfast_counts_all_the_same(home: Path, tmp_path: Path) -> None:
    """A real process, with a Holdfast beside it that does not load."""
    home.mkdir()
    (home / "config.toml").write_text("[hooks]\nhelper = false\n")
    broken = tmp_path / "broken" / "holdfast" / "hooks"
    broken.mkdir(parents=True)
    (broken.parent / "__init__.py").write_text("")
    (broken / "client.py").write_text(Path(client.__file__).read_text())
    words = [sys.executable, "-I", "-S", str(broken / "client.py"), "codex", "open", str(home)]
    for _ in range(2):
        ran = subprocess.run(words, input=b"{}", capture_output=True, check=False)
        assert (ran.returncode, b"the hook failed" in ran.stderr) == (1, True), ran
    assert counted(home) == {(Tally.HOOK_FAILURES, "codex"): 2}


@pytest.mark.skipif(PERL is None, reason="no Perl")
def test_a_client_in_perl_that_finds_no_python_counts_too(home: Path) -> None:
    script = str(Path(client.__file__).with_name("client.pl"))
    words = [str(PERL), script, "codex", "open", str(home), "/nothing/here"]

    def run() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(words, input=b"{}", capture_output=True, check=False)

    assert b"cannot be started" in run().stderr
    assert not home.exists()
    home.mkdir()
    assert [run().returncode for _ in range(2)] == [1, 1]
    assert counted(home) == {(Tally.HOOK_FAILURES, "codex"): 2}


def test_a_home_that_is_gone_does_not_come_back(home: Path) -> None:
    client._count_failure("codex", str(home))
    FileTallies(home).add(Tally.HOOK_FAILURES, "codex")
    assert not home.exists()


def test_a_guard_that_refuses_counts(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home")
    with bench.open() as sessions:
        guard = bench.guard(sessions, sessions.create(source="cli").id, iterations=1)
        with guard.call():
            pass
        assert counted(bench.root) == {}
        with pytest.raises(BudgetExceededError), guard.call():
            pass
    assert counted(bench.root) == {(Tally.REFUSALS, ""): 1}

"""A benchmark that fails is told, and the others are shown all the same."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The scripts import each other by their bare names."""
    monkeypatch.syspath_prepend(str(BENCH))
    for name in ("report", "contest", "wanted", "plotting", "machine", "baselines"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib


def test_a_script_that_fails_is_told_at_the_end_and_the_others_are_shown(
    load: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "bad.py").write_text("print('## Bad\\n\\nhalf of it', flush=True)\nraise OSError\n")
    (tmp_path / "good.py").write_text("print('## Good\\n\\nall of it')\n")
    report = load.import_module("report")
    monkeypatch.setattr(report, "_HERE", tmp_path)
    monkeypatch.setattr(report, "SCRIPTS", ("bad", "good"))
    monkeypatch.setattr(report, "facts", list)
    monkeypatch.setattr(sys, "argv", ["report.py", "--quick"])
    with pytest.raises(SystemExit, match=r"bench/bad.py failed\.") as ended:
        report.main()
    shown = capsys.readouterr().out
    assert "half of it\n\n\n**bench/bad.py failed here.**" in shown
    assert "all of it" in shown
    assert "good" not in str(ended.value)


_SHARED = """
import os
held = b"x" * (40 << 20)
if os.fork():
    print("ready", flush=True)
    os.wait()
else:
    os.read(0, 1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what processes share")
def test_memory_that_processes_share_counts_once(load: ModuleType) -> None:
    weighing = load.import_module("weighing")
    with subprocess.Popen(
        [sys.executable, "-c", _SHARED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("it was started with pipes")
        assert process.stdout.readline() == b"ready\n"
        megabytes = weighing.megabytes_of(process.pid)
        process.stdin.close()
    assert 40 < megabytes < 75
    assert weighing.megabytes_of(process.pid) == 0


def test_a_contender_that_fails_has_no_figure_and_the_others_have_theirs(
    load: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "works.py").write_text("print('{\"rate\": 8}')\n")
    (tmp_path / "fails.py").write_text(
        "import sys\nif sys.argv[1] == '2': sys.exit('locked')\nprint('{}')\n"
    )
    contest = load.import_module("contest")
    monkeypatch.setattr(contest, "WORKERS", tmp_path)
    both = [
        contest.Contender("ours", Path(sys.executable), "works.py"),
        contest.Contender("theirs", Path(sys.executable), "fails.py"),
    ]
    found = contest.medians(lambda each: each.together([(1,), (2,)])[0]["rate"], both, 1)
    assert found == [8, None]
    assert contest.cell(None, "{:.1f}") == "failed"
    assert contest.ratio(8, None) == ""
    assert [line.strip() for line in contest.failures(both)] == ["theirs failed: `locked`."]

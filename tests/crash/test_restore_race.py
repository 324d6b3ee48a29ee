"""Law 3 against a living writer: nothing that it wrote is overwritten without a copy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.stores.checkpoints.store import ShadowGitStore
from tests import tally

ROOT = Path(__file__).parents[2]
NOW = 1_800_000_000.0


def writer(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.rewriter", str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def race(place: Path, rounds: int) -> None:
    project, busy = place / "project", place / "project" / "busy"
    busy.mkdir(parents=True)
    for number in range(40):
        (busy / f"{number}").write_text("first\n")
    store = ShadowGitStore(place / "store")
    target = store.take(project, reason="first", now=NOW).id or ""
    for turn in range(rounds):
        for number in range(40, 60):  # these are to be deleted
            (busy / f"{number}").write_text("second\n")
        with writer(busy) as process:
            shown = store.preview(target)
            safety = store.secure(target, now=NOW + turn)
            store.restore(target, safety, now=NOW + turn, shown=shown)
            last = json.loads(process.communicate("stop\n")[0])
        held = store.captured(store.get(safety).tree).files
        for name, text in last.items():
            path = busy / name
            there = path.read_text() if path.exists() else None
            if there != text:  # then it was overwritten or deleted, so it was captured before
                assert store.blob(held[f"busy/{name}"].oid).decode() == text
        tally.injected()
        tally.verified()


def test_a_restore_beside_a_writer_loses_nothing_it_wrote(tmp_path: Path) -> None:
    race(tmp_path, 3)


@pytest.mark.deep
def test_a_restore_beside_a_writer_many_times(tmp_path: Path) -> None:
    race(tmp_path, 40)

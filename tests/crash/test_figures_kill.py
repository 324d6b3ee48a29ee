"""Writers of figures and counts, killed at any moment: what they were told is kept, stays."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from holdfast.model.figures import HomeFigures, Tally
from holdfast.stores.counters import FileTallies
from holdfast.stores.figures_file import FiguresFile
from tests import tally
from tests.builders import NOW

ROOT = Path(__file__).parents[2]
#: Adds figures and counts, and says each when it is on the disk. The file is thinned all the time.
WRITER = """
import sys, time
from pathlib import Path
from holdfast.errors import BusyError
from holdfast.model.figures import HomeFigures, Tally
from holdfast.stores import figures_file
from holdfast.stores.counters import FileTallies
figures_file._MOST = 20
state, start, step = Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
number = 0
while True:
    try:
        figures_file.FiguresFile(state).add(HomeFigures(at=start + number * step, bytes=number))
    except BusyError:
        continue
    FileTallies(state).add(Tally.REFUSALS, "codex")
    number += 1
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
    time.sleep(0.003)
"""
WRITERS = 3


@pytest.mark.deep
def test_what_was_kept_stays_when_writers_are_killed(tmp_path: Path) -> None:
    chance = Random(7)
    told = 0
    kept = FiguresFile(tmp_path)
    for turn in range(12):
        # Each turn is an hour of its own, in which all looks are within seconds: of these one
        # stays, the latest, however often the file is thinned.
        start = NOW + turn * 3_600.0
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path), str(start + each), "0.001"],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
            for each in range(WRITERS)
        ]
        for each in writers:
            assert each.stdout is not None
            each.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.15))
        last = []
        for each in writers:
            each.kill()
            out, _ = each.communicate()
            said = int(out.split()[-1]) if out.split() else 1
            last.append(said)
            told += said
        tally.injected(WRITERS)
        latest = start + WRITERS - 1 + (last[-1] - 1) * 0.001
        found = kept.read()
        assert max(each.at for each in found) >= latest
        # Every hour before still has its look.
        hours = {int((each.at - NOW) // 3_600) for each in found}
        assert hours == set(range(turn + 1))
        tally.verified(1)
    kept.add(HomeFigures(at=NOW + 99 * 3_600, bytes=1))
    left = {each.name for each in (tmp_path / "operations").iterdir()}
    assert left == {"figures.jsonl", "figures.lock"}
    # A writer killed between its count and its word has counted one that nobody heard of.
    counted = FileTallies(tmp_path).total(Tally.REFUSALS)
    assert told <= counted <= told + 12 * WRITERS

"""A restore that hits a limit of its process: finished at once, or when it is run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import tally
from tests.cli.checkpoint_bench import taken
from tests.cli.machine import Machine, entries

FILES = 120


def contents(project: Path) -> dict[str, bytes]:
    return {name: each.content for name, each in entries(project).items()}


@pytest.mark.parametrize("limit", [16, 40])
def test_it_finishes_and_says_what_it_wrote(machine: Machine, project: Path, limit: int) -> None:
    for number in range(FILES):
        (project / f"folder {number % 5}").mkdir(exist_ok=True)
        (project / f"folder {number % 5}" / f"{number}").write_text(f"{number}\n")
    before, first = contents(project), taken(machine, project)
    for path in project.glob("folder */*"):
        path.write_text("changed\n")
    changed = contents(project)
    limited = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"]
    result = machine.run("checkpoints", "restore", first, "--yes", before=limited)
    tally.injected()
    assert "Traceback" not in result.err
    if contents(project) == before:
        assert result.code == 0
        assert f"{FILES} written, 0 deleted." in result.words
    else:
        assert result.code != 0
        left = sum(contents(project)[name] != before[name] for name in before)
        again = machine.run("checkpoints", "restore", first, "--yes")
        assert again.code == 0, again
        assert f"{left} written, 0 deleted." in again.words
        assert contents(project) == before
    machine.ok("undo", "--yes")
    assert contents(project) == changed
    tally.verified()


def test_one_that_was_cut_short_says_how_far_it_came_and_goes_on(
    machine: Machine, project: Path
) -> None:
    """No file may be larger than 100 kB for a while: the error comes in the middle of the work."""
    big = project / "z" / "big"
    big.parent.mkdir()
    big.write_bytes(bytes(range(256)) * 800)
    for number in range(5):
        (project / f"{number}").write_text(f"{number}\n")
    before, first = contents(project), taken(machine, project)
    big.write_bytes(b"small")
    for number in range(5):
        (project / f"{number}").write_text("changed\n")
    changed = contents(project)
    limited = ["sh", "-c", 'ulimit -f 200; exec "$@"', "sh"]
    result = machine.run("checkpoints", "restore", first, "--yes", before=limited)
    tally.injected()
    assert result.code == 1
    assert "5 files done" in result.err
    assert "Run the same restore again to finish it" in " ".join(result.err.split())
    again = machine.run("checkpoints", "restore", first, "--yes")
    assert again.code == 0, again
    assert "1 written, 0 deleted." in again.words
    assert contents(project) == before
    machine.ok("undo", "--yes")
    assert contents(project) == changed
    tally.verified()

"""git itself is killed, as the kernel does when memory runs out: a clear error, nothing lost."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from tests import tally
from tests.crash import checkpoint_take_harness as taking
from tests.crash.child import quick


def mortal_git(place: Path, dies_at: int, *, after: bool) -> Path:
    """A git that is killed at its n-th call: before it does anything, or after it has done all."""
    folder, count = place / "mortal", place / "count"
    folder.mkdir()
    real = shutil.which("git")
    work = f'"{real}" "$@"' if after else ":"
    script = folder / "git"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = version ] && exec "{real}" "$@"\n'
        f'echo >> "{count}"\n'
        f'[ "$(wc -l < "{count}")" -eq {dies_at} ] && {{ {work}; kill -9 $$; }}\n'
        f'exec "{real}" "$@"\n'
    )
    script.chmod(0o755)
    return folder


def killed_everywhere(place: Path, scenario: taking.Scenario, *, after: bool) -> int:
    """How often git was killed until the operation had no more of its calls."""
    world = taking.make(place / "world", scenario.checkpoints)
    for dies_at in itertools.count(1):
        for used in (world.root, place / "mortal"):
            shutil.rmtree(used, ignore_errors=True)
        (place / "count").unlink(missing_ok=True)
        shutil.copytree(place / "template", world.root)
        if scenario.before is not None:
            scenario.before(world)
        git = mortal_git(place, dies_at, after=after)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{git}{os.pathsep}{os.environ['PATH']}")
            try:
                scenario.killed(world)
            except HoldfastError as error:
                said = error.message
            else:
                said = ""
        calls = (place / "count").read_text().count("\n") if (place / "count").exists() else 0
        taking.verify(world)
        if calls < dies_at:
            assert said == ""
            return dies_at - 1
        tally.injected()
        tally.verified()
    raise AssertionError("unreachable")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("scenario", quick(taking.SCENARIOS, "reclaim"))
def test_git_is_killed_at_every_call(tmp_path: Path, scenario: str, after: bool) -> None:
    kills = killed_everywhere(tmp_path.resolve(), taking.SCENARIOS[scenario], after=after)
    assert kills > 0 or scenario not in ("first", "reclaim")

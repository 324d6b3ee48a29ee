"""Every operation on every bad day: `python -m tests.crash.bad_day_harness KIND DISK [EVERY]`.

KIND is `disk`, `clock` or `rights`; DISK a folder, for `disk` a small file system of its own. Each
operation meets each fault on a fresh copy of a home. It gets through, or fails with a clear error;
then the fault is over, everything is looked at, and life goes on. Prints how many there were.
"""

from __future__ import annotations

import itertools
import json
import logging
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from holdfast.errors import HoldfastError
from tests.crash.bad_day_faults import FAULTS, Fault
from tests.crash.bad_day_operations import OPERATIONS, SILENT
from tests.crash.bad_day_world import NOW, World, check, make


def meet(world: World, name: str, fault: Fault) -> str:
    """What the operation said: nothing when it got through."""
    bring_about, now = fault
    acknowledged, said = None, ""
    with bring_about(world.root):
        try:
            acknowledged = OPERATIONS[name](world, now)
        except HoldfastError as error:
            said = error.message
            if name in SILENT or not said:
                raise
    check(world, appended=acknowledged, now=max(now, NOW))
    return said


def main(kind: str, place: str, every: str = "1") -> None:
    logging.getLogger("holdfast").addHandler(logging.NullHandler())
    states = refused = 0
    with tempfile.TemporaryDirectory(prefix="holdfast-bad-day-") as scratch:
        root = Path(place) / "world"
        made = make(root)
        template = Path(scratch) / "template"
        shutil.copytree(root, template, symlinks=True)
        met = list(itertools.product(FAULTS[kind].items(), OPERATIONS))
        for (called, fault), name in met[:: int(every)]:
            shutil.rmtree(root)
            shutil.copytree(template, root, symlinks=True)
            try:
                refused += bool(meet(replace(made), name, fault))
            except Exception as error:
                raise AssertionError(f"{name} on a day with {called!r}") from error
            states += 1
    sys.stdout.write(json.dumps({"kills": states, "states": states, "refused": refused}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

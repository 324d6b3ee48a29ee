"""What a run of the tests broke on purpose, and how often it looked at everything afterwards.

A fault is one kill, one full disk, one damaged page, one line of chance bytes. A state is one look
at a whole home or store after it: nothing acknowledged lost, nothing alive touched. Both are
printed at the end of a run, so that a suite which stopped breaking things does not look green.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Tally:
    """The counts of one process."""

    faults: int = 0
    states: int = 0


HERE = Tally()


def injected(faults: int = 1) -> None:
    HERE.faults += faults


def verified(states: int = 1) -> None:
    HERE.states += states

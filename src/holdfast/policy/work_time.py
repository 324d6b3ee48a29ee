"""How long a session was at work, by a clock that nobody can set.

The machine's own clock counts from its start, the same for all its processes. The time between two
looks at it counts; a pause in which no call was in flight counts up to a bound. A machine that was
started anew, or a clock that went back, says nothing of the time between: that counts for nothing.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.model.guard import Work
from holdfast.policy.message_rate import sampled


def ticked(
    work: Work, *, boot: str, at: float, messages: int, in_flight: bool, idle_after: float
) -> Work:
    """What is remembered after a look at the clock, `in_flight` saying whether a call was."""
    goes_on = work.boot == boot and work.ticked is not None and at >= work.ticked
    passed = at - work.ticked if goes_on and work.ticked is not None else 0.0
    counted = passed if in_flight else min(passed, idle_after)
    return replace(
        work,
        guarded=replace(work.guarded, seconds=work.guarded.seconds + counted),
        boot=boot,
        ticked=at,
        samples=sampled(work.samples if goes_on else (), at, messages),
    )

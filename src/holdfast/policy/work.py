"""How long a session was at work, and how many messages came in the last minute.

Times are those of the machine's own clock, which counts from its start, is the same for all its
processes, and cannot be set. The time between two looks at it counts; a pause in which no call was
in flight counts up to a limit. After a restart of the machine, or if the clock went back, the time
since the last look is unknown and counts for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.model.guard import Sample, Work
from holdfast.policy.budgets import MINUTE
from holdfast.value import replace

#: Samples closer than this add nothing, so there are never many more than sixty.
_APART = 1.0


def ticked(
    work: Work, *, boot: str, at: float, messages: int, in_flight: bool, idle_after: float
) -> Work:
    """What to remember after a look at the clock. `in_flight`: a call was running until then."""
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


def in_last_minute(samples: Sequence[Sample], at: float, messages: int) -> int:
    """The messages of the last minute, of a session that has `messages` now. Between two samples,
    messages are taken to have come evenly. Those from before the first sample do not count: nobody
    knows when they came."""
    if not samples:
        return 0
    start = at - MINUTE
    before = [sample for sample in samples if sample.at <= start]
    if not before:
        return messages - samples[0].messages
    old = before[-1]
    later = (sample for sample in samples if sample.at > start)
    new = next(later, Sample(at=at, messages=messages))
    share = (start - old.at) / (new.at - old.at)
    return messages - math.ceil(old.messages + share * (new.messages - old.messages))


def sampled(samples: Sequence[Sample], at: float, messages: int) -> tuple[Sample, ...]:
    """The samples with this one added: those of the last minute, and the one before them."""
    if not samples:
        return (Sample(at=at, messages=messages),)
    start = at - MINUTE
    inside = [sample for sample in samples if sample.at > start]
    before = [sample for sample in samples if sample.at <= start][-1:]
    if at - samples[-1].at >= _APART:
        inside.append(Sample(at=at, messages=messages))
    return (*before, *inside)

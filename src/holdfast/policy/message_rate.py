"""How many messages came in the last minute, from what was seen at each call.

Times are those of the machine's own clock. Between two samples messages are taken to have come
evenly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from holdfast.model.guard import Sample
from holdfast.policy.budgets import MINUTE

#: Samples closer than this say nothing new; so there are never many more than sixty.
_APART = 1.0


def in_last_minute(samples: Sequence[Sample], at: float, messages: int) -> int:
    """Of a session that has so many messages now. What was there before the first sample is not
    held against it: nobody knows when that came."""
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
    """The samples with this one: those of the last minute, and the one before them."""
    if not samples:
        return (Sample(at=at, messages=messages),)
    start = at - MINUTE
    inside = [sample for sample in samples if sample.at > start]
    before = [sample for sample in samples if sample.at <= start][-1:]
    if at - samples[-1].at >= _APART:
        inside.append(Sample(at=at, messages=messages))
    return (*before, *inside)

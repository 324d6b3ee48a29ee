"""A guard's records about a session, as columns and as values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from holdfast.model.guard import Estimate, Guarded, Reservation, Sample, Work
from holdfast.model.session import Tokens
from holdfast.model.stored_session import Holder
from holdfast.stores.sessions.session_rows import dump_booked

#: Name of the fact that holds which budget warnings were given, and on which day.
WARNED_TODAY = "warned_today"
#: The columns of `guarded` that are not part of a session.
CLOCK = ("boot", "ticked", "samples", "warned")
#: The columns that change with each call.
COUNTED = ("iterations", "seconds", "boot", "ticked")


def work_of(guarded: Guarded | None, row: Sequence[Any] | None) -> Work:
    """The work of a session from its `guarded` value and the columns in `CLOCK`; `row` is None for
    a session that never had a guard."""
    if row is None:
        return Work()
    boot, ticked, samples, warned = row
    return Work(
        guarded=guarded or Guarded(),
        boot=boot,
        ticked=ticked,
        samples=_samples(samples),
        warned=tuple(json.loads(warned)) if warned else (),
    )


@lru_cache(maxsize=64)  # like `load_booked`
def _samples(text: str | None) -> tuple[Sample, ...]:
    return tuple(Sample(at=at, messages=count) for at, count in json.loads(text or "[]"))


def kept_columns(work: Work) -> tuple[object, ...]:
    """A row of `guarded`, without its session."""
    samples = [[sample.at, sample.messages] for sample in work.samples]
    return (
        work.guarded.iterations,
        work.guarded.seconds,
        dump_booked(work.guarded.booked),
        work.boot,
        work.ticked,
        json.dumps(samples) if samples else None,
        json.dumps(list(work.warned)) if work.warned else None,
    )


def counted_columns(work: Work, was: Work) -> tuple[object, ...] | None:
    """The columns in `COUNTED`, if only they have to be written."""
    same = (
        work.samples is was.samples
        and work.guarded.booked is was.guarded.booked
        and work.warned == was.warned
        and was.ticked is not None  # the row exists
    )
    return (work.guarded.iterations, work.guarded.seconds, work.boot, work.ticked) if same else None


def reservation(row: Sequence[Any]) -> Reservation:
    number, session_id, source, host, boot, process, started, made_at, *expected = row
    tokens_in, tokens_out, cost = expected
    return Reservation(
        number=number,
        session_id=session_id,
        source=source,
        holder=Holder(host=host, boot=boot, process=process, started=started),
        made_at=made_at,
        estimate=Estimate(tokens=Tokens(input=tokens_in, output=tokens_out), cost=cost),
    )

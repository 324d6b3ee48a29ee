"""What guards keep of a session, as columns and as values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from holdfast.model.guard import Estimate, Guarded, Reservation, Sample, Work
from holdfast.model.session import Tokens
from holdfast.model.stored_session import Holder
from holdfast.stores.sessions.session_rows import (
    dump_booked,
    load_booked,
)

#: The fact that holds which warnings of a day's budgets were told, and of which day.
WARNED_TODAY = "warned_today"


def work_of(row: Sequence[Any]) -> Work:
    """What a row of `guarded` says, without its session."""
    iterations, seconds, booked, boot, ticked, samples, warned = row
    return Work(
        guarded=Guarded(iterations=iterations, seconds=seconds, booked=load_booked(booked)),
        boot=boot,
        ticked=ticked,
        samples=tuple(Sample(at=at, messages=count) for at, count in json.loads(samples or "[]")),
        warned=tuple(json.loads(warned or "[]")),
    )


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
